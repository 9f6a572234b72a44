/* cq-too-small: two queue pairs share a completion queue that has room for one. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.cqe = 4;
	r.depth = 4;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	for (int q = 0; q <= MISTAKE; q++)
		for (int i = 0, n = MISTAKE ? 4 : r.cq->cqe; i < n && i < 4; i++)
			CHECK(!rig_from(&r, q, IBV_WR_SEND, r.buf, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
	rig_stop(&r);
	rig_end(&r);
	return 0;
}

/* cq-too-small: more signaled work under way than the completion queue has room for. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.cqe = 4;
	r.depth = 128;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	for (int i = 0, n = MISTAKE ? r.cq->cqe + 1 : r.cq->cqe; i < n; i++)
		CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
	rig_stop(&r);
	rig_end(&r);
	return 0;
}

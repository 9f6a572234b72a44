/* freed-while-posted, use-after-dereg: a region is deregistered while its peer has no receive for it, so before the completion. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *from;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(from = ibv_reg_mr(r.pd, r.buf, 4096, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, from->lkey, 64, 0, 0, 0));
	if (MISTAKE)
		CHECK(!ibv_dereg_mr(from)); /* LINE */
	rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	rig_poll(&r);
	if (!MISTAKE) {
		rig_poll(&r);
		CHECK(!ibv_dereg_mr(from));
	}
	rig_end(&r);
	return 0;
}

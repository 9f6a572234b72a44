/* freed-while-posted, use-after-dereg: the region of a READ is deregistered before the READ has completed. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf, 4096, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, to->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	if (MISTAKE)
		CHECK(!ibv_dereg_mr(to)); /* LINE */
	rig_go(&r);
	rig_poll(&r);
	if (!MISTAKE)
		CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

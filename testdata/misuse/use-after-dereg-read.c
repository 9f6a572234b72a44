/* use-after-dereg: a peer reads a region that was deregistered. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf + 4096, 4096, ALL));
	uint32_t rkey = to->rkey;
	rig_connect(&r);
	if (MISTAKE)
		CHECK(!ibv_dereg_mr(to)); /* LINE */
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, rkey, 0));
	rig_poll(&r);
	if (!MISTAKE)
		CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

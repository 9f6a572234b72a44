/* use-after-dereg: a work request names the lkey of a region that was deregistered. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *from;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(from = ibv_reg_mr(r.pd, r.buf, 4096, ALL));
	uint32_t lkey = from->lkey;
	rig_connect(&r);
	if (MISTAKE)
		CHECK(!ibv_dereg_mr(from));
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	if (!MISTAKE)
		CHECK(!ibv_dereg_mr(from));
	rig_end(&r);
	return 0;
}

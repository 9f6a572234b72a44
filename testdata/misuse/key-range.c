/* key-range: an access that ends 3 bytes past the end of its region. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, 4096, ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096 - 64 + 3 * MISTAKE, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* race-read: one queue pair reads what another one writes. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 2048, r.mr->rkey, 0));
	CHECK(!rig_from(&r, 1, IBV_WR_RDMA_READ, r.buf + 1024, r.mr->lkey, 64, r.buf + 2048 + 64 * !MISTAKE, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	rig_go(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

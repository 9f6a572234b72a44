/* overlapping-reads: two READs into the same memory. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.rd_atomic = r.dest_rd_atomic = 4;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf + (MISTAKE ? 63 : 64), r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_go(&r);
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

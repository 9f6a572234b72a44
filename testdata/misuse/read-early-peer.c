/* read-early: another queue pair sends from the memory of a READ that has not completed; a fence does not help. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	if (!MISTAKE) {
		rig_go(&r);
		rig_poll(&r);
	}
	CHECK(!rig_from(&r, 1, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 8, r.buf + 2048, r.mr->rkey, IBV_SEND_FENCE)); /* LINE */
	rig_poll(&r);
	if (MISTAKE) {
		rig_go(&r);
		rig_poll(&r);
	}
	rig_end(&r);
	return 0;
}

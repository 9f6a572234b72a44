/* read-early: a message is sent from the memory of a READ that has not completed. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 8, r.buf + 2048, r.mr->rkey, MISTAKE ? 0 : IBV_SEND_FENCE)); /* LINE */
	rig_go(&r);
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

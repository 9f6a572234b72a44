/* overlapping-receives: a READ writes to the memory of a posted receive. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf + (MISTAKE ? 32 : 64), r.mr->lkey, 8, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* the receive has completed */
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

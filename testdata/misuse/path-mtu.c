/* path-mtu: one end has a path MTU of 2048, the other of 1024. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.mtu[0] = MISTAKE ? IBV_MTU_2048 : IBV_MTU_1024;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r); /* LINE */
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 4096, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* rd-atomic: four READs at once to a queue pair that takes one. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.rd_atomic = 4;
	r.dest_rd_atomic = MISTAKE ? 1 : 4;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	for (int i = 0; i < 4; i++)
		rig_post(&r, IBV_WR_RDMA_READ, r.buf + 1024 * i, r.mr->lkey, 1024, r.buf + 4096, r.mr->rkey, 0); /* LINE */
	rig_go(&r);
	for (int i = 0; i < 4; i++)
		rig_poll(&r);
	rig_end(&r);
	return 0;
}

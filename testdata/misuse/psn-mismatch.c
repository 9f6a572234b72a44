/* psn-mismatch: the first PSN of one end is not what the other expects. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.retry = 1;
	r.timeout = 8;
	r.sq_psn[0] = 0x100;
	r.rq_psn[1] = MISTAKE ? 0x200 : 0x100;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

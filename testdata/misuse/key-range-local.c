/* key-range: a gather list that begins before its region. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf + 64, 4096, ALL));
	rig_connect(&r);
	rig_post(&r, IBV_WR_RDMA_WRITE, r.buf + 64 - 8 * MISTAKE, r.mr->lkey, 64, r.buf + 1024, r.mr->rkey, 0); /* LINE */
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

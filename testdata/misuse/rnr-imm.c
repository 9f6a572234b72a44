/* rnr: a WRITE with immediate data needs a receive, too. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.rnr_retry = 1;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	if (!MISTAKE)
		rig_recv(&r, r.buf, r.mr->lkey, 0);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE_WITH_IMM, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	if (!MISTAKE)
		rig_poll(&r);
	rig_end(&r);
	return 0;
}

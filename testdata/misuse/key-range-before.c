/* key-range: a WRITE that begins before its region. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf + 4096, 4096, ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096 - MISTAKE, to->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

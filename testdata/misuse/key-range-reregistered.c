/* key-range: a region was made again, smaller, for the same buffer, and its peer has the old length. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf + 4096, 4096, ALL));
	CHECK(!ibv_dereg_mr(to));
	CHECK(to = ibv_reg_mr(r.pd, r.buf + 4096, 2048, ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, MISTAKE ? 4096 : 2048, r.buf + 4096, to->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

/* key-right: a READ into a region that is not writable. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf, 4096, MISTAKE ? 0 : IBV_ACCESS_LOCAL_WRITE)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, to->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

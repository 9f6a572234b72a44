/* key-domain: the gather list has a key of another protection domain. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *other;

	CHECK(r.pd2 = ibv_alloc_pd(r.ctx));
	CHECK(r.mr = ibv_reg_mr(r.pd2, r.buf, SIZE, ALL));
	CHECK(other = ibv_reg_mr(MISTAKE ? r.pd2 : r.pd, r.buf, SIZE, ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, other->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(other));
	rig_end(&r);
	return 0;
}

/* key-right: a READ from a region that peers may only write. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (MISTAKE ? 0 : IBV_ACCESS_REMOTE_READ))); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

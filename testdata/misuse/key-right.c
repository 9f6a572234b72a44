/* key-right: a WRITE to a region that only its owner may write. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | (MISTAKE ? 0 : IBV_ACCESS_REMOTE_WRITE))); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* key-unknown: the gather list has 0 instead of a key. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, MISTAKE ? 0 : r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* send-buffer-changed: the memory of a WRITE changes before the WRITE has completed. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_hold(&r);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096, r.mr->rkey, 0)); /* LINE */
	r.buf[63 + !MISTAKE] = 1;
	rig_go(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

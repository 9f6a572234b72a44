/* no-signal: no work request is signaled, so nothing says that the send queue has room. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.unsignaled = 1;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	for (int i = 1; i <= r.depth + 2 * MISTAKE; i++) {
		int signaled = !MISTAKE && i % r.depth == 0;
		while (rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 8, r.buf + 4096, r.mr->rkey, signaled ? IBV_SEND_SIGNALED : 0)) /* LINE */
			;
		if (signaled)
			rig_poll(&r);
	}
	rig_end(&r);
	return 0;
}

/* send-buffer-changed: a posted buffer is reused before its message has arrived, and not just before its completion. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(r.recv_cq = ibv_create_cq(r.ctx, 16, NULL, NULL, 0));
	rig_connect(&r);
	memset(r.buf, 'a', 64);
	if (!MISTAKE)
		rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0)); /* LINE */
	if (!MISTAKE)
		rig_poll_of(r.recv_cq); /* as an answer tells that the message is there */
	memset(r.buf, 'b', 64);
	if (MISTAKE) {
		rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
		rig_poll_of(r.recv_cq);
	}
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

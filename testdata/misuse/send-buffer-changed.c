/* send-buffer-changed: a posted buffer is reused while its peer has no receive, so before its completion. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	memset(r.buf, 'a', 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, MISTAKE ? 0 : IBV_SEND_INLINE)); /* LINE */
	memset(r.buf, 'b', 64); /* inline data was copied by ibv_post_send */
	rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

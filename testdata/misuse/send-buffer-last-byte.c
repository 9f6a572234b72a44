/* send-buffer-changed: the last byte of a long message changes before its completion. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 4096, 0, 0, 0)); /* LINE */
	r.buf[MISTAKE ? 4095 : 4096] = 1;
	rig_recv(&r, r.buf + 4096, r.mr->lkey, 4096);
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* recv-too-short: a message that is longer than the receive. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf + 4096, r.mr->lkey, MISTAKE ? 32 : 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

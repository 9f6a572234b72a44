/* rnr: a message comes before its receive, and the sender does not try again. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.rnr_retry = 1;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	if (!MISTAKE)
		rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	if (!MISTAKE)
		rig_poll(&r);
	rig_end(&r);
	return 0;
}

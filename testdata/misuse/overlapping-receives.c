/* overlapping-receives: two receives of a queue pair have one byte in common. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf, r.mr->lkey, 64);
	rig_recv(&r, r.buf + (MISTAKE ? 63 : 64), r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	for (int i = 0; i < 4; i++)
		CHECK(rig_poll(&r) == IBV_WC_SUCCESS);
	rig_recv(&r, r.buf, r.mr->lkey, 64); /* the memory is free again */
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* recv-buffer-touched: the program clears the memory of a receive that it has posted. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *other;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	memset(r.buf, 1, 128);
	rig_recv(&r, r.buf, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	rig_poll(&r);
	if (!MISTAKE)
		memset(r.buf + 64, 0, 64);
	rig_recv(&r, r.buf + 64, r.mr->lkey, 64);
	CHECK(other = ibv_reg_mr(r.pd, r.buf, SIZE, ALL)); /* a call, so that the receive is seen */
	if (MISTAKE)
		memset(r.buf + 64, 0, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(other));
	rig_end(&r);
	return 0;
}

/* recv-too-short: a message for a receive without memory. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	CHECK(!ibv_post_recv(r.qp[1], &wr, &bad));
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, MISTAKE, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* rnr-timer-zero: min_rnr_timer is 0, which is the longest time. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = MISTAKE ? 0 : 1};
	CHECK(!ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER)); /* LINE */
	rig_recv(&r, r.buf, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

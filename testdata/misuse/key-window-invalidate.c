/* key-window: a message invalidates the key of a region. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	struct ibv_sge sge = {(uintptr_t)r.buf, 64, r.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = MISTAKE ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND}, *bad;
	wr.invalidate_rkey = r.mr->rkey;
	CHECK(!ibv_post_send(r.qp[0], &wr, &bad)); /* LINE */
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

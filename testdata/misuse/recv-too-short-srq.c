/* recv-too-short: a message is longer than the receive of a shared queue. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	struct ibv_sge sge = {(uintptr_t)r.buf + 4096, MISTAKE ? 2048 : 4096, r.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(!ibv_post_srq_recv(r.srq, &wr, &bad));
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 4096, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* rnr: a message finds an empty shared receive queue, and its sender gives up. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	r.rnr_retry = 1;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	struct ibv_sge sge = {(uintptr_t)r.buf + 4096, 64, r.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	if (!MISTAKE)
		CHECK(!ibv_post_srq_recv(r.srq, &wr, &bad));
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0)); /* LINE */
	rig_poll(&r);
	if (!MISTAKE)
		rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* recv-buffer-touched: the program changes the memory of a receive of a shared queue. */
#include "rig.h"

static void post(struct rig *r, char *to)
{
	struct ibv_sge sge = {(uintptr_t)to, 64, r->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_srq_recv(r->srq, &wr, &bad));
}

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	post(&r, r.buf);
	post(&r, r.buf + 64);
	for (int i = 0; i < 2; i++) {
		CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
		rig_poll(&r);
		rig_poll(&r);
		r.buf[MISTAKE ? 64 : 0] = 1; /* the first message has come, the second not */
		post(&r, r.buf + 128 + 64 * i);
	}
	rig_end(&r);
	return 0;
}

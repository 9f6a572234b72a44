/* overlapping-receives: two receives of a shared queue have the same memory. */
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
	struct ibv_srq_attr attr;

	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	post(&r, r.buf);
	post(&r, r.buf + (MISTAKE ? 0 : 64));
	for (int i = 0; i < 2; i++)
		CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0)); /* LINE */
	for (int i = 0; i < 4; i++)
		CHECK(rig_poll(&r) == IBV_WC_SUCCESS);
	CHECK(!ibv_query_srq(r.srq, &attr));
	post(&r, r.buf);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

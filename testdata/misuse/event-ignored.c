/* event-ignored: the program asks to be told that few receives are left, and does not read the event. */
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
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event;

	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	post(&r, r.buf);
	post(&r, r.buf + 64);
	CHECK(!ibv_modify_srq(r.srq, &limit, IBV_SRQ_LIMIT));
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	if (!MISTAKE) {
		CHECK(!ibv_get_async_event(r.ctx, &event));
		CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
		ibv_ack_async_event(&event);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(r.qp[i]));
		r.qp[i] = NULL;
	}
	CHECK(!ibv_destroy_srq(r.srq)); /* LINE */
	r.srq = NULL;
	rig_end(&r);
	return 0;
}

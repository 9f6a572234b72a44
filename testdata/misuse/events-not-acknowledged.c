/* events-not-acknowledged, leak: a completion event is read and never acknowledged, so ibv_destroy_cq waits for ever. */
#include "rig.h"
#include <pthread.h>

/* libibverbs waits here, for ever: the user ends the program. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)cond;
	(void)mutex;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	void *unused;

	CHECK(channel = ibv_create_comp_channel(r.ctx));
	CHECK(r.recv_cq = ibv_create_cq(r.ctx, 4, NULL, channel, 0));
	CHECK(!ibv_req_notify_cq(r.recv_cq, 0));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf, r.mr->lkey, 64);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
	CHECK(!ibv_get_cq_event(channel, &cq, &unused));
	rig_poll(&r);
	rig_poll_of(cq);
	if (!MISTAKE)
		ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(r.qp[i]));
		r.qp[i] = NULL;
	}
	CHECK(!ibv_destroy_cq(r.recv_cq)); /* LINE */
	r.recv_cq = NULL;
	CHECK(!ibv_destroy_comp_channel(channel));
	rig_end(&r);
	return 0;
}

/* events-not-acknowledged, leak: an event of a queue pair is read and never acknowledged, so ibv_destroy_qp waits for ever. */
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
	struct ibv_async_event event;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	CHECK(r.srq = ibv_create_srq(r.pd, &init));
	rig_connect(&r);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE)); /* the last message of its SRQ has come */
	CHECK(!ibv_get_async_event(r.ctx, &event));
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == r.qp[1]);
	if (!MISTAKE)
		ibv_ack_async_event(&event);
	CHECK(!ibv_destroy_qp(r.qp[1])); /* LINE */
	r.qp[1] = NULL;
	rig_end(&r);
	return 0;
}

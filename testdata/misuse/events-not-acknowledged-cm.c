/* events-not-acknowledged, leak: an event of RDMA CM is read and never acknowledged, so rdma_destroy_id waits for ever. */
#include "rig.h"
#include <pthread.h>
#include <rdma/rdma_cma.h>

/* librdmacm waits here, for ever: the user ends the program. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)cond;
	(void)mutex;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct rdma_cm_event *event;
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP}, *to;

	(void)argv;
	CHECK(!rdma_getaddrinfo(getenv("GORXE_ADDRESS"), "1", &hints, &to));
	CHECK(channel = rdma_create_event_channel());
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, to->ai_dst_addr, 2000));
	CHECK(!rdma_get_cm_event(channel, &event) && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	if (argc > 1)
		CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(id)); /* LINE */
	rdma_destroy_event_channel(channel);
	rdma_freeaddrinfo(to);
	return 0;
}

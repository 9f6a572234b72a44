/* Each call of librdmacm that reaches the device. The queue pairs do not matter, so there are none. */
#include "faulty.h"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

static struct sockaddr_in address = {.sin_family = AF_INET};

/* Waits for an event, and returns its id. */
static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	CHECK("rdma_get_cm_event", !rdma_get_cm_event(channel, &e));
	if (e->event != want) {
		fprintf(stderr, "%s, status %d, not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(want));
		exit(1);
	}
	id = e->id;
	CHECK("rdma_ack_cm_event", !rdma_ack_cm_event(e));
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK("rdma_create_id", !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK("rdma_resolve_addr", !rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK("rdma_resolve_route", !rdma_resolve_route(id, 2000));
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

/* Joins two groups, because librdmacm forgets a group even if it cannot leave. */
static void groups(struct rdma_event_channel *channel)
{
	struct sockaddr_in own = address, group[2] = {{.sin_family = AF_INET}, {.sin_family = AF_INET}};
	struct rdma_cm_id *id;
	int left = 0;

	own.sin_port = 0;
	CHECK("rdma_create_id", !rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	CHECK("rdma_bind_addr", !rdma_bind_addr(id, (struct sockaddr *)&own));
	for (int i = 0; i < 2; i++)
		group[i].sin_addr.s_addr = htonl(0xefff4e01 + i);
	MINUS("rdma_join_multicast", rdma_join_multicast(id, (struct sockaddr *)&group[0], NULL));
	expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK("rdma_join_multicast", !rdma_join_multicast(id, (struct sockaddr *)&group[1], NULL));
	expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	MINUS("rdma_leave_multicast", rdma_leave_multicast(id, (struct sockaddr *)&group[left++]));
	CHECK("rdma_destroy_id", !rdma_destroy_id(id));
}

void all_cm(const char *text)
{
	struct rdma_event_channel *here, *there, *first;
	struct rdma_cm_id *listener, *id, *asked;
	/* Of its own: a device refuses a second connection of one queue pair (stale connection). */
	uint32_t qpn = getpid() << 2 & 0xffffff;
	struct rdma_conn_param param = {.qp_num = qpn + 1, .retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	uint8_t tos = 32;
	int mask;

	CHECK(text, inet_pton(AF_INET, text, &address.sin_addr) == 1);
	CHECK("rdma_create_event_channel", here = rdma_create_event_channel());
	CHECK("rdma_create_event_channel", there = rdma_create_event_channel());
	CHECK("rdma_create_event_channel", first = rdma_create_event_channel());
	MINUS("rdma_create_id", rdma_create_id(there, &listener, NULL, RDMA_PS_TCP));
	MINUS("rdma_bind_addr", rdma_bind_addr(listener, (struct sockaddr *)&address));
	MINUS("rdma_listen", rdma_listen(listener, 4));
	address.sin_port = rdma_get_src_port(listener);

	CHECK("rdma_create_id", !rdma_create_id(first, &id, NULL, RDMA_PS_TCP));
	MINUS("rdma_migrate_id", rdma_migrate_id(id, here));
	MINUS("rdma_set_option", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
	MINUS("rdma_resolve_addr", rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
	expect(here, RDMA_CM_EVENT_ADDR_RESOLVED);
	MINUS("rdma_resolve_route", rdma_resolve_route(id, 2000));
	expect(here, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MINUS("rdma_init_qp_attr", rdma_init_qp_attr(id, &attr, &mask));
	MINUS("rdma_connect", rdma_connect(id, &param));
	asked = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	MINUS("rdma_reject", rdma_reject(asked, NULL, 0));
	expect(here, RDMA_CM_EVENT_REJECTED);
	MINUS("rdma_destroy_id", rdma_destroy_id(id));
	CHECK("rdma_destroy_id", !rdma_destroy_id(asked));

	id = resolved(here);
	param.qp_num = qpn + 2;
	CHECK("rdma_connect", !rdma_connect(id, &param));
	asked = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	param.qp_num = qpn + 3;
	MINUS("rdma_accept", rdma_accept(asked, &param));
	expect(here, RDMA_CM_EVENT_CONNECT_RESPONSE);
	/* A queue pair of the passive side that gets a message before the last packet of the handshake. */
	MINUS("rdma_notify", rdma_notify(asked, IBV_EVENT_COMM_EST));
	expect(there, RDMA_CM_EVENT_ESTABLISHED);
	CHECK("rdma_establish", !rdma_establish(id));
	MINUS("rdma_disconnect", rdma_disconnect(id));
	expect(there, RDMA_CM_EVENT_DISCONNECTED);
	groups(first);
	CHECK("rdma_destroy_id", !rdma_destroy_id(id) && !rdma_destroy_id(asked) && !rdma_destroy_id(listener));
}

/*
 * cmpeer: a program of librdmacm that makes one call for each command. It has no queue
 * pair, so nothing happens behind the test's back. A test holds a connection in each of
 * its states this way. Ids have small numbers that the test chooses. The id of a
 * connection request gets the first number that is free.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "../commands/commands.h"

enum { IDS = 16 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[IDS];

/* numbered returns the id that the command names. */
static struct rdma_cm_id **numbered(void) { return &ids[number("id", 0) % IDS]; }

static int number_of(const struct rdma_cm_id *id)
{
	int i;

	for (i = 0; i < IDS && ids[i] != id; i++)
		;
	return i < IDS ? i : -1;
}

/* address reads addr=... and port=... */
static int address(struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
	char text[INET6_ADDRSTRLEN] = "";
	const char *from = value("addr");

	memset(to, 0, sizeof *to);
	if (from)
		strncpy(text, from, sizeof text - 1);
	text[strcspn(text, " ")] = 0;
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(number("port", 0));
		return 0;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(number("port", 0));
	return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1 ? 0 : -1;
}

/* begin makes the id that the command names, for ps=tcp or ps=udp. */
static int begin(struct rdma_cm_id **id)
{
	const char *space = value("ps");
	int udp = space && !strncmp(space, "udp", 3);

	return rdma_create_id(channel, id, NULL, udp ? RDMA_PS_UDP : RDMA_PS_TCP);
}

static void do_listen(void)
{
	struct rdma_cm_id **id = numbered();
	struct sockaddr_storage at;

	if (address(&at) || begin(id) || rdma_bind_addr(*id, (struct sockaddr *)&at))
		fails("rdma_bind_addr", 0);
	else
		answer("rdma_listen", rdma_listen(*id, 0));
}

static void do_resolve(void)
{
	struct rdma_cm_id **id = numbered();
	struct sockaddr_storage to;

	if (address(&to) || begin(id))
		fails("rdma_create_id", 0);
	else
		answer("rdma_resolve_addr", rdma_resolve_addr(*id, NULL, (struct sockaddr *)&to, number("ms", 2000)));
}

static void do_route(void) { answer("rdma_resolve_route", rdma_resolve_route(*numbered(), number("ms", 2000))); }

static struct rdma_conn_param param(void)
{
	return (struct rdma_conn_param){
		.qp_num = number("qpn", 0), .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7,
	};
}

static void do_connect(void)
{
	struct rdma_conn_param p = param();

	answer("rdma_connect", rdma_connect(*numbered(), &p));
}

static void do_accept(void)
{
	struct rdma_conn_param p = param();

	answer("rdma_accept", rdma_accept(*numbered(), &p));
}

static void do_establish(void) { answer("rdma_establish", rdma_establish(*numbered())); }

static void do_reject(void) { answer("rdma_reject", rdma_reject(*numbered(), NULL, 0)); }

static void do_disconnect(void) { answer("rdma_disconnect", rdma_disconnect(*numbered())); }

static void do_destroy(void)
{
	struct rdma_cm_id **id = numbered();
	int failed = rdma_destroy_id(*id);

	if (!failed)
		*id = NULL;
	answer("rdma_destroy_id", failed);
}

/* do_event waits for an event, up to ms=... milliseconds. */
static void do_event(void)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status, free_number;

	if (poll(&readable, 1, number("ms", 0)) != 1) {
		say("error no event");
		return;
	}
	if (rdma_get_cm_event(channel, &event)) {
		fails("rdma_get_cm_event", 0);
		return;
	}
	id = event->id;
	type = event->event;
	status = event->status;
	rdma_ack_cm_event(event);
	free_number = number_of(NULL);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && free_number >= 0)
		ids[free_number] = id;
	say("ok event=%s status=%d id=%d", rdma_event_str(type) + strlen("RDMA_CM_EVENT_"), status, number_of(id));
}

static const struct command commands[] = {
	{ "listen", do_listen }, { "resolve", do_resolve }, { "route", do_route }, { "connect", do_connect },
	{ "accept", do_accept }, { "establish", do_establish }, { "reject", do_reject },
	{ "disconnect", do_disconnect }, { "destroy", do_destroy }, { "event", do_event },
};

int main(void)
{
	channel = rdma_create_event_channel();
	if (!channel) {
		fails("rdma_create_event_channel", 0);
		return 1;
	}
	say("ok");
	return serve(commands, sizeof commands / sizeof commands[0]);
}

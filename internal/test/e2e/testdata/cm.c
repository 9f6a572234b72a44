// Programs that use librdmacm in ways in which the tools of rdmacm-utils do not. The first
// argument names one. Each prints "ok" if all is well.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in address;
static struct rdma_event_channel *channel;
static volatile sig_atomic_t handled;

static void need(const char *what, int good)
{
	if (!good) {
		printf("%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void handler(int sig) { (void)sig, handled++; }

static void handle(int sig, int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	need("sigaction", sigaction(sig, &a, 0) == 0);
}

static struct rdma_cm_id *make_id(struct rdma_event_channel *c)
{
	struct rdma_cm_id *id;
	need("rdma_create_id", rdma_create_id(c, &id, 0, RDMA_PS_TCP) == 0);
	return id;
}

// resolve makes the event ADDR_RESOLVED come.
static void resolve(struct rdma_cm_id *id)
{
	need("rdma_resolve_addr", rdma_resolve_addr(id, 0, (struct sockaddr *)&address, 2000) == 0);
}

// expect waits for an event.
static struct rdma_cm_id *expect(struct rdma_event_channel *c, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	need("rdma_get_cm_event", rdma_get_cm_event(c, &e) == 0);
	if (e->event != want) {
		printf("%s, status %d, not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(want));
		exit(1);
	}
	struct rdma_cm_id *id = e->id;
	need("rdma_ack_cm_event", rdma_ack_cm_event(e) == 0);
	return id;
}

static volatile pid_t blocker;

static void *blocked(void *arg)
{
	struct rdma_cm_event *e;
	int *result = arg;
	blocker = gettid();
	*result = rdma_get_cm_event(channel, &e) ? errno : 0;
	return 0;
}

// asleep waits until the thread of blocked sleeps, which it does in the call.
static void asleep(void)
{
	char path[64], line[256], state = 0;
	while (!blocker)
		usleep(1000);
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", blocker);
	for (; state != 'S'; usleep(1000)) {
		FILE *f = fopen(path, "r");
		need("fopen", f && fgets(line, sizeof line, f));
		fclose(f);
		state = strrchr(line, ')')[2];
	}
}

static void eintr(void)
{
	struct rdma_cm_event *e;
	handle(SIGALRM, 0);
	alarm(1);
	need("rdma_get_cm_event returned", rdma_get_cm_event(channel, &e) < 0);
	need("interrupted", errno == EINTR && handled == 1);
}

static void restart(void)
{
	pthread_t t;
	int result = -1;
	struct rdma_cm_id *id = make_id(channel);
	handle(SIGUSR1, SA_RESTART);
	pthread_create(&t, 0, blocked, &result);
	asleep();
	pthread_kill(t, SIGUSR1);
	while (!handled)
		usleep(1000);
	resolve(id);
	pthread_join(t, 0);
	errno = result;
	need("the call was restarted, and got the event", result == 0);
}

static void cancel(void)
{
	pthread_t t;
	int result = -1;
	void *end = 0;
	pthread_create(&t, 0, blocked, &result);
	asleep();
	pthread_cancel(t);
	pthread_join(t, &end);
	need("canceled", end == PTHREAD_CANCELED);
	resolve(make_id(channel));
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void nonblock(void)
{
	struct rdma_cm_event *e;
	need("fcntl", fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	need("rdma_get_cm_event returned", rdma_get_cm_event(channel, &e) < 0);
	need("EAGAIN", errno == EAGAIN);
	// A copy of the descriptor that is only polled, with an edge for each event.
	int copy = dup2(channel->fd, 20), epoll = epoll_create1(0);
	struct epoll_event want = {.events = EPOLLIN | EPOLLET}, got;
	need("epoll_ctl", copy == 20 && epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &want) == 0);
	need("quiet", epoll_wait(epoll, &got, 1, 0) == 0);
	for (int i = 0; i < 3; i++) {
		resolve(make_id(channel));
		need("an edge", epoll_wait(epoll, &got, 1, 20000) == 1 && got.events == EPOLLIN);
	}
	for (int i = 0; i < 3; i++)
		expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	struct pollfd p = {copy, POLLIN, 0};
	need("empty", poll(&p, 1, 0) == 0);
}

static void forked(void)
{
	struct rdma_cm_id *id = make_id(channel);
	pid_t child = fork();
	if (!child) {
		expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		_exit(0);
	}
	int status = -1;
	resolve(id);
	waitpid(child, &status, 0);
	need("the child got the event", status == 0);
	// The child's end closed nothing.
	resolve(make_id(channel));
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void channels(int n)
{
	struct rdma_event_channel **c = calloc(n, sizeof *c);
	struct rdma_cm_id **id = calloc(n, sizeof *id);
	for (int i = 0; i < n; i++) {
		need("rdma_create_event_channel", (c[i] = rdma_create_event_channel()) != 0);
		resolve(id[i] = make_id(c[i]));
	}
	for (int i = 0; i < n; i++)
		expect(c[i], RDMA_CM_EVENT_ADDR_RESOLVED);
	for (int i = 0; i < n; i++) {
		need("rdma_destroy_id", rdma_destroy_id(id[i]) == 0);
		rdma_destroy_event_channel(c[i]);
	}
}

// many has n connections to itself at a time. Each passes a message, and all end.
static void many(int n)
{
	struct rdma_cm_id **client = calloc(n, sizeof *client), **server = calloc(n, sizeof *server), *listener = make_id(channel);
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct ibv_recv_wr receive = {0}, *bad_receive;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct rdma_cm_event *e;
	struct ibv_wc wc;
	int asked = 0, established = 0, completed = 0, disconnected = 0;

	need("rdma_bind_addr", rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
	need("rdma_listen", rdma_listen(listener, n) == 0);
	for (int i = 0; i < n; i++)
		resolve(client[i] = make_id(channel));
	while (disconnected < 2 * n) {
		need("rdma_get_cm_event", rdma_get_cm_event(channel, &e) == 0);
		struct rdma_cm_id *id = e->id;
		enum rdma_cm_event_type what = e->event;
		int status = e->status;
		need("rdma_ack_cm_event", rdma_ack_cm_event(e) == 0);
		switch (what) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			need("rdma_resolve_route", rdma_resolve_route(id, 2000) == 0);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			if (!attr.send_cq)
				need("ibv_create_cq", (attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 2 * n, 0, 0, 0)) != 0);
			need("rdma_create_qp", rdma_create_qp(id, 0, &attr) == 0);
			if (what == RDMA_CM_EVENT_ROUTE_RESOLVED) {
				need("rdma_connect", rdma_connect(id, &param) == 0);
				break;
			}
			need("ibv_post_recv", ibv_post_recv(id->qp, &receive, &bad_receive) == 0);
			need("rdma_accept", rdma_accept(server[asked++] = id, &param) == 0);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			if (++established < 2 * n)
				break;
			for (int i = 0; i < n; i++)
				need("ibv_post_send", ibv_post_send(client[i]->qp, &send, &bad_send) == 0);
			for (int got; completed < 2 * n; completed += got) {
				need("ibv_poll_cq", (got = ibv_poll_cq(attr.send_cq, 1, &wc)) >= 0);
				need("the message arrived", !got || wc.status == IBV_WC_SUCCESS);
			}
			for (int i = 0; i < n; i++)
				need("rdma_disconnect", rdma_disconnect(client[i]) == 0);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			disconnected++;
			rdma_disconnect(id); // the second time, on the active side, it has nothing to do
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			printf("%s, status %d\n", rdma_event_str(what), status);
			exit(1);
		}
	}
	for (int i = 0; i < n; i++) {
		rdma_destroy_qp(client[i]);
		rdma_destroy_qp(server[i]);
		need("rdma_destroy_id", rdma_destroy_id(client[i]) == 0 && rdma_destroy_id(server[i]) == 0);
	}
	need("ibv_destroy_cq", ibv_destroy_cq(attr.send_cq) == 0);
	need("rdma_destroy_id", rdma_destroy_id(listener) == 0);
	free(client);
	free(server);
}

static struct ibv_qp_init_attr small = {
	.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};

// hold accepts a connection, and keeps it until it is killed.
static void hold(void)
{
	struct rdma_cm_id *listener = make_id(channel);
	struct rdma_conn_param param = {.retry_count = 7};
	need("rdma_bind_addr", rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
	need("rdma_listen", rdma_listen(listener, 1) == 0);
	struct rdma_cm_id *id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	need("rdma_create_qp", rdma_create_qp(id, 0, &small) == 0);
	need("rdma_accept", rdma_accept(id, &param) == 0);
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	pause();
}

// outlive connects, and waits for the peer to be gone.
static void outlive(void)
{
	struct rdma_cm_id *id = make_id(channel);
	struct rdma_conn_param param = {.retry_count = 7};
	resolve(id);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	need("rdma_resolve_route", rdma_resolve_route(id, 2000) == 0);
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	need("rdma_create_qp", rdma_create_qp(id, 0, &small) == 0);
	need("rdma_connect", rdma_connect(id, &param) == 0);
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	printf("connected\n");
	fflush(stdout);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
}

// orphan waits until the daemon is gone.
static void orphan(void)
{
	struct rdma_cm_event *e;
	printf("waiting\n");
	fflush(stdout);
	need("rdma_get_cm_event returned", rdma_get_cm_event(channel, &e) < 0);
	need("ENODEV", errno == ENODEV);
}

// unused opens and closes rsockets that are not connected, of both families: rdma_destroy_id waits for no
// event. Of SOCK_DGRAM, librdmacm never closes an unused one, whatever the device.
static void unused(void)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	for (int i = 0; i < 4; i++) {
		int s = rsocket(i & 1 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
		need("rsocket", s >= 0);
		if (i & 2)
			need("rbind", (i & 1 ? rbind(s, (void *)&six, sizeof(six)) : rbind(s, (void *)&four, sizeof(four))) == 0);
		need("rclose", rclose(s) == 0);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	address.sin_family = AF_INET;
	address.sin_port = htons(argc > 3 ? atoi(argv[3]) : 7000);
	inet_pton(AF_INET, argc > 2 ? argv[2] : "", &address.sin_addr);
	need("rdma_create_event_channel", (channel = rdma_create_event_channel()) != 0);
	if (!strcmp(what, "eintr"))
		eintr();
	else if (!strcmp(what, "restart"))
		restart();
	else if (!strcmp(what, "cancel"))
		cancel();
	else if (!strcmp(what, "nonblock"))
		nonblock();
	else if (!strcmp(what, "fork"))
		forked();
	else if (!strcmp(what, "unused"))
		unused();
	else if (!strcmp(what, "channels"))
		channels(500);
	else if (!strcmp(what, "many"))
		for (int i = 0; i < 3; i++)
			many(atoi(argv[4]));
	else if (!strcmp(what, "hold"))
		hold();
	else if (!strcmp(what, "outlive"))
		outlive();
	else if (!strcmp(what, "orphan"))
		orphan();
	else
		return 2;
	printf("ok\n");
	return 0;
}

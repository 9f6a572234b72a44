/*
 * Takes what users of a daemon share. usage: greedy ATTACK STOP [ARG...]
 *
 * An attack goes on until the file STOP exists. The program prints "attacking" when the attack has
 * taken effect, and "attacked N times" at its end. It fails if the attack had no effect, and
 * with status 9 if it got what it must not have.
 */
#include "qp.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <time.h>

static const char *stop;
static char **rest; /* arguments of the attack */
static unsigned long effects;

static void took_effect(void)
{
	if (!effects++) {
		printf("attacking\n");
		fflush(stdout);
	}
}

/* over looks at the file every 20 ms only: to ask for a file is a call to the daemon. */
static int over(void)
{
	static struct timespec last;
	static int yes;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!yes && (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000 >= 20) {
		last = now;
		yes = !access(stop, F_OK);
	}
	return yes;
}

/* stream sends messages of two bytes from an UC queue pair to itself: for ever, or so many. */
static void stream(void)
{
	static char buf[64];
	struct end e = {.ctx = open_device("rxe0")};
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_UC,
		.cap = {.max_send_wr = 256, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 8}};
	struct ibv_qp_attr m = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	unsigned long most = rest[0] ? strtoul(rest[0], NULL, 0) : -1ul;
	union ibv_gid gid;

	CHECK("ibv_alloc_pd", e.pd = ibv_alloc_pd(e.ctx));
	CHECK("ibv_create_cq", e.cq = ibv_create_cq(e.ctx, 64, NULL, NULL, 0));
	a.send_cq = a.recv_cq = e.cq;
	CHECK("ibv_create_qp", e.qp = ibv_create_qp(e.pd, &a));
	CHECK("INIT", !ibv_modify_qp(e.qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK("ibv_query_gid", !ibv_query_gid(e.ctx, 1, gid_index, &gid));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = e.qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}}};
	CHECK("RTR", !ibv_modify_qp(e.qp, &m, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	CHECK("RTS", !ibv_modify_qp(e.qp, &m, IBV_QP_STATE | IBV_QP_SQ_PSN));
	for (unsigned long n = 0, out = 0; n < most && !over(); n += 32) {
		struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 2};
		struct ibv_send_wr wr[32], *bad;
		struct ibv_wc wc;

		for (int i = 0; i < 32; i++)
			wr[i] = (struct ibv_send_wr){.next = i < 31 ? &wr[i + 1] : NULL, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				.send_flags = IBV_SEND_INLINE | (i == 31 ? IBV_SEND_SIGNALED : 0)};
		CHECK("ibv_post_send", !(errno = ibv_post_send(e.qp, wr, &bad)));
		for (out++; out > 4 && !over(); out -= ibv_poll_cq(e.cq, 1, &wc) == 1)
			;
		if (n)
			took_effect();
	}
}

static void put(unsigned char *at, int bytes, uint64_t v)
{
	while (bytes--) {
		at[bytes] = v;
		v >>= 8;
	}
}

/* forged_request is a REQ of the connection manager (IBA 12.6.5) to the port, for queue pair n. */
static void forged_request(unsigned char *mad, uint32_t n, unsigned port, union ibv_gid *gid)
{
	static const unsigned char head[] = {1, 7, 2, 3};
	unsigned char *req = mad + 24;

	memset(mad, 0, 256);
	memcpy(mad, head, sizeof(head));
	put(mad + 8, 8, n); /* the transaction */
	put(mad + 16, 2, 0x10); /* REQ */
	put(req, 4, n | 1);
	put(req + 8, 8, 0x0000000001060000 | port);
	put(req + 16, 8, 1);
	put(req + 32, 3, n);
	put(req + 43, 1, 20 << 3);
	put(req + 47, 1, 20 << 3 | 7);
	put(req + 48, 2, 0xffff);
	put(req + 50, 1, 3 << 4 | 7);
	put(req + 51, 1, 15 << 4);
	put(req + 52, 4, 0xffffffff);
	memcpy(req + 56, gid, 16);
	memcpy(req + 72, gid, 16);
	put(req + 93, 1, 64);
	put(req + 95, 1, 18 << 3);
}

/* qkey asks for the Q_Key of queue pair 1, and sends forged requests to queue pair 1 as if it had it. */
static void qkey(void)
{
	static unsigned char mad[256];
	struct end e = make_end(open_device("rxe0"), mad, sizeof(mad));
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_UD, .send_cq = e.cq, .recv_cq = e.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr m = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x80010000};
	struct address self = address_of(&e);
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = self.gid, .sgid_index = gid_index, .hop_limit = 64}};
	struct ibv_ah *ah;
	struct ibv_qp *qp;

	CHECK("ibv_create_ah", ah = ibv_create_ah(e.pd, &to));
	CHECK("ibv_create_qp", qp = ibv_create_qp(e.pd, &a));
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (ibv_modify_qp(qp, &m, init) != EPERM) {
		printf("an ordinary user has the Q_Key of queue pair 1\n");
		exit(9);
	}
	m.qkey = 0x10000;
	CHECK("INIT", !(errno = ibv_modify_qp(qp, &m, init)));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	CHECK("RTR", !(errno = ibv_modify_qp(qp, &m, IBV_QP_STATE)));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	CHECK("RTS", !(errno = ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_SQ_PSN)));
	/* Numbers near that of a queue pair that was made just now are in use, most likely. */
	for (uint32_t n = qp->qp_num; !over(); n--) {
		struct ibv_sge sge = {.addr = (uintptr_t)mad, .length = sizeof(mad), .lkey = e.mr->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
			.wr.ud = {.ah = ah, .remote_qpn = 1, .remote_qkey = n % 2 ? 0x80010000 : 0x10000}}, *bad;
		struct ibv_wc wc;

		forged_request(mad, n & 0xffffff, atoi(rest[0]), &self.gid);
		CHECK("ibv_post_send", !(errno = ibv_post_send(qp, &wr, &bad)));
		while (ibv_poll_cq(e.cq, 1, &wc) == 0 && !over())
			;
		took_effect();
	}
}

static struct sockaddr_in address_and_port(const char *text, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	CHECK("inet_pton", inet_pton(AF_INET, text, &a.sin_addr) == 1);
	return a;
}

/* requested takes a connection further that halfopen has begun. It gives it the number of a queue
 * pair that may be another user's. */
static void requested(struct rdma_event_channel *channel, uint32_t *n)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return;
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type what = event->event;
	struct rdma_conn_param param = {.qp_num = --*n & 0xffffff, .retry_count = 7, .rnr_retry_count = 7};

	rdma_ack_cm_event(event);
	if (what == RDMA_CM_EVENT_ADDR_RESOLVED)
		rdma_resolve_route(id, 2000);
	else if (what == RDMA_CM_EVENT_ROUTE_RESOLVED && !rdma_connect(id, &param))
		took_effect();
}

/* halfopen connects to a listener of its own that accepts nothing, as often as it can. */
static void halfopen(void)
{
	enum { most = 9000 };
	static struct rdma_cm_id *ids[most];
	static char buf[64];
	struct rdma_event_channel *channel = rdma_create_event_channel(), *unread = rdma_create_event_channel();
	struct sockaddr_in any = address_and_port(rest[0], 0), to;
	struct rdma_cm_id *listener;
	uint32_t number = make_end(open_device("rxe0"), buf, sizeof(buf)).qp->qp_num;

	CHECK("rdma_create_event_channel", channel && unread);
	CHECK("O_NONBLOCK", !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	while (!over()) {
		int n = 0;

		if (rdma_create_id(unread, &listener, NULL, RDMA_PS_TCP))
			continue; /* this user has all ids that it may have */
		if (!rdma_bind_addr(listener, (struct sockaddr *)&any) && !rdma_listen(listener, most)) {
			to = address_and_port(rest[0], ntohs(rdma_get_src_port(listener)));
			for (; n < most && !over() && !rdma_create_id(channel, &ids[n], NULL, RDMA_PS_TCP); n++) {
				if (rdma_resolve_addr(ids[n], NULL, (struct sockaddr *)&to, 2000)) {
					rdma_destroy_id(ids[n]);
					break;
				}
				requested(channel, &number);
				requested(channel, &number);
			}
			struct pollfd p = {.fd = channel->fd, .events = POLLIN};
			while (!over() && poll(&p, 1, 50) == 1)
				requested(channel, &number);
		}
		while (n)
			rdma_destroy_id(ids[--n]);
		rdma_destroy_id(listener);
	}
}

/* ports binds ids to ports until there is none left, and goes on. */
static void ports(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct rdma_cm_id *id;

	CHECK("rdma_create_event_channel", channel);
	for (int bound = 0; !over();) {
		if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
			CHECK("rdma_create_id", errno == ENOMEM);
			took_effect();
		} else if (rdma_bind_addr(id, (struct sockaddr *)&any)) {
			CHECK("rdma_bind_addr", errno == EADDRNOTAVAIL || errno == ENOMEM);
			took_effect();
			rdma_destroy_id(id);
		} else if (++bound == 500) {
			took_effect();
		}
	}
}

/* peaks makes completion channels until no more are allowed, and destroys them, again and again. */
static void peaks(void)
{
	enum { most = 20000 };
	static struct ibv_comp_channel *made[most];
	struct ibv_context *ctx = open_device("rxe0");

	while (!over()) {
		int n = 0;

		while (n < most && !over() && (made[n] = ibv_create_comp_channel(ctx)))
			n++;
		if (n)
			took_effect();
		while (n)
			CHECK("ibv_destroy_comp_channel", !ibv_destroy_comp_channel(made[--n]));
	}
}

/* idle has a device, and posts a little: so it has a doorbell. Then it does nothing. */
static void idle(void)
{
	static char buf[64];
	struct end e = make_end(open_device("rxe0"), buf, sizeof(buf));
	struct address self = address_of(&e);
	struct ibv_wc wc;

	connect_to(&e, &self);
	CHECK("ibv_post_send", !post_write(&e, &self, sizeof(buf)));
	while (ibv_poll_cq(e.cq, 1, &wc) == 0 && !over())
		;
	took_effect();
	while (!over())
		usleep(100000);
}

/* metrics connects to the address of --metrics more often than the daemon allows. One connection of two asks
 * for answers and does not read them, the other asks slowly. */
static void metrics(void)
{
	enum { most = 60 };
	static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct sockaddr_in to = address_and_port(rest[0], atoi(rest[1]));
	int fd[most], small = 1;

	memset(fd, -1, sizeof(fd));
	while (!over()) {
		for (int i = 0; i < most; i++) {
			if (fd[i] < 0) {
				CHECK("socket", (fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
				setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
				CHECK("connect", !connect(fd[i], (struct sockaddr *)&to, sizeof(to)));
				if (!fcntl(fd[i], F_SETFL, O_NONBLOCK))
					took_effect();
			}
			ssize_t n = i % 2 ? send(fd[i], ask, sizeof(ask) - 1, MSG_NOSIGNAL) : send(fd[i], "G", 1, MSG_NOSIGNAL);
			char c;
			if ((n < 0 && errno != EAGAIN) || recv(fd[i], &c, 1, MSG_PEEK) == 0) {
				close(fd[i]);
				fd[i] = -1;
			}
		}
		usleep(5000);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*attack)(void);
	} attacks[] = {
		{"stream", stream}, {"qkey", qkey}, {"halfopen", halfopen}, {"ports", ports}, {"peaks", peaks}, {"idle", idle},
		{"metrics", metrics},
	};

	for (size_t i = 0; argc >= 3 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (strcmp(argv[1], attacks[i].name))
			continue;
		stop = argv[2];
		rest = argv + 3;
		attacks[i].attack();
		printf("attacked %lu times\n", effects);
		return !effects;
	}
	fprintf(stderr, "usage: greedy ATTACK STOP [ARG...]\n");
	return 1;
}

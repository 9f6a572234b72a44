/*
 * ncclnet makes the calls of NCCL's InfiniBand plugin (net_ib) in its order, without NCCL and
 * without a GPU: it finds devices, chooses GIDs, asks for dma-bufs, connects by TCP, and moves
 * messages with RDMA_WRITE_WITH_IMM over all rails. The receiver checks each byte. A rail that
 * fails is left out, and used again when its port has recovered.
 *
 *	cc -O2 -o ncclnet ncclnet.c -libverbs -ldl -lpthread
 *	gorxe run --rails 8 ncclnet --rails 4
 *
 * Two processes, sender and receiver, use the first and the last devices. The receiver says which
 * message it can take by a WRITE of 8 bytes (NCCL's FIFO). The sender writes the data, and then
 * nothing with the number of the message as immediate. The receiver flushes with a READ from
 * itself. Messages and what was granted are repeated on another rail when theirs fails. Unlike
 * NCCL, the two sides tell each other by TCP that a rail has failed. As in NCCL 2.30, "alive"
 * messages of a UC queue pair say when it may be used again. Devices without UC use UD, as in RCCL.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RAILS = 16, SLOTS = 8, ROOM = 64 << 10, RECVS = 64, ALIVE = 3, QKEY = 0x4e43434c };
enum kind { DATA, FLUSH, GRANT, RECV, UC };         /* the top byte of a wr_id */
enum { ACK = 0x80, FINAL = 0x81, FAILED = 1, DONE }; /* of immediates; of messages by TCP */
enum state { UP, DOWN, READY, DEAD };               /* READY: restarted, the peer not yet */

struct place { /* what the peer learns of a rail */
	uint32_t qpn, ucqpn, ud, data_rkey, fifo_rkey; /* ud: ucqpn is one of UD */
	uint64_t data, fifo;
	union ibv_gid gid;
};

struct rail {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *data, *fifo, *grh;
	struct ibv_qp *qp, *uc, *flush; /* uc: of UD on a device without UC */
	struct ibv_ah *ah;              /* of UD: the peer */
	struct place mine, peer;
	char path[4096];
	volatile int fatal; /* DEVICE_FATAL */
	enum state state;
	bool peer_down; /* the peer's queue pair of this epoch is in ERR */
	uint32_t epoch, tried, seen;
	uint64_t next_try, pause;
};

static struct rail rails[RAILS];
static int n_rails = 2, timeout_code = 14, messages = 400, tcp, failures, recoveries;
static unsigned seed = 1;
static bool sending, no_recovery;
static char *data;               /* SLOTS messages */
static uint64_t fifo[SLOTS + 1]; /* what the receiver grants: the message's number, plus 1 */
static char grh[40];             /* of datagrams; nobody reads it */
static struct { int rail; bool posted, done; } *req; /* by message */

static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "ncclnet: %s: ", sending ? "sender" : "receiver");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	_exit(1);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static uint64_t now_ms(void) { return now_us() / 1000; }

static uint32_t size_of(int id) { return 1 + (seed * 2654435761u + id * 40503u) % ROOM; }
static char byte_of(int id, uint32_t at) { return (char)(seed + id * 7 + at * 13 + (at >> 8)); }

/* Finding devices. */

/* A RoCE v2 GID of an IPv4 address is the best. NCCL asks for each index, and reads its type. */
static int choose_gid(struct rail *r, int table)
{
	int best = 0;

	for (int i = 1; i < table; i++) {
		union ibv_gid a, b;
		char path[512], type[32] = "";

		if (ibv_query_gid(r->ctx, 1, best, &a) || ibv_query_gid(r->ctx, 1, i, &b))
			die("query_gid %d: %s", i, strerror(errno));
		if (!b.global.interface_id || b.global.subnet_prefix || b.raw[10] != 0xff)
			continue; /* empty, or not of IPv4 */
		for (int look = 0; look < 2; look++) {
			snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d",
				 ibv_get_device_name(r->ctx->device), look ? i : best);
			FILE *f = fopen(path, "r");
			if (!f || !fgets(type, sizeof(type), f))
				type[0] = 0;
			if (f)
				fclose(f);
		}
		if (!strncmp(type, "RoCE v2", 7) && (!best || !a.global.interface_id))
			best = i;
	}
	return best;
}

/* An address may come back at another index. */
static int find_gid(struct rail *r)
{
	union ibv_gid g;

	for (int i = 0; i < 64; i++)
		if (!ibv_query_gid(r->ctx, 1, i, &g) && !memcmp(&g, &r->mine.gid, sizeof(g)))
			return i;
	return -1;
}

static void *watch_events(void *arg)
{
	struct rail *r = arg;
	struct ibv_async_event e;

	while (!ibv_get_async_event(r->ctx, &e)) {
		if (e.event_type == IBV_EVENT_DEVICE_FATAL)
			r->fatal = 1;
		ibv_ack_async_event(&e);
	}
	return NULL;
}

static bool open_rail(struct rail *r, struct ibv_device *dev, bool say)
{
	static const int widths[] = {1, 4, 8, 12, 2}, lanes[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000, 200000};
	int (*query_speed)(struct ibv_context *, uint32_t, uint64_t *) = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	char link[512];
	uint64_t speed, began = now_us();

	if (!(r->ctx = ibv_open_device(dev)) || ibv_query_device(r->ctx, &attr) || ibv_query_port(r->ctx, 1, &port))
		die("%s: %s", ibv_get_device_name(dev), strerror(errno));
	/* NCCL leaves out a port that is down. Here both sides have to find the same ones. */
	for (int tries = 0; tries < 1000 && port.state != IBV_PORT_ACTIVE && !usleep(1000); tries++)
		ibv_query_port(r->ctx, 1, &port);
	if (port.state != IBV_PORT_ACTIVE || port.link_layer != IBV_LINK_LAYER_ETHERNET) {
		ibv_close_device(r->ctx);
		return false;
	}
	if (query_speed && !query_speed(r->ctx, 1, &speed))
		speed *= 100;
	else
		speed = (uint64_t)lanes[__builtin_ctz(port.active_speed | 256)] * widths[__builtin_ctz(port.active_width | 16)];
	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", ibv_get_device_name(dev));
	if (!realpath(link, r->path))
		r->path[0] = 0;
	int gid = 0;
	for (int tries = 0; tries < 100 && !r->mine.gid.global.interface_id; tries++) { /* it may move meanwhile */
		gid = choose_gid(r, port.gid_tbl_len);
		if (ibv_query_gid(r->ctx, 1, gid, &r->mine.gid))
			die("%s: %s", ibv_get_device_name(dev), strerror(errno));
	}
	if (!(r->pd = ibv_alloc_pd(r->ctx)))
		die("%s: %s", ibv_get_device_name(dev), strerror(errno));
	errno = 0; /* EBADF: the device knows dma-bufs */
	ibv_reg_dmabuf_mr(r->pd, 0, 0, 0, -1, 0);
	if (say)
		printf("%s: %llu Mb/s, %s, GID %d of %d, dma-bufs: %s, found in %llu us\n", ibv_get_device_name(dev), (unsigned long long)speed,
		       r->path, gid, port.gid_tbl_len, errno == EBADF ? "yes" : "no", (unsigned long long)(now_us() - began));
	return true;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct rail *)a)->path, ((const struct rail *)b)->path);
}

static void find_rails(bool say)
{
	static struct rail all[64];
	int n, found = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n && i < 64; i++)
		found += open_rail(&all[found], list[i], say);
	if (found < n_rails)
		die("%d rails of %d", found, n_rails);
	qsort(all, found, sizeof(*all), by_path);
	memcpy(rails, &all[sending ? 0 : found - n_rails], n_rails * sizeof(*all));
}

/* Queue pairs. */

static struct ibv_qp *make_qp(struct rail *r, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = r->cq, .recv_cq = r->cq, .qp_type = type,
		.cap = {.max_send_wr = 256, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 8}};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);
	struct ibv_ece ece;

	if (!qp && (type != IBV_QPT_UC || errno != EOPNOTSUPP))
		die("create_qp: %s", strerror(errno));
	if (type == IBV_QPT_RC && !ibv_query_ece(qp, &ece)) /* NCCL does not mind if there is none */
		ibv_set_ece(qp, &ece);
	return qp;
}

/* connect_ud makes a queue pair of UD ready. */
static int connect_ud(struct rail *r, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1,
		.grh = {.dgid = r->peer.gid, .sgid_index = find_gid(r), .hop_limit = 255}};

	if (!r->ah && !(r->ah = ibv_create_ah(r->pd, &to)))
		return -1;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -1;
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		return -1;
	a.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/* connect_qp connects a queue pair in RESET or INIT. One that is connected stays so. */
static int connect_qp(struct rail *r, struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid, uint32_t psn)
{
	bool rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (rc ? IBV_ACCESS_REMOTE_READ : 0)};
	int index = find_gid(r);

	if (qp->state == IBV_QPS_RTS)
		return 0;
	if (qp->qp_type == IBV_QPT_UD)
		return connect_ud(r, qp);
	if (index < 0 || ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = psn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .sgid_index = index, .hop_limit = 255, .traffic_class = 0}}};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
		return -1;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = timeout_code, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = psn,
		.max_rd_atomic = 1};
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN |
			     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static uint64_t wr_id(enum kind k, struct rail *r, uint32_t id) { return (uint64_t)k << 56 | (uint64_t)r->epoch << 32 | id; }

static void post_recv(struct rail *r, struct ibv_qp *qp, enum kind k)
{
	struct ibv_sge sge = {(uintptr_t)grh, sizeof(grh), r->grh->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(k, r, 0), .sg_list = &sge, .num_sge = qp->qp_type == IBV_QPT_UD}, *bad;

	ibv_post_recv(qp, &wr, &bad); /* a queue that is full, or in ERR, fails elsewhere */
}

static void post(struct rail *r, struct ibv_qp *qp, struct ibv_send_wr *wr, void *local, uint32_t n, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)local, n, lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = n > 0;
	if (ibv_post_send(qp, wr, &bad))
		r->fatal |= errno == EIO; /* a queue pair in ERR completes what is posted */
}

static void say_alive(struct rail *r, uint32_t epoch, uint32_t what)
{
	struct ibv_send_wr wr = {.wr_id = wr_id(UC, r, 1), .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(epoch << 8 | what)};

	if (r->ah) {
		wr.wr.ud.ah = r->ah;
		wr.wr.ud.remote_qpn = r->peer.ucqpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	post(r, r->uc, &wr, NULL, 0, 0);
}

/* restart connects the data queue pairs of a rail. An epoch has packet numbers of its own, so
 * that a late packet of the one before is no request. */
static int restart(struct rail *r, uint32_t epoch)
{
	struct ibv_qp *qps[] = {r->qp, r->flush};
	uint32_t psn = (seed + epoch * 0x20000) & 0xffffff;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
		if (ibv_modify_qp(qps[i], &a, IBV_QP_STATE))
			return -1;
	}
	if (connect_qp(r, r->qp, r->peer.qpn, &r->peer.gid, psn) || connect_qp(r, r->flush, r->flush->qp_num, &r->mine.gid, psn))
		return -1;
	r->epoch = epoch;
	r->peer_down = false;
	for (int i = 0; i < RECVS; i++)
		post_recv(r, r->qp, RECV);
	return 0;
}

static void read_all(void *to, size_t n)
{
	for (ssize_t got; n > 0; to = (char *)to + got, n -= got)
		if ((got = recv(tcp, to, n, 0)) <= 0)
			die("the peer has gone");
}

static void make_rail(struct rail *r)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	r->cq = ibv_create_cq(r->ctx, 8192, NULL, NULL, 0);
	r->data = ibv_reg_mr_iova2(r->pd, data, SLOTS * ROOM, (uintptr_t)data, access | IBV_ACCESS_RELAXED_ORDERING);
	r->fifo = ibv_reg_mr(r->pd, fifo, sizeof(fifo), access);
	r->grh = ibv_reg_mr(r->pd, grh, sizeof(grh), access);
	if (!r->cq || !r->data || !r->fifo || !r->grh)
		die("memory: %s", strerror(errno));
	r->qp = make_qp(r, IBV_QPT_RC);
	r->flush = make_qp(r, IBV_QPT_RC);
	r->uc = make_qp(r, IBV_QPT_UC);
	r->mine.ud = !r->uc;
	if (!r->uc)
		r->uc = make_qp(r, IBV_QPT_UD);
	r->mine.qpn = r->qp->qp_num;
	r->mine.ucqpn = r->uc->qp_num;
	r->mine.data_rkey = r->data->rkey;
	r->mine.fifo_rkey = r->fifo->rkey;
	r->mine.data = (uintptr_t)data;
	r->mine.fifo = (uintptr_t)fifo;
	if (send(tcp, &r->mine, sizeof(r->mine), 0) != sizeof(r->mine))
		die("the peer has gone");
	read_all(&r->peer, sizeof(r->peer));
	if (r->peer.ud != r->mine.ud)
		die("one side has UC, and the other has none");
	for (int tries = 0; connect_qp(r, r->uc, r->peer.ucqpn, &r->peer.gid, seed & 0xffffff) || restart(r, 0); tries++)
		if (tries == 1000) /* the GID may have moved between two calls */
			die("connect: %s", strerror(errno));
	for (int i = 0; i < RECVS; i++)
		post_recv(r, r->uc, UC);
	pthread_t thread;
	pthread_create(&thread, NULL, watch_events, r);
}

/* Messages. */

static struct rail *next_rail(void)
{
	static unsigned turn;

	for (int i = 0; i < n_rails; i++) {
		struct rail *r = &rails[turn++ % n_rails];
		if (r->state == UP)
			return r;
	}
	return NULL;
}

static void send_message(int id)
{
	struct rail *r = next_rail();
	char *at = data + id % SLOTS * ROOM;
	uint32_t n = size_of(id);

	if (!r)
		return; /* later */
	for (uint32_t i = 0; i < n; i++)
		at[i] = byte_of(id, i);
	uint64_t to = r->peer.data + id % SLOTS * ROOM;
	struct ibv_send_wr wr = {.wr_id = wr_id(DATA, r, id), .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {to, r->peer.data_rkey}};
	post(r, r->qp, &wr, at, n, r->data->lkey);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(id);
	wr.send_flags = IBV_SEND_SIGNALED;
	post(r, r->qp, &wr, NULL, 0, 0);
	req[id].rail = r - rails;
	req[id].posted = true;
}

static void grant(int id)
{
	struct rail *r = next_rail();

	if (!r || id >= messages)
		return;
	fifo[id % SLOTS] = id + 1;
	struct ibv_send_wr wr = {.wr_id = wr_id(GRANT, r, id), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = {r->peer.fifo + id % SLOTS * 8, r->peer.fifo_rkey}};
	post(r, r->qp, &wr, &fifo[id % SLOTS], 8, r->fifo->lkey);
}

static void flush_message(int id)
{
	struct rail *r = next_rail();

	req[id].posted = true; /* the data is here */
	req[id].rail = r ? r - rails : -1;
	if (!r)
		return;
	struct ibv_send_wr wr = {.wr_id = wr_id(FLUSH, r, id), .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {r->mine.data + id % SLOTS * ROOM, r->mine.data_rkey}};
	post(r, r->flush, &wr, &fifo[SLOTS], 1, r->fifo->lkey);
}

static void check_message(int id)
{
	char *at = data + id % SLOTS * ROOM;

	for (uint32_t i = 0, n = size_of(id); i < n; i++)
		if (at[i] != byte_of(id, i))
			die("message %d: byte %u of %u is %d, not %d", id, i, n, at[i], byte_of(id, i));
	req[id].done = true;
}

/* Failures. */

static void tell(uint32_t what, uint32_t rail, uint32_t epoch)
{
	uint32_t m[] = {what, rail, epoch};

	if (send(tcp, m, sizeof(m), MSG_NOSIGNAL) != sizeof(m) && what != DONE)
		die("the peer has gone");
}

/* again repeats what was on a rail. The peer's queue pair is in ERR, too: nothing late arrives. */
static void again(struct rail *r)
{
	for (int i = 0; i < messages; i++)
		if (req[i].posted && !req[i].done && req[i].rail == r - rails) {
			req[i].rail = -1;
			if (sending)
				req[i].posted = false;
			else
				flush_message(i);
		}
}

static void fail(struct rail *r, const char *why)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	if (r->state == DOWN || r->state == DEAD)
		return;
	fprintf(stderr, "ncclnet: %s: %s failed: %s\n", sending ? "sender" : "receiver", ibv_get_device_name(r->ctx->device), why);
	if (no_recovery)
		die("without recovery that is the end");
	r->state = r->fatal ? DEAD : DOWN;
	failures++;
	if (ibv_modify_qp(r->qp, &a, IBV_QP_STATE) || ibv_modify_qp(r->flush, &a, IBV_QP_STATE))
		r->state = DEAD;
	r->pause = 5;
	r->next_try = now_ms() + r->pause;
	tell(FAILED, r - rails, r->epoch);
	if (r->peer_down || !sending)
		again(r);
}

static void hear(void)
{
	uint32_t m[3];
	ssize_t n = recv(tcp, m, sizeof(m), MSG_DONTWAIT | MSG_PEEK);

	if (n == 0 && !sending)
		die("the sender has gone");
	if (n < (ssize_t)sizeof(m))
		return;
	read_all(m, sizeof(m));
	struct rail *r = &rails[m[1] % RAILS];
	if (m[0] == DONE)
		for (int i = 0; i < messages; i++)
			req[i].done = true;
	else if (m[2] == r->epoch) {
		r->peer_down = true;
		fail(r, "the peer says so");
		if (sending)
			again(r);
	}
}

/* alive_heard is told of a message of the UC queue pair. */
static void alive_heard(struct rail *r, uint32_t imm)
{
	uint32_t epoch = imm >> 8, what = imm & 0xff;

	if (what == ACK) {
		if (r->state != DOWN || epoch != r->tried || restart(r, epoch))
			return;
		r->state = UP;
		recoveries++;
		say_alive(r, epoch, FINAL);
	} else if (what == FINAL) {
		if (r->state == READY && epoch == r->epoch) {
			r->state = UP;
			recoveries++;
		}
	} else if ((r->state == DOWN || r->state == READY) && epoch > r->epoch) {
		r->seen = what == 0 ? 1 : what == r->seen ? r->seen + 1 : 0;
		if (r->seen < ALIVE || restart(r, epoch))
			return;
		r->seen = 0;
		r->state = READY;
		say_alive(r, epoch, ACK);
	}
}

/* try_again sends "alive" messages on rails that have failed, and backs off: an optic may be dead
 * for days. */
static void try_again(void)
{
	for (struct rail *r = rails; sending && r < rails + n_rails; r++) {
		if (r->state != DOWN || !r->peer_down || now_ms() < r->next_try)
			continue;
		r->tried = (r->tried > r->epoch ? r->tried : r->epoch) + 1;
		for (int i = 0; i < ALIVE; i++)
			say_alive(r, r->tried, i);
		r->pause = r->pause < 200 ? 2 * r->pause : r->pause;
		r->next_try = now_ms() + r->pause;
	}
}

/* complete acts on a completion. */
static void complete(struct rail *r, struct ibv_wc *wc)
{
	enum kind k = wc->wr_id >> 56;
	uint32_t epoch = wc->wr_id >> 32 & 0xffffff, id = wc->wr_id & 0xffffffff;

	if (k == UC) {
		if (wc->status == IBV_WC_SUCCESS && id == 0) {
			post_recv(r, r->uc, UC);
			alive_heard(r, ntohl(wc->imm_data));
		}
		return;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		if (epoch == r->epoch && r->state != READY)
			fail(r, ibv_wc_status_str(wc->status));
		return;
	}
	if (k == DATA) /* of the last try: until then the buffer is in use */
		req[id].done |= req[id].posted && req[id].rail == r - rails && epoch == r->epoch;
	else if (k == FLUSH && !req[id].done) {
		check_message(id);
		grant(id + SLOTS);
	} else if (k == RECV) {
		if (epoch == r->epoch)
			post_recv(r, r->qp, RECV);
		if (r->state == READY && epoch == r->epoch) { /* its FINAL was lost */
			r->state = UP;
			recoveries++;
		}
		id = ntohl(wc->imm_data);
		if (id < (uint32_t)messages && !req[id].posted)
			flush_message(id);
	}
}

static bool poll_rails(void)
{
	struct ibv_wc wcs[16];
	bool some = false;

	for (struct rail *r = rails; r < rails + n_rails; r++) {
		if (r->fatal && r->state != DEAD) {
			fail(r, "the device has failed");
			r->state = DEAD;
		}
		int n = ibv_poll_cq(r->cq, 16, wcs);
		for (int i = 0; i < n; i++)
			complete(r, &wcs[i]);
		some |= n > 0;
	}
	return some;
}

static int finished(void)
{
	int n = 0;

	while (n < messages && req[n].done)
		n++;
	return n;
}

/* run moves the messages. The receiver grants again what may have been lost with a rail. */
static void run(void)
{
	uint64_t progress = now_ms(), granted = progress;
	int first = 0;

	for (int i = 0; i < SLOTS && !sending; i++)
		grant(i);
	while (first < messages) {
		bool some = poll_rails();
		hear();
		try_again();
		int n = finished();
		some |= n > first;
		if (n > first)
			progress = granted = now_ms();
		first = n;
		for (int i = first; sending && i < messages && i < first + SLOTS; i++) {
			uint64_t may = *(volatile uint64_t *)&fifo[i % SLOTS];
			if (!req[i].posted && may == (uint64_t)i + 1 + SLOTS)
				req[i].done = true; /* it had arrived when its rail failed */
			else if (!req[i].posted && may == (uint64_t)i + 1 && (i < SLOTS || req[i - SLOTS].done))
				send_message(i);
		}
		if (!sending && now_ms() > granted + 20) {
			granted = now_ms();
			for (int i = first; i < messages && i < first + SLOTS; i++) {
				if (!req[i].posted && (i < SLOTS || req[i - SLOTS].done))
					grant(i);
				if (req[i].posted && !req[i].done && req[i].rail < 0)
					flush_message(i);
			}
		}
		if (now_ms() > progress + 60000)
			die("no progress: message %d of %d", first, messages);
		if (!some)
			sched_yield();
	}
	if (!sending)
		tell(DONE, 0, 0);
	printf("%s: %d messages, %d failures of rails, %d recoveries\n", sending ? "sender" : "receiver", messages, failures, recoveries);
}

static int role(int listener, const struct sockaddr_in *to)
{
	tcp = sending ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : accept(listener, NULL, NULL);
	if (tcp < 0 || (sending && connect(tcp, (const struct sockaddr *)to, sizeof(*to))))
		die("TCP: %s", strerror(errno));
	find_rails(sending);
	for (int i = 0; i < n_rails; i++)
		make_rail(&rails[i]);
	uint32_t ready = 0; /* both sides can receive */
	if (send(tcp, &ready, sizeof(ready), 0) != sizeof(ready))
		die("the peer has gone");
	read_all(&ready, sizeof(ready));
	run();
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rails", 1, NULL, 'r'}, {"messages", 1, NULL, 'm'}, {"seed", 1, NULL, 's'},
		{"timeout", 1, NULL, 't'}, {"no-recovery", 0, NULL, 'n'}, {"find", 0, NULL, 'f'}, {NULL, 0, NULL, 0}};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	bool find = false;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (c) {
		case 'r': n_rails = atoi(optarg); break;
		case 'm': messages = atoi(optarg); break;
		case 's': seed = atoi(optarg); break;
		case 't': timeout_code = atoi(optarg); break;
		case 'n': no_recovery = true; break;
		case 'f': find = true; break;
		default: return 2;
		}
	if (n_rails < 1 || n_rails > RAILS || messages < 1)
		return 2;
	ibv_fork_init();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (find) {
		find_rails(true);
		return 0;
	}
	if (posix_memalign((void **)&data, 4096, SLOTS * ROOM) || !(req = calloc(messages, sizeof(*req))))
		return 2;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
	if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &len))
		die("TCP: %s", strerror(errno));
	pid_t child = fork();
	if (child == 0)
		return role(listener, NULL);
	sending = true;
	role(listener, &at);
	return waitpid(child, &status, 0) != child || status;
}

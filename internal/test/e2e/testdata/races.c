/*
 * Three processes, each with two queue pairs to each other one. They play a script each, without a
 * common beat: what orders their accesses is in the scripts. Words of a script, for process 2:
 *
 *	w2/64+8		WRITE 8 bytes to offset 64 of its memory; r2 READs, a2 adds to 8 bytes, d2 adds 0
 *	w2/64+8<128	from offset 128 of the own memory; without it, from an offset that no other word uses
 *	s2		sends it a message; s2/0+8<128 sends that memory. x2 waits for one of its messages
 *	p, P		polls the next completion, all completions
 *	l2/64, u2/64	takes a lock, gives it back
 *	n2/64		waits until an atomic finds that the word is not 0
 *	S2, X2		a message by a socket, and waiting for it
 *	y/64, t/64	waits until the own byte is not 0; stores to it. e/64 reads it
 *	c2, h		connects to process 2 by RDMA CM; waits for that, and accepts
 *	q, g		ends that connection; waits until the peer has ended it
 *	[ ... ]		what another thread does, while this one waits for its end
 *
 * Letters behind it: u unsignaled, f with a fence, k on the second queue pair, i inline. m: by a key
 * of a region that begins 16 bytes later, o: by one with another first address, v: by a window, b:
 * by another mapping of the same memory. The first message from process 0 goes to offset 49152, that
 * from process 1 to 50176, and further ones 64 bytes behind.
 */
#include "../../../../testdata/misuse/rig.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { N = 3, BUF = 1 << 16, OWN = 1 << 15, INBOX = 3 << 14, RECVS = 16, BASE = 1 << 20 };
enum { PLAIN, LATER, OTHER, WINDOW, AGAIN, KEYS };

struct told { /* to a peer */
	uint32_t qpn[2], rkey[KEYS];
	uint64_t addr[KEYS];
	int port; /* of RDMA CM */
};

static int me, sock[N][N];
static struct rig r;
static struct ibv_qp *qp[N][2];
static struct ibv_cq *recvs[N];
static struct told peers[N];
static volatile char *buf;
static int words, outstanding, connects;
static struct rdma_event_channel *events;
static struct rdma_cm_id *listener, *conn;

static void swap(int to, const void *what, void *other, int n)
{
	CHECK(write(sock[me][to], what, n) == n);
	CHECK(recv(sock[me][to], other, n, MSG_WAITALL) == n);
}

static int polled(void)
{
	outstanding--;
	return rig_poll(&r);
}

static void receive(int from, int i)
{
	struct ibv_sge sge = {(uintptr_t)buf + INBOX + 1024 * from + 64 * i, 64, r.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(qp[from][0], &wr, &bad));
}

static void make(int other)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = r.cq, .recv_cq = recvs[other], .cap = {64, 2 * RECVS, 1, 1, 64}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	for (int i = 0; i < 2; i++) {
		CHECK(qp[other][i] = ibv_create_qp(r.pd, &init));
		CHECK(!ibv_modify_qp(qp[other][i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	}
}

static void join(int other)
{
	int index = rig_gid(r.ctx);

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peers[other].qpn[i], .max_dest_rd_atomic = 4,
			.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = index, .hop_limit = 1}}};
		struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};

		CHECK(!ibv_query_gid(r.ctx, 1, index, &a.ah_attr.grh.dgid));
		CHECK(!ibv_modify_qp(qp[other][i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		CHECK(!ibv_modify_qp(qp[other][i], &s, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC));
	}
	for (int i = 0; i < RECVS; i++)
		receive(other, i);
}

/* post posts one request, and returns its result's place. */
static uint64_t *post(int to, int op, long off, int n, long own, const char *how, uint64_t add, uint64_t swapped)
{
	struct told *p = &peers[to];
	int key = strchr(how, 'm') ? LATER : strchr(how, 'o') ? OTHER : strchr(how, 'v') ? WINDOW : strchr(how, 'b') ? AGAIN : PLAIN;
	struct ibv_sge sge = {(uintptr_t)buf + own, n, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op}, *bad;

	if (!strchr(how, 'u'))
		wr.send_flags |= IBV_SEND_SIGNALED, outstanding++;
	if (strchr(how, 'f'))
		wr.send_flags |= IBV_SEND_FENCE;
	if (strchr(how, 'i'))
		wr.send_flags |= IBV_SEND_INLINE;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = p->addr[key] + off;
		wr.wr.atomic.rkey = p->rkey[key];
		wr.wr.atomic.compare_add = add;
		wr.wr.atomic.swap = swapped;
	} else {
		wr.wr.rdma.remote_addr = p->addr[key] + off;
		wr.wr.rdma.rkey = p->rkey[key];
	}
	CHECK(!ibv_post_send(qp[to][!!strchr(how, 'k')], &wr, &bad));
	return (uint64_t *)(buf + own);
}

/* await waits for an event of RDMA CM, and returns its id. */
static struct rdma_cm_id *await(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK(!rdma_get_cm_event(events, &e) && e->event == type);
	struct rdma_cm_id *id = e->id;
	CHECK(!rdma_ack_cm_event(e));
	return id;
}

static struct sockaddr_in cm_address(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port};

	CHECK(inet_pton(AF_INET, getenv("GORXE_ADDRESS"), &a.sin_addr) == 1);
	return a;
}

static void cm_qp(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1}};

	CHECK(!rdma_create_qp(conn, NULL, &init));
}

static void cm_connect(int to)
{
	struct sockaddr_in a = cm_address(peers[to].port);
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	CHECK(!rdma_create_id(events, &conn, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(conn, NULL, (struct sockaddr *)&a, 2000));
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(conn, 2000));
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm_qp();
	CHECK(!rdma_connect(conn, &param));
	await(RDMA_CM_EVENT_ESTABLISHED);
}

static void cm_accept(void)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};

	conn = await(RDMA_CM_EVENT_CONNECT_REQUEST);
	cm_qp();
	CHECK(!rdma_accept(conn, &param));
	await(RDMA_CM_EVENT_ESTABLISHED);
}

static void cm_end(void)
{
	if (conn) {
		rdma_destroy_qp(conn);
		CHECK(!rdma_destroy_id(conn));
	}
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(events);
}

static void play(char *script);

static void *thread(void *script)
{
	play(script);
	return NULL;
}

static void word(char *w)
{
	int to = w[1] - '0', n = 8;
	long off = 0, own = OWN + 64 * words++;
	char *p = strchr(w, '/'), how[16] = "", c;

	if (p)
		off = strtol(p + 1, &p, 10);
	else
		p = w + (w[1] ? 2 : 1);
	if (*p == '+')
		n = strtol(p + 1, &p, 10);
	if (*p == '<')
		own = strtol(p + 1, &p, 10);
	strncpy(how, p, sizeof(how) - 1);
	switch (w[0]) {
	case 'w': post(to, IBV_WR_RDMA_WRITE, off, n, own, how, 0, 0); break;
	case 'r': post(to, IBV_WR_RDMA_READ, off, n, own, how, 0, 0); break;
	case 'a': post(to, IBV_WR_ATOMIC_FETCH_AND_ADD, off, 8, own, how, 1, 0); break;
	case 'd': post(to, IBV_WR_ATOMIC_FETCH_AND_ADD, off, 8, own, how, 0, 0); break;
	case 's': post(to, IBV_WR_SEND, 0, n, own, how, 0, 0); break;
	case 'x': CHECK(rig_poll_of(recvs[to]) == IBV_WC_SUCCESS); break;
	case 'p': CHECK(polled() == IBV_WC_SUCCESS); break;
	case 'P':
		while (outstanding)
			CHECK(polled() == IBV_WC_SUCCESS);
		break;
	case 'l':
		for (uint64_t *got, taken = 1; taken; taken = *got) {
			got = post(to, IBV_WR_ATOMIC_CMP_AND_SWP, off, 8, own, how, 0, 1);
			CHECK(polled() == IBV_WC_SUCCESS);
		}
		break;
	case 'u': post(to, IBV_WR_ATOMIC_CMP_AND_SWP, off, 8, own, how, 1, 0); break;
	case 'n':
		for (uint64_t *got, none = 1; none; none = !*got) {
			got = post(to, IBV_WR_ATOMIC_FETCH_AND_ADD, off, 8, own, how, 0, 0);
			CHECK(polled() == IBV_WC_SUCCESS);
		}
		break;
	case 'S': CHECK(write(sock[me][to], "", 1) == 1); break;
	case 'X': CHECK(read(sock[me][to], &c, 1) == 1); break;
	case 'y':
		while (!buf[off])
			;
		break;
	case 't': buf[off] = 1; break;
	case 'e': c = buf[off]; break;
	case 'c': cm_connect(to); break;
	case 'h': cm_accept(); break;
	case 'q': CHECK(!rdma_disconnect(conn)); break;
	case 'g': await(RDMA_CM_EVENT_DISCONNECTED); break;
	default: CHECK(!"a word");
	}
}

static void play(char *script)
{
	char *w, *rest, *other = strchr(script, '[');
	pthread_t id;

	if (other) { /* it is the last thing of a script */
		*other = 0;
		other[strcspn(other + 1, "]") + 1] = 0;
	}
	for (w = strtok_r(script, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		word(w);
	if (other) {
		CHECK(!pthread_create(&id, NULL, thread, other + 1));
		CHECK(!pthread_join(id, NULL));
	}
}

static int part(char *script)
{
	struct ibv_mr *mr[KEYS] = {0};
	struct ibv_mw *mw;
	struct told you = {0};
	int fd = memfd_create("memory", 0);
	char *again;

	r = rig_make(1);
	CHECK(!ftruncate(fd, BUF));
	CHECK((buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
	CHECK((again = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
	memset((char *)buf + OWN, 1, OWN); /* a flag that is written is not 0 */
	int all = ALL | IBV_ACCESS_MW_BIND;
	CHECK(mr[PLAIN] = ibv_reg_mr(r.pd, (char *)buf, BUF, all));
	CHECK(mr[LATER] = ibv_reg_mr(r.pd, (char *)buf + 16, BUF - 16, all));
	CHECK(mr[OTHER] = ibv_reg_mr_iova(r.pd, (char *)buf, BUF, BASE, all));
	CHECK(mr[AGAIN] = ibv_reg_mr(r.pd, again, BUF, all));
	CHECK(r.cq = ibv_create_cq(r.ctx, 256, NULL, NULL, 0));
	r.mr = mr[PLAIN];
	for (int i = 0; i < N; i++) {
		if (i == me)
			continue;
		CHECK(recvs[i] = ibv_create_cq(r.ctx, 64, NULL, NULL, 0));
		make(i);
		struct told t = {.qpn = {qp[i][0]->qp_num, qp[i][1]->qp_num}};
		swap(i, &t, &peers[i], sizeof(t));
		join(i);
	}
	CHECK(mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = r.mr, .addr = (uintptr_t)buf, .length = BUF, .mw_access_flags = ALL & ~IBV_ACCESS_LOCAL_WRITE}};
	CHECK(!ibv_bind_mw(qp[me == 0][0], mw, &bind));
	CHECK(rig_poll(&r) == IBV_WC_SUCCESS);
	struct told t = {.rkey = {mr[PLAIN]->rkey, mr[LATER]->rkey, mr[OTHER]->rkey, mw->rkey, mr[AGAIN]->rkey},
		.addr = {(uintptr_t)buf, (uintptr_t)buf, BASE, (uintptr_t)buf, (uintptr_t)again}};
	if (connects) {
		struct sockaddr_in a = cm_address(0);
		CHECK(events = rdma_create_event_channel());
		CHECK(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP));
		CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&a));
		CHECK(!rdma_listen(listener, 4));
		t.port = rdma_get_src_port(listener);
	}
	for (int i = 0; i < N; i++)
		if (i != me)
			swap(i, &t, &peers[i], sizeof(t));
	play(script);
	while (outstanding)
		CHECK(polled() == IBV_WC_SUCCESS);
	for (int i = 0; i < N; i++)
		if (i != me)
			swap(i, &t, &you, sizeof(t));
	if (connects)
		cm_end();
	for (int i = 0; i < N; i++)
		for (int j = 0; i != me && j < 2; j++)
			CHECK(!ibv_destroy_qp(qp[i][j]));
	CHECK(!ibv_dealloc_mw(mw));
	for (int i = 0; i < KEYS; i++)
		if (mr[i])
			CHECK(!ibv_dereg_mr(mr[i]));
	return 0;
}

int main(int argc, char **argv)
{
	CHECK(argc == N + 1);
	for (int i = 1; i <= N; i++)
		connects |= strchr(argv[i], 'h') != NULL;
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++) {
			int ends[2];
			CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
			sock[i][j] = ends[0];
			sock[j][i] = ends[1];
		}
	for (me = 0; me < N; me++)
		if (fork() == 0)
			exit(part(argv[1 + me]));
	int status, bad = 0;
	for (int i = 0; i < N; i++)
		bad |= wait(&status) < 0 || status;
	return bad;
}

/* Work requests, and the completions and events that come of them. */
#include "faulty.h"
#include <fcntl.h>
#include <time.h>

static const char *types[] = {[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} ops[] = {
	{"SEND", IBV_WR_SEND}, {"RECV", IBV_WR_SEND}, {"RDMA_WRITE", IBV_WR_RDMA_WRITE}, {"RDMA_READ", IBV_WR_RDMA_READ},
	{"COMP_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP}, {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD}, {"BIND_MW", IBV_WR_BIND_MW},
};

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = {0}, *bad;

	CHECK("ibv_post_recv", !ibv_post_recv(qp, &wr, &bad));
}

/* Posts a work request without payload, or with eight bytes. */
static void post(struct party *p, struct party *peer, enum ibv_wr_opcode opcode, struct ibv_ah *ah, struct ibv_mw *mw)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1}, *bad;

	if (opcode == IBV_WR_SEND || opcode == IBV_WR_BIND_MW)
		wr.num_sge = 0;
	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = peer->qp->qp_num;
		wr.wr.ud.remote_qkey = qkey;
	} else if (opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr, .addr = (uintptr_t)buffer, .length = 8,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buffer + 64;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer + 64;
		wr.wr.rdma.rkey = mr->rkey;
	}
	CHECK("ibv_post_send", !(errno = ibv_post_send(p->qp, &wr, &bad)));
}

/* A work request of a kind, and a SEND. Says how the first completes, which state its queue pair then
 * has, and how the SEND completes. */
static void one(const char *round)
{
	struct ibv_ah *ah = NULL;
	struct ibv_mw *mw = NULL;
	int type = 0, receive = !strcmp(round + 3, "RECV");
	unsigned op = 0;

	for (int t = 0; t < (int)(sizeof types / sizeof *types); t++)
		if (types[t] && !strncmp(round, types[t], 2))
			type = t;
	while (op < sizeof ops / sizeof *ops && strcmp(round + 3, ops[op].name))
		op++;
	errno = EINVAL;
	CHECK(round, type && op < sizeof ops / sizeof *ops);
	struct party a = make_party(type, NULL), b = make_party(type, NULL);
	for (int i = 0; i < 2; i++)
		post_receive(b.qp);
	to_rts(&a, &b);
	to_rts(&b, &a);
	if (type == IBV_QPT_UD)
		CHECK("ibv_create_ah", ah = make_ah());
	if (ops[op].opcode == IBV_WR_BIND_MW)
		CHECK("ibv_alloc_mw", mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	struct party *subject = receive ? &b : &a;
	struct ibv_wc wc[2];
	post(&a, &b, ops[op].opcode, ah, mw);
	wc[0] = next(subject->cq);
	int state = state_of(subject->qp);
	post(&a, &b, IBV_WR_SEND, ah, NULL);
	wc[1] = next(subject->cq);
	printf("%s: status %d, vendor_err %#x, state %d, next %d", round, wc[0].status, wc[0].vendor_err, state, wc[1].status);
	if (receive)
		printf(", peer %d", next(a.cq).status);
	putchar('\n');
	end_party(&a);
	end_party(&b);
	if (ah)
		CHECK("ibv_destroy_ah", !ibv_destroy_ah(ah));
	if (mw)
		CHECK("ibv_dealloc_mw", !ibv_dealloc_mw(mw));
}

void work(int rounds, char **names)
{
	for (int i = 0; i < rounds; i++)
		one(names[i]);
}

static const char *event_names[] = {
	[IBV_EVENT_CQ_ERR] = "CQ_ERR", [IBV_EVENT_QP_FATAL] = "QP_FATAL", [IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
	[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR", [IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL", [IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED", [IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
};

/* Returns the next event that is not about the first message of a queue pair; 0 if none is queued. */
static int next_event(struct ibv_async_event *e)
{
	for (;;) {
		if (ibv_get_async_event(ctx, e)) {
			CHECK("ibv_get_async_event", errno == EAGAIN);
			return 0;
		}
		ibv_ack_async_event(e);
		if (e->event_type != IBV_EVENT_COMM_EST)
			return 1;
	}
}

/* Sends a message to a queue pair with a shared receive queue, whose limit is armed. */
void events(int count)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_recv_wr receive = {0}, *bad;
	struct ibv_async_event e;
	struct ibv_srq *srq;
	int completes = 1;

	CHECK("ibv_create_srq", srq = ibv_create_srq(pd, &init));
	for (int i = 0; i < 4; i++)
		CHECK("ibv_post_srq_recv", !ibv_post_srq_recv(srq, &receive, &bad));
	CHECK("ibv_modify_srq", !ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	struct party a = make_party(IBV_QPT_RC, NULL), b = make_party(IBV_QPT_RC, srq);
	to_rts(&a, &b);
	to_rts(&b, &a);
	post(&a, &b, IBV_WR_SEND, NULL, NULL);
	for (int i = 0; i < count; i++) {
		const char *of = "";
		CHECK("an event", next_event(&e));
		switch (e.event_type) {
		case IBV_EVENT_CQ_ERR:
			of = e.element.cq == a.cq ? " a" : " b";
			completes = e.element.cq != a.cq;
			break;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			of = e.element.srq == srq ? "" : " another";
			break;
		case IBV_EVENT_DEVICE_FATAL:
			break;
		default:
			of = e.element.qp == a.qp ? " a" : " b";
		}
		printf("event %s%s\n", event_names[e.event_type], of);
	}
	if (completes)
		printf("a completes with %d\n", next(a.cq).status);
	printf("a is in %d, b in %d\n", state_of(a.qp), state_of(b.qp));
	CHECK("fcntl", !fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK));
	if (next_event(&e))
		printf("event too many: %s\n", event_names[e.event_type]);
	CHECK("ibv_query_srq", !ibv_query_srq(srq, &limit));
	printf("limit %u\n", limit.srq_limit);
	end_party(&a);
	end_party(&b);
	CHECK("ibv_destroy_srq", !ibv_destroy_srq(srq));
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Posts to an RC queue pair, then to a UC queue pair, and says which completes first. A round that took
 * as long as the rule delays a completion proves nothing, and is repeated. */
void order(long long delay)
{
	struct party a = make_party(IBV_QPT_RC, NULL), b = make_party(IBV_QPT_RC, NULL);
	struct party c = make_party(IBV_QPT_UC, NULL), d = make_party(IBV_QPT_UC, NULL);
	int decided = 0;

	to_rts(&a, &b);
	to_rts(&b, &a);
	to_rts(&c, &d);
	to_rts(&d, &c);
	while (!decided) {
		struct ibv_wc wc;
		long long began = now();
		int first_a;
		post(&a, &b, IBV_WR_RDMA_WRITE, NULL, NULL);
		post(&c, &d, IBV_WR_RDMA_WRITE, NULL, NULL);
		while (!(first_a = ibv_poll_cq(a.cq, 1, &wc)) && !ibv_poll_cq(c.cq, 1, &wc))
			usleep(100);
		decided = now() - began < delay;
		CHECK("the first completion", wc.status == IBV_WC_SUCCESS);
		wc = next(first_a ? c.cq : a.cq);
		CHECK("the second completion", wc.status == IBV_WC_SUCCESS);
		if (decided)
			printf("%s\n", first_a ? "RC, UC" : "UC, RC");
	}
	for (struct party *all[] = {&a, &b, &c, &d}, **p = all; p < all + 4; p++)
		end_party(*p);
}

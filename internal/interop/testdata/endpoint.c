/*
 * endpoint DEVICE GID-INDEX: a verbs program that does what it is told, one
 * command a line: a word, then name=number pairs. It answers each with a line,
 * "ok name=value ..." or "error ...". So a test has both ends of a connection in
 * its hand, wherever they run. Objects are named by small numbers that the test
 * chooses.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 32, CQ_ENTRIES = 1024, DEPTH = 64, SLOTS = 8, MAX_INLINE = 64 };

static struct ibv_context *ctx;
static struct ibv_pd *pds[2]; /* 1: for what belongs to another domain */
static struct ibv_cq *cq;
static int gid_index;
static struct region {
	uint8_t *at;
	size_t len;
	struct ibv_mr *mr;
} regions[OBJECTS];
static struct ibv_qp *qps[OBJECTS];
static struct ibv_mw *mws[OBJECTS];
static struct ibv_ah *ahs[OBJECTS];
static struct ibv_srq *srq;

static char *args; /* of the command at hand */

static void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

static void ok(void) { say("ok"); }

/* fails says why a call failed; error 0 means that errno has it. */
static void fails(const char *call, int error)
{
	if (error <= 0)
		error = errno;
	say("error %s: %s", call, strerror(error));
}

static void answer(const char *call, int error)
{
	if (error)
		fails(call, error);
	else
		ok();
}

/* value finds name=... among the arguments. */
static const char *value(const char *name)
{
	size_t n = strlen(name);
	const char *p;

	for (p = args; p && *p; p = strchr(p, ' ')) {
		while (*p == ' ')
			p++;
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	}
	return NULL;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = value(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static unsigned object(const char *name) { return number(name, 0) % OBJECTS; }

static union ibv_gid gid_argument(const char *name)
{
	union ibv_gid gid = {};
	const char *text = value(name);
	int i;

	for (i = 0; text && i < 16; i++) {
		unsigned byte = 0;

		sscanf(text + 2 * i, "%2x", &byte);
		gid.raw[i] = byte;
	}
	return gid;
}

/* pattern is what byte i of a message with that seed is. */
static uint8_t pattern(uint32_t seed, uint32_t i)
{
	uint32_t x = (i / 4 + 1) * 2654435761u ^ seed * 40503u;

	return x >> (8 * (i % 4)) ^ x >> 13;
}

static void fill_at(uint8_t *at, size_t len, uint32_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		at[i] = pattern(seed, i);
}

/* differs_at returns where the bytes are not the pattern, or -1. */
static long differs_at(const uint8_t *at, size_t len, uint32_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (at[i] != pattern(seed, i))
			return i;
	return -1;
}

static struct region *region_argument(void) { return &regions[object("mr")]; }

static uint8_t *place(void) { return region_argument()->at + number("off", 0); }

static void do_mr(void)
{
	struct region *r = region_argument();

	r->len = number("len", 1 << 20);
	if (!r->at && posix_memalign((void **)&r->at, 4096, r->len)) {
		fails("posix_memalign", ENOMEM);
		return;
	}
	memset(r->at, 0, r->len);
	r->mr = ibv_reg_mr(pds[number("pd", 0) & 1], r->at, r->len, number("access", 0));
	if (!r->mr)
		fails("ibv_reg_mr", 0);
	else
		say("ok rkey=%u lkey=%u addr=%llu", r->mr->rkey, r->mr->lkey, (unsigned long long)(uintptr_t)r->at);
}

static void do_dereg(void) { answer("ibv_dereg_mr", ibv_dereg_mr(region_argument()->mr)); }

static void do_fill(void)
{
	fill_at(place(), number("len", 0), number("seed", 0));
	ok();
}

static void do_check(void) { say("ok at=%ld", differs_at(place(), number("len", 0), number("seed", 0))); }

static void do_set(void)
{
	uint64_t v = number("to", 0);

	memcpy(place(), &v, sizeof v);
	ok();
}

static void do_get(void)
{
	uint64_t v;

	memcpy(&v, place(), sizeof v);
	say("ok is=%llu", (unsigned long long)v);
}

static void do_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 2 } };

	srq = ibv_create_srq(pds[0], &attr);
	if (!srq)
		fails("ibv_create_srq", 0);
	else
		ok();
}

/*
 * create makes a queue pair. Operations that ibv_post_send does not know need an
 * extended one.
 */
static struct ibv_qp *create(struct ibv_qp_init_attr *init, uint64_t extended)
{
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = init->send_cq, .recv_cq = init->recv_cq, .qp_type = init->qp_type, .srq = init->srq,
		.cap = init->cap, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pds[0], .send_ops_flags = extended,
	};

	return extended ? ibv_create_qp_ex(ctx, &ex) : ibv_create_qp(pds[0], init);
}

/* do_qp makes a queue pair and takes it to INIT. */
static void do_qp(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = types[number("type", 0) % 3],
		.srq = number("srq", 0) ? srq : NULL,
		.cap = { DEPTH, DEPTH, 2, 2, MAX_INLINE },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = number("access", 0), .qkey = number("qkey", 0x11111111),
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct ibv_qp *qp = create(&init, number("extended", 0));
	int error;

	if (!qp) {
		fails("ibv_create_qp", 0);
		return;
	}
	qps[object("qp")] = qp;
	mask |= init.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	error = ibv_modify_qp(qp, &attr, mask);
	if (error)
		fails("ibv_modify_qp INIT", error);
	else
		say("ok qpn=%u", qp->qp_num);
}

static void do_connect(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = number("mtu", IBV_MTU_1024),
		.dest_qp_num = number("peer", 0),
		.rq_psn = number("rqpsn", 0),
		.max_dest_rd_atomic = number("rd", 4),
		.min_rnr_timer = number("rnrtimer", 10),
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid_argument("gid"), .sgid_index = gid_index, .hop_limit = 64 } },
		.sq_psn = number("sqpsn", 0),
		.max_rd_atomic = number("rd", 4),
		.timeout = number("timeout", 18), /* 1.07 s: an emulated machine pauses */
		.retry_cnt = number("retry", 7),
		.rnr_retry = number("rnr", 7),
	};
	int to_rtr = IBV_QP_STATE, to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	int error;

	if (qp->qp_type != IBV_QPT_UD)
		to_rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC) {
		to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	error = ibv_modify_qp(qp, &attr, to_rtr);
	if (error) {
		fails("ibv_modify_qp RTR", error);
		return;
	}
	attr.qp_state = IBV_QPS_RTS;
	answer("ibv_modify_qp RTS", ibv_modify_qp(qp, &attr, to_rts));
}

static void do_modify(void)
{
	struct ibv_qp_attr attr = { .qp_state = number("state", IBV_QPS_ERR) };

	answer("ibv_modify_qp", ibv_modify_qp(qps[object("qp")], &attr, IBV_QP_STATE));
}

static void do_state(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int error = ibv_query_qp(qps[object("qp")], &attr, IBV_QP_STATE, &init);

	if (error)
		fails("ibv_query_qp", error);
	else
		say("ok is=%d", attr.qp_state);
}

static void do_destroy(void) { answer("ibv_destroy_qp", ibv_destroy_qp(qps[object("qp")])); }

static void do_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = gid_argument("gid"), .sgid_index = gid_index, .hop_limit = 64 },
	};

	ahs[object("ah")] = ibv_create_ah(pds[0], &attr);
	if (!ahs[object("ah")])
		fails("ibv_create_ah", 0);
	else
		ok();
}

static void do_join(void)
{
	union ibv_gid gid = gid_argument("gid");

	answer("ibv_attach_mcast", ibv_attach_mcast(qps[object("qp")], &gid, 0));
}

static void do_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pds[0], number("type", IBV_MW_TYPE_2));

	mws[object("mw")] = mw;
	if (!mw)
		fails("ibv_alloc_mw", 0);
	else
		say("ok rkey=%u", mw->rkey);
}

static struct ibv_mw_bind_info window(void)
{
	struct region *r = region_argument();

	return (struct ibv_mw_bind_info){ r->mr, (uintptr_t)r->at + number("off", 0), number("len", 0), number("access", 0) };
}

/* do_bind binds a window of type 1. Those of type 2 are work requests. */
static void do_bind(void)
{
	struct ibv_mw *mw = mws[object("mw")];
	struct ibv_mw_bind bind = { .wr_id = number("id", 0), .send_flags = IBV_SEND_SIGNALED, .bind_info = window() };
	int error = ibv_bind_mw(qps[object("qp")], mw, &bind);

	if (error)
		fails("ibv_bind_mw", error);
	else
		say("ok rkey=%u", mw->rkey);
}

static void do_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)place(), number("len", 0), region_argument()->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number("id", 99), .sg_list = &sge, .num_sge = sge.length > 0 }, *bad;
	struct ibv_qp *qp = qps[object("qp")];

	answer("ibv_post_recv", number("srq", 0) ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad));
}

static void do_send(void)
{
	struct ibv_sge sge = { (uintptr_t)place(), number("len", 0), number("lkey", region_argument()->mr ? region_argument()->mr->lkey : 0) };
	struct ibv_send_wr wr = {
		.wr_id = number("id", 1), .sg_list = &sge, .num_sge = sge.length > 0,
		.opcode = number("op", IBV_WR_SEND), .send_flags = number("flags", IBV_SEND_SIGNALED),
	}, *bad;

	switch (wr.opcode) {
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		wr.invalidate_rkey = number("inv", 0);
		break;
	case IBV_WR_BIND_MW:
		wr.bind_mw.mw = mws[object("mw")];
		wr.bind_mw.rkey = number("rkey", 0);
		wr.bind_mw.bind_info = window();
		wr.num_sge = 0;
		break;
	default:
		wr.imm_data = htobe32(number("imm", 0));
	}
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = number("raddr", 0);
		wr.wr.atomic.rkey = number("rkey", 0);
		wr.wr.atomic.compare_add = number("add", 0);
		wr.wr.atomic.swap = number("swap", 0);
	} else if (value("ah")) {
		wr.wr.ud.ah = ahs[object("ah")];
		wr.wr.ud.remote_qpn = number("peer", 0);
		wr.wr.ud.remote_qkey = number("qkey", 0x11111111);
	} else {
		wr.wr.rdma.remote_addr = number("raddr", 0);
		wr.wr.rdma.rkey = number("rkey", 0);
	}
	answer("ibv_post_send", ibv_post_send(qps[object("qp")], &wr, &bad));
}

/* do_awrite posts an ATOMIC WRITE of 8 bytes, do_flush a FLUSH. */
static void do_awrite(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(qps[object("qp")]);

	ibv_wr_start(qp);
	qp->wr_id = number("id", 1);
	qp->wr_flags = number("flags", IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, number("rkey", 0), number("raddr", 0), place());
	answer("ibv_wr_complete", ibv_wr_complete(qp));
}

static void do_flush(void)
{
#ifdef HAVE_FLUSH
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(qps[object("qp")]);

	ibv_wr_start(qp);
	qp->wr_id = number("id", 1);
	qp->wr_flags = number("flags", IBV_SEND_SIGNALED);
	ibv_wr_flush(qp, number("rkey", 0), number("raddr", 0), number("len", 0), number("placement", 0), number("range", 0));
	answer("ibv_wr_complete", ibv_wr_complete(qp));
#else
	say("error this libibverbs has no FLUSH");
#endif
}

static void do_port(void)
{
	struct ibv_port_attr attr;
	int error = ibv_query_port(ctx, 1, &attr);

	if (error)
		fails("ibv_query_port", error);
	else
		say("ok pkey=%u qkey=%u", attr.bad_pkey_cntr, attr.qkey_viol_cntr);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* next waits for one completion; 0 if none comes in time. */
static int next(struct ibv_wc *wc, double until)
{
	static const struct timespec pause = { 0, 50000 };
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)) && seconds() < until)
		nanosleep(&pause, NULL);
	return n;
}

/* do_poll answers with n completions, or fewer if they do not come in time. */
static void do_poll(void)
{
	double until = seconds() + number("ms", 60000) / 1e3;
	int n = number("n", 1);
	struct ibv_wc wc;

	printf("ok");
	for (; n > 0 && next(&wc, until) > 0; n--) {
		unsigned flags = wc.status ? 0 : wc.wc_flags & ~IBV_WC_GRH;
		unsigned extra = flags & IBV_WC_WITH_IMM ? be32toh(wc.imm_data) : flags ? wc.invalidated_rkey : 0;

		printf(" wc=%llu:%d:%d:%u:%u:%u", (unsigned long long)wc.wr_id, wc.status,
		       wc.status ? 0 : (int)wc.opcode, wc.status ? 0 : wc.byte_len,
		       flags, extra);
	}
	say("");
}

/* draw is a random number that the seed and the place fix. */
static uint32_t draw(uint32_t seed, uint32_t i)
{
	uint32_t x = (seed + 1) * 2654435761u ^ (i + 1) * 2246822519u;

	x = (x ^ x >> 15) * 3266489917u;
	return x ^ x >> 13;
}

/* size_of varies the lengths of the loops' messages; one in four is inline. */
static uint32_t size_of(uint32_t seed, uint32_t i, uint32_t max)
{
	return 1 + draw(seed, i) % (draw(seed, ~i) % 4 ? max : MAX_INLINE);
}

/* work is a work request of the loops: length, and inline if it is short. */
static int work(struct ibv_qp *qp, struct ibv_send_wr *wr, uint8_t *at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)at, len, region_argument()->mr->lkey };
	struct ibv_send_wr *bad;
	int carries = wr->opcode != IBV_WR_RDMA_READ && wr->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_ATOMIC_CMP_AND_SWP;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags |= len <= MAX_INLINE && carries ? IBV_SEND_INLINE : 0;
	return ibv_post_send(qp, wr, &bad);
}

/* rdma posts a WRITE or a READ of the loops. */
static int rdma(struct ibv_qp *qp, int op, uint64_t id, uint8_t *at, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	/* The READ that follows a WRITE tells of both. */
	struct ibv_send_wr wr = { .wr_id = id, .opcode = op, .send_flags = op == IBV_WR_RDMA_READ ? IBV_SEND_SIGNALED : 0 };

	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return work(qp, &wr, at, len);
}

/* count adds 1 to the peer's counter, with one atomic or the other. */
static int count(struct ibv_qp *qp, int compare, uint64_t id, uint64_t was, uint8_t *at, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = compare ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.remote_addr = raddr;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = compare ? was : 1;
	wr.wr.atomic.swap = was + 1;
	return work(qp, &wr, at, 8);
}

/*
 * do_loop writes messages to the peer, reads each back and compares, and counts it
 * with an atomic at the peer: three operations, SLOTS messages at a time. n bounds
 * the messages, for (in ms) the time. The peer's region starts with SLOTS places of
 * max bytes; its counter is behind them.
 */
static void do_loop(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t n = number("n", UINT32_MAX), max = number("max", 4096), seed = number("seed", 0), rkey = number("rkey", 0), i = 0, k;
	uint64_t raddr = number("raddr", 0);
	uint8_t *base = region_argument()->at, *counted = base + 2 * SLOTS * max;
	double until = seconds() + number("ms", 100000) / 1e3, end = seconds() + number("for", UINT32_MAX) / 1e3;
	struct ibv_wc wc;

	while (i < n && seconds() < end) {
		uint32_t batch = n - i < SLOTS ? n - i : SLOTS;

		for (k = 0; k < batch; k++) {
			uint8_t *out = base + k * max, *in = base + (SLOTS + k) * max;
			uint32_t len = size_of(seed, i + k, max);
			int error;

			fill_at(out, len, seed + i + k);
			memset(in, 0, len);
			error = rdma(qp, IBV_WR_RDMA_WRITE, i + k, out, len, raddr + k * max, rkey);
			if (!error)
				error = rdma(qp, IBV_WR_RDMA_READ, i + k, in, len, raddr + k * max, rkey);
			if (!error)
				error = count(qp, draw(seed, i + k) & 1, i + k, i + k, counted + 8 * k, raddr + SLOTS * max, rkey);
			if (error) {
				fails("ibv_post_send", error);
				return;
			}
		}
		for (k = 0; k < 2 * batch; k++) {
			if (next(&wc, until) <= 0) {
				say("error message %u: no completion", i);
				return;
			}
			if (wc.status || wc.wr_id != i + k / 2) {
				say("error message %u, completion %u: id %llu, %s", i, k, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
				return;
			}
		}
		for (k = 0; k < batch; k++) {
			uint32_t len = size_of(seed, i + k, max);
			long at = differs_at(base + (SLOTS + k) * max, len, seed + i + k);
			uint64_t was;

			memcpy(&was, counted + 8 * k, 8);
			if (at >= 0) {
				say("error message %u of %u bytes differs at %ld", i + k, len, at);
				return;
			}
			if (was != i + k) {
				say("error message %u: the counter was %llu", i + k, (unsigned long long)was);
				return;
			}
		}
		i += batch;
	}
	say("ok n=%u", i);
}

/* do_stream sends messages, SLOTS at a time; the last one's immediate is 1. */
static void do_stream(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t n = number("n", UINT32_MAX), max = number("max", 4096), seed = number("seed", 0), posted = 0, i;
	uint8_t *base = region_argument()->at;
	double until = seconds() + number("ms", 100000) / 1e3, end = seconds() + number("for", UINT32_MAX) / 1e3;
	struct ibv_wc wc;
	int last = 0;

	for (i = 0; !last || i < posted; i++) {
		for (; !last && posted < i + SLOTS; posted++) {
			struct ibv_send_wr wr = { .wr_id = posted, .send_flags = IBV_SEND_SIGNALED };
			uint8_t *out = base + posted % SLOTS * max;
			int error;

			last = posted + 1 == n || seconds() >= end;
			wr.opcode = last || draw(seed, posted) & 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
			wr.imm_data = htobe32(last);
			fill_at(out, size_of(seed, posted, max), seed + posted);
			error = work(qp, &wr, out, size_of(seed, posted, max));
			if (error) {
				fails("ibv_post_send", error);
				return;
			}
		}
		if (next(&wc, until) <= 0 || wc.status || wc.wr_id != i) {
			say("error send %u: id %llu, %s", i, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			return;
		}
	}
	say("ok n=%u", i);
}

static int post_sink(struct ibv_qp *qp, uint32_t i, uint32_t max)
{
	struct ibv_sge sge = { (uintptr_t)region_argument()->at + i % SLOTS * max, max, region_argument()->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

/* do_sink receives what do_stream sends: all, in order, unchanged. */
static void do_sink(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t max = number("max", 4096), seed = number("seed", 0), posted, i, last = 0;
	double until = seconds() + number("ms", 100000) / 1e3;
	struct ibv_wc wc;

	for (posted = 0; posted < SLOTS; posted++)
		post_sink(qp, posted, max);
	for (i = 0; !last; i++) {
		uint32_t len = size_of(seed, i, max);
		long at;

		if (next(&wc, until) <= 0 || wc.status || wc.wr_id != i || wc.byte_len != len) {
			say("error receive %u: id %llu, %u bytes, %s", i, (unsigned long long)wc.wr_id, wc.byte_len, ibv_wc_status_str(wc.status));
			return;
		}
		at = differs_at(region_argument()->at + i % SLOTS * max, len, seed + i);
		if (at >= 0) {
			say("error receive %u differs at %ld", i, at);
			return;
		}
		last = wc.wc_flags & IBV_WC_WITH_IMM ? be32toh(wc.imm_data) : 0;
		post_sink(qp, posted++, max);
	}
	say("ok n=%u", i);
}

/* do_frame puts an Ethernet frame, bytes=hex, on a link: what no device would send. */
static void do_frame(void)
{
	static uint8_t frame[2048];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	const char *text = value("bytes");
	char link[IF_NAMESIZE] = "";
	size_t n = 0;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	for (; text && n < sizeof frame && sscanf(text, "%2hhx", &frame[n]) == 1; text += 2)
		n++;
	if (value("link"))
		sscanf(value("link"), "%15s", link);
	to.sll_ifindex = if_nametoindex(link);
	if (fd < 0 || sendto(fd, frame, n, 0, (struct sockaddr *)&to, sizeof to) != (ssize_t)n)
		fails("sendto", 0);
	else
		ok();
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} commands[] = {
	{ "mr", do_mr }, { "dereg", do_dereg }, { "fill", do_fill }, { "check", do_check }, { "set", do_set },
	{ "get", do_get }, { "srq", do_srq }, { "qp", do_qp }, { "connect", do_connect }, { "modify", do_modify },
	{ "state", do_state }, { "destroy", do_destroy }, { "ah", do_ah }, { "join", do_join }, { "mw", do_mw },
	{ "bind", do_bind }, { "recv", do_recv }, { "send", do_send }, { "poll", do_poll }, { "loop", do_loop },
	{ "stream", do_stream }, { "sink", do_sink }, { "awrite", do_awrite }, { "flush", do_flush }, { "port", do_port },
	{ "frame", do_frame },
};

static int open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	union ibv_gid gid;
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx || ibv_query_gid(ctx, 1, gid_index, &gid))
		return -1;
	pds[0] = ibv_alloc_pd(ctx);
	pds[1] = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, CQ_ENTRIES, NULL, NULL, 0);
	if (!pds[0] || !pds[1] || !cq)
		return -1;
	printf("ok gid=");
	for (i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	say("");
	return 0;
}

int main(int argc, char **argv)
{
	static char line[4096];

	if (argc != 3)
		return 2;
	gid_index = atoi(argv[2]);
	if (open_device(argv[1])) {
		say("error %s: %s", argv[1], strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof line, stdin)) {
		size_t i, known = sizeof commands / sizeof commands[0];

		line[strcspn(line, "\n")] = 0;
		args = strchr(line, ' ');
		if (args)
			*args++ = 0;
		for (i = 0; i < known && strcmp(line, commands[i].name); i++)
			;
		if (i < known)
			commands[i].run();
		else
			say("error no command %s", line);
	}
	return 0;
}

/*
 * What the programs with one mistake share: two connected queue pairs in one process, and a main
 * that runs the mistake ("wrong") or its correct twin ("right"). Each program exits with 0 if all
 * went well, and else says what it saw.
 */
#ifndef MISTAKE_H
#define MISTAKE_H

/* A program uses some of it. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "qp.h"

enum { rounds = 12, size = 4096, rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

struct side {
	struct ibv_cq *sends, *receives;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buf; /* size bytes to send, and size bytes to receive in */
};

static struct side a, b;

/* The mistake, or its correct twin. */
static void run(int right);

#define FAIL(...)                             \
	do {                                  \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr);          \
		exit(1);                      \
	} while (0)

static struct side make_side(struct ibv_context *ctx, struct ibv_pd *pd, int cqe)
{
	struct side s;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

	CHECK("memory", s.buf = aligned_alloc(4096, 2 * size));
	memset(s.buf, 0, 2 * size);
	CHECK("ibv_reg_mr", s.mr = ibv_reg_mr(pd, s.buf, 2 * size, rights | IBV_ACCESS_LOCAL_WRITE));
	CHECK("ibv_create_cq", s.sends = ibv_create_cq(ctx, cqe, NULL, NULL, 0));
	CHECK("ibv_create_cq", s.receives = ibv_create_cq(ctx, 8, NULL, NULL, 0));
	attr.send_cq = s.sends;
	attr.recv_cq = s.receives;
	CHECK("ibv_create_qp", s.qp = ibv_create_qp(pd, &attr));
	return s;
}

static void connect_side(struct ibv_context *ctx, struct side *s, struct side *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};
	union ibv_gid gid;

	CHECK("ibv_query_gid", !ibv_query_gid(ctx, 1, gid_index, &gid));
	CHECK("INIT", !ibv_modify_qp(s->qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}}};
	CHECK("RTR", !ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 0, .max_rd_atomic = 1};
	CHECK("RTS", !ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Posts a receive into the second half of the buffer. */
static inline void post_receive(struct side *s)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buf + size, .length = size, .lkey = s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK("ibv_post_recv", !ibv_post_recv(s->qp, &wr, &bad));
}

/* Posts the first n bytes of the buffer; a WRITE or READ concerns the second half of the peer's. */
static inline void post(struct side *s, struct side *peer, enum ibv_wr_opcode op, uint32_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buf, .length = n, .lkey = s->mr->lkey};
	struct ibv_send_wr wr = {.opcode = op, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = {.remote_addr = (uintptr_t)peer->buf + size, .rkey = peer->mr->rkey}}, *bad;

	CHECK("ibv_post_send", !ibv_post_send(s->qp, &wr, &bad));
}

/* Polls once, and reports whether something completed. */
static inline int completed(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	CHECK("ibv_poll_cq", n >= 0);
	if (n && wc.status != IBV_WC_SUCCESS)
		FAIL("a work request completed with: %s", ibv_wc_status_str(wc.status));
	return n;
}

static inline void await(struct ibv_cq *cq)
{
	while (!completed(cq))
		;
}

/* Requires that every byte that was received is want. */
static inline void expect(struct side *s, unsigned char want)
{
	for (int i = 0; i < size; i++)
		if (s->buf[size + i] != want)
			FAIL("byte %d of message %d is %d", i, want, s->buf[size + i]);
}

static void start(const char *device, int cqe)
{
	struct ibv_context *ctx = open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	CHECK("ibv_alloc_pd", pd);
	a = make_side(ctx, pd, cqe);
	b = make_side(ctx, pd, 8);
	connect_side(ctx, &a, &b);
	connect_side(ctx, &b, &a);
}

/* How many completions the send queue's CQ of side a has room for. */
static int cqe_of(int right);

int main(int argc, char **argv)
{
	int right = argc == 3 && !strcmp(argv[2], "right");

	if (!right && (argc != 3 || strcmp(argv[2], "wrong")))
		FAIL("usage: %s DEVICE wrong|right", argv[0]);
	start(argv[1], cqe_of(right));
	run(right);
	return 0;
}

#endif

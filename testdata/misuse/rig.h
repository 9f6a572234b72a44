/*
 * Two connected queue pairs of one program, for small programs with one mistake each. With an
 * argument, a program is its correct twin. Its first line has the checks that find the mistake, and
 * the report has to name the line that ends with LINE.
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(x)                                                     \
	do {                                                         \
		if (!(x)) {                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                     \
		}                                                    \
	} while (0)

enum { SIZE = 8192, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *pd2; /* pd2, if not null, is that of qp[1] */
	struct ibv_cq *cq;       /* of both */
	struct ibv_cq *recv_cq;  /* if not null, of the receives of qp[1] */
	struct ibv_srq *srq;     /* if not null, that of qp[1] */
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *buf;
	/* settings; 0: the usual */
	int cqe, depth, peer_access, dest_rd_atomic, rd_atomic, rnr_retry, unsignaled;
	int timeout, retry; /* as they are */
	int rq_psn[2], sq_psn[2];
	enum ibv_mtu mtu[2];
};

static int MISTAKE;

static __attribute__((unused)) struct rig rig_make(int argc)
{
	struct rig r = {.cqe = 64, .depth = 16, .peer_access = ALL, .rd_atomic = 1, .dest_rd_atomic = 1, .rnr_retry = 7,
			.timeout = 14, .retry = 7, .mtu = {IBV_MTU_1024, IBV_MTU_1024}};
	struct ibv_device **list = ibv_get_device_list(NULL);

	MISTAKE = argc == 1;
	CHECK(list && list[0]);
	CHECK(r.ctx = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	CHECK(r.pd = ibv_alloc_pd(r.ctx));
	r.buf = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(r.buf != MAP_FAILED);
	return r;
}

static int rig_gid(struct ibv_context *ctx)
{
	union ibv_gid gid;

	for (int i = 0; i < 16; i++) /* an IPv4 address */
		if (!ibv_query_gid(ctx, 1, i, &gid) && gid.raw[10] == 0xff && gid.raw[11] == 0xff)
			return i;
	return 0;
}

static __attribute__((unused)) void rig_connect(struct rig *r)
{
	int index = rig_gid(r->ctx);
	union ibv_gid gid;

	CHECK(!ibv_query_gid(r->ctx, 1, index, &gid));
	CHECK(r->cq = ibv_create_cq(r->ctx, r->cqe, NULL, NULL, 0));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex init = {.send_cq = r->cq, .recv_cq = i && r->recv_cq ? r->recv_cq : r->cq, .srq = i ? r->srq : NULL, .qp_type = IBV_QPT_RC, .sq_sig_all = !r->unsignaled,
			.cap = {.max_send_wr = r->depth, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = i && r->pd2 ? r->pd2 : r->pd,
			.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND |
				IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV};
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = i ? r->peer_access : ALL};
		CHECK(r->qp[i] = ibv_create_qp_ex(r->ctx, &init));
		r->depth = init.cap.max_send_wr;
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = r->mtu[i], .dest_qp_num = r->qp[!i]->qp_num, .rq_psn = r->rq_psn[i],
			.max_dest_rd_atomic = r->dest_rd_atomic, .min_rnr_timer = 26 /* 82 ms: what follows a post comes before it is sent again */,
			.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 1}}};
		struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .sq_psn = r->sq_psn[i], .timeout = r->timeout, .retry_cnt = r->retry, .rnr_retry = r->rnr_retry,
			.max_rd_atomic = r->rd_atomic};
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		CHECK(!ibv_modify_qp(r->qp[i], &s, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC));
	}
}

static int rig_poll_of(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	return wc.status;
}

static __attribute__((unused)) int rig_poll(struct rig *r) { return rig_poll_of(r->cq); }

/* rig_await takes events up to one of a type. */
static __attribute__((unused)) void rig_await(struct rig *r, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		CHECK(!ibv_get_async_event(r->ctx, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type != type);
}

/* rig_from posts a work request of one piece from a queue pair to the other one. */
static __attribute__((unused)) int rig_from(struct rig *r, int i, enum ibv_wr_opcode op, char *from, uint32_t lkey, int n, char *to, uint32_t rkey, int flags)
{
	struct ibv_sge sge = {(uintptr_t)from, n, lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = flags}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)to;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(r->qp[i], &wr, &bad);
}

/* rig_post posts from qp[0] to qp[1]. */
static __attribute__((unused)) int rig_post(struct rig *r, enum ibv_wr_opcode op, char *from, uint32_t lkey, int n, char *to, uint32_t rkey, int flags)
{
	return rig_from(r, 0, op, from, lkey, n, to, rkey, flags);
}

/* rig_hold posts a message that finds no receive: what qp[0] posts after it waits until rig_go. */
static __attribute__((unused)) void rig_hold(struct rig *r)
{
	CHECK(!rig_post(r, IBV_WR_SEND, r->buf + SIZE - 8, r->mr->lkey, 8, 0, 0, 0));
}

/* rig_recv posts a receive to qp[1]. */
static __attribute__((unused)) void rig_recv(struct rig *r, char *to, uint32_t lkey, int n)
{
	struct ibv_sge sge = {(uintptr_t)to, n, lkey};
	struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(r->qp[1], &wr, &bad));
}

/* rig_go posts the receive for rig_hold, and polls the two completions. */
static __attribute__((unused)) void rig_go(struct rig *r)
{
	rig_recv(r, r->buf + SIZE - 16, r->mr->lkey, 8);
	rig_poll(r);
	rig_poll(r);
}

/* rig_stop ends what is under way. */
static __attribute__((unused)) void rig_stop(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	for (int i = 0; i < 2; i++)
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE));
}

static __attribute__((unused)) void rig_end(struct rig *r)
{
	for (int i = 0; i < 2; i++)
		if (r->qp[i])
			CHECK(!ibv_destroy_qp(r->qp[i]));
	if (r->srq)
		CHECK(!ibv_destroy_srq(r->srq));
	if (r->recv_cq)
		CHECK(!ibv_destroy_cq(r->recv_cq));
	if (r->cq)
		CHECK(!ibv_destroy_cq(r->cq));
	if (r->mr)
		CHECK(!ibv_dereg_mr(r->mr));
	if (r->pd2)
		CHECK(!ibv_dealloc_pd(r->pd2));
	CHECK(!ibv_dealloc_pd(r->pd));
	CHECK(!ibv_close_device(r->ctx));
}

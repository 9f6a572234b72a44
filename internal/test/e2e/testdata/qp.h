/* What the small verbs programs of this directory share. */
#ifndef QP_H
#define QP_H

#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what, ok)                                                        \
	do {                                                                   \
		if (!(ok)) {                                                   \
			fprintf(stderr, "%s: %s\n", what, strerror(errno));    \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* An RC queue pair with its own context, and where the peer finds it. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
};

struct address {
	uint32_t qpn, rkey;
	uint64_t va;
	union ibv_gid gid;
};

static const int gid_index = 1;

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK("ibv_get_device_list", list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name)) {
			struct ibv_context *ctx = ibv_open_device(list[i]);
			CHECK("ibv_open_device", ctx);
			return ctx;
		}
	fprintf(stderr, "no device %s\n", name);
	exit(1);
}

static inline struct end make_end(struct ibv_context *ctx, void *buf, size_t size)
{
	struct end e = {.ctx = ctx};
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	CHECK("ibv_alloc_pd", e.pd = ibv_alloc_pd(ctx));
	CHECK("ibv_create_cq", e.cq = ibv_create_cq(ctx, 128, NULL, NULL, 0));
	CHECK("ibv_reg_mr", e.mr = ibv_reg_mr(e.pd, buf, size,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
	a.send_cq = a.recv_cq = e.cq;
	CHECK("ibv_create_qp", e.qp = ibv_create_qp(e.pd, &a));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return e;
}

static inline struct address address_of(struct end *e)
{
	struct address a = {.qpn = e->qp->qp_num, .rkey = e->mr->rkey, .va = (uintptr_t)e->mr->addr};

	CHECK("ibv_query_gid", !ibv_query_gid(e->ctx, 1, gid_index, &a.gid));
	return a;
}

static inline void connect_to(struct end *e, struct address *peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}}};

	CHECK("RTR", !ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 3, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK("RTS", !ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Posts one WRITE of the end's whole buffer; 0 or an errno. */
static inline int post_write(struct end *e, struct address *peer, uint32_t size)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->mr->addr, .length = size, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = {.remote_addr = peer->va, .rkey = peer->rkey}}, *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

#endif

/*
 * A program that knows nothing of fault rules, and says what it meets.
 * usage: faulty PART DEVICE [ARGUMENT]...
 *   verbs             each call of libibverbs, and its errno
 *   cm ADDRESS        each call of librdmacm, and its errno
 *   limits            how much of each thing there may be, and the errno of one more
 *   work TYPE:OP...   a work request each: its completion, and the state of the queue pair
 *   events COUNT [hasty]  a message to a shared receive queue, and the events that come
 *   order TIME        which of two queue pairs completes first, if less than TIME (in ns) has passed
 */
#include "faulty.h"

struct ibv_context *ctx;
struct ibv_pd *pd;
struct ibv_mr *mr;
char *buffer;
int hasty;

struct party make_party(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct party p;
	struct ibv_qp_init_attr attr = {.qp_type = type, .srq = srq,
		.cap = {.max_send_wr = 8, .max_recv_wr = srq ? 0 : 8, .max_send_sge = 1, .max_recv_sge = srq ? 0 : 1}};

	CHECK("ibv_create_cq", p.cq = ibv_create_cq(ctx, 32, NULL, NULL, 0));
	attr.send_cq = attr.recv_cq = p.cq;
	CHECK("ibv_create_qp", p.qp = ibv_create_qp(pd, &attr));
	to_init(&p);
	return p;
}

void to_init(struct party *p)
{
	int ud = p->qp->qp_type == IBV_QPT_UD, uc = p->qp->qp_type == IBV_QPT_UC;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (!uc)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	CHECK("INIT", !ibv_modify_qp(p->qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
}

static struct ibv_ah_attr way(void)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};

	CHECK("ibv_query_gid", !ibv_query_gid(ctx, 1, gid_index, &ah.grh.dgid));
	return ah;
}

void to_rts(struct party *p, struct party *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = way()};
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (p->qp->qp_type != IBV_QPT_UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (p->qp->qp_type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK("RTR", !ibv_modify_qp(p->qp, &attr, rtr));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = hasty ? 14 : 18, .retry_cnt = hasty ? 2 : 7,
		.rnr_retry = 7, .max_rd_atomic = 1};
	CHECK("RTS", !ibv_modify_qp(p->qp, &attr, rts));
}

void end_party(struct party *p)
{
	CHECK("ibv_destroy_qp", !ibv_destroy_qp(p->qp));
	CHECK("ibv_destroy_cq", !ibv_destroy_cq(p->cq));
}

struct ibv_wc next(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		usleep(100);
	return wc;
}

int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK("ibv_query_qp", !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

struct ibv_ah *make_ah(void)
{
	struct ibv_ah_attr attr = way();

	return ibv_create_ah(pd, &attr);
}

int main(int argc, char **argv)
{
	const char *part = argc > 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(part, "verbs")) {
		all_verbs(argv[2]);
		return 0;
	}
	if (!strcmp(part, "cm") && argc > 3) {
		all_cm(argv[3]);
		return 0;
	}
	ctx = open_device(argc > 2 ? argv[2] : "rxe0");
	CHECK("ibv_alloc_pd", pd = ibv_alloc_pd(ctx));
	if (!strcmp(part, "limits")) {
		limits();
		return 0;
	}
	CHECK("memory", buffer = aligned_alloc(buffer_size, buffer_size));
	CHECK("ibv_reg_mr", mr = ibv_reg_mr(pd, buffer, buffer_size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND));
	if (!strcmp(part, "work"))
		work(argc - 3, argv + 3);
	else if (!strcmp(part, "events") && argc > 3)
		hasty = argc > 4, events(atoi(argv[3]));
	else if (!strcmp(part, "order") && argc > 3)
		order(atoll(argv[3]));
	else
		return 2;
	return 0;
}

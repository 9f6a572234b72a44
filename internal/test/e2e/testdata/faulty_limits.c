/* How much of each thing the device allows. */
#include "faulty.h"

enum { most = 20 };

/* Makes objects until one fails, says how many there are and the errno, and destroys them. */
#define COUNT(limit, type, make, end)                                                  \
	do {                                                                           \
		type *made[most];                                                      \
		int n = 0;                                                             \
		errno = 0;                                                             \
		while (n < most && (made[n] = (make)))                                 \
			n++;                                                           \
		printf("%s %d, then %d\n", limit, n, n < most ? errno : 0);            \
		while (n > 0)                                                          \
			CHECK(limit, !end(made[--n]));                                 \
	} while (0)

static struct ibv_cq *cq;

static struct ibv_qp *make_qp(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = cap};

	return ibv_create_qp(pd, &attr);
}

static struct ibv_qp *make_uc(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UC, .send_cq = cq, .recv_cq = cq};

	return ibv_create_qp(pd, &attr);
}

static struct ibv_srq *make_srq(int wr, int sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = wr, .max_sge = sge}};

	return ibv_create_srq(pd, &attr);
}

/* Says which is the largest number that a call takes, and the errno of the next. */
#define LARGEST(limit, type, make, end)                                                \
	do {                                                                           \
		type *made;                                                            \
		int n = 0;                                                             \
		errno = 0;                                                             \
		while (n < most && (made = (make(n + 1)))) {                           \
			CHECK(limit, !end(made));                                      \
			n++;                                                           \
		}                                                                      \
		printf("%s %d, then %d\n", limit, n, n < most ? errno : 0);            \
	} while (0)

#define WITH_CQE(n) ibv_create_cq(ctx, n, NULL, NULL, 0)
#define WITH_QP_WR(n) make_qp((struct ibv_qp_cap){.max_send_wr = n, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1})
#define WITH_SGE(n) make_qp((struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = n, .max_recv_sge = n})
#define WITH_INLINE(n) make_qp((struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = n})
#define WITH_SRQ_WR(n) make_srq(n, 1)
#define WITH_SRQ_SGE(n) make_srq(1, n)
#define WITH_PAGES(n) ibv_reg_mr(pd, memory, (n) * 4096, 0)

static void atomics(void)
{
	struct party a = {.cq = cq, .qp = WITH_QP_WR(1)};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};
	int n = 0, error = 0;

	CHECK("ibv_create_qp", a.qp);
	to_init(&a);
	CHECK("ibv_query_gid", !ibv_query_gid(ctx, 1, gid_index, &ah.grh.dgid));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = a.qp->qp_num, .ah_attr = ah};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	for (; n < most; n++) {
		attr.max_dest_rd_atomic = n + 1;
		if ((error = ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
			break;
		CHECK("RESET", !ibv_modify_qp(a.qp, &reset, IBV_QP_STATE));
		to_init(&a);
	}
	printf("max_rd_atomic %d, then %d\n", n, error);
	CHECK("ibv_destroy_qp", !ibv_destroy_qp(a.qp));
}

void limits(void)
{
	static char memory[most * 4096] __attribute__((aligned(4096)));

	COUNT("max_pd", struct ibv_pd, ibv_alloc_pd(ctx), ibv_dealloc_pd);
	COUNT("max_mr", struct ibv_mr, ibv_reg_mr(pd, memory, 1, 0), ibv_dereg_mr);
	COUNT("max_mw", struct ibv_mw, ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_dealloc_mw);
	COUNT("max_ah", struct ibv_ah, make_ah(), ibv_destroy_ah);
	COUNT("max_srq", struct ibv_srq, WITH_SRQ_WR(1), ibv_destroy_srq);
	COUNT("max_cq", struct ibv_cq, WITH_CQE(1), ibv_destroy_cq);
	LARGEST("max_cqe", struct ibv_cq, WITH_CQE, ibv_destroy_cq);
	CHECK("ibv_create_cq", cq = WITH_CQE(1));
	COUNT("max_qp", struct ibv_qp, WITH_QP_WR(1), ibv_destroy_qp);
	COUNT("max_uc", struct ibv_qp, make_uc(), ibv_destroy_qp);
	LARGEST("max_qp_wr", struct ibv_qp, WITH_QP_WR, ibv_destroy_qp);
	LARGEST("max_sge", struct ibv_qp, WITH_SGE, ibv_destroy_qp);
	LARGEST("max_inline", struct ibv_qp, WITH_INLINE, ibv_destroy_qp);
	LARGEST("max_srq_wr", struct ibv_srq, WITH_SRQ_WR, ibv_destroy_srq);
	LARGEST("max_srq_sge", struct ibv_srq, WITH_SRQ_SGE, ibv_destroy_srq);
	LARGEST("memory", struct ibv_mr, WITH_PAGES, ibv_dereg_mr);
	atomics();
	CHECK("ibv_destroy_cq", !ibv_destroy_cq(cq));
}

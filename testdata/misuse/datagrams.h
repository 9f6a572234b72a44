/* Two UD queue pairs of one program. */
#include "rig.h"

enum { MESSAGE = 64, GRH = 40 };

/* datagrams makes the queue pairs, each with its Q_Key, and a receive of qp[1]. */
static __attribute__((unused)) void datagrams(struct rig *r, const uint32_t *qkeys)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .sq_sig_all = 1, .cap = {4, 4, 1, 1}};

	CHECK(r->mr = ibv_reg_mr(r->pd, r->buf, SIZE, ALL));
	CHECK(r->cq = init.send_cq = init.recv_cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkeys[i]};
		CHECK(r->qp[i] = ibv_create_qp(r->pd, &init));
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
		a.qp_state = IBV_QPS_RTR;
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE));
		a.qp_state = IBV_QPS_RTS;
		CHECK(!ibv_modify_qp(r->qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	rig_recv(r, r->buf + 4096, r->mr->lkey, GRH + MESSAGE);
}

/* datagram_to returns the path to a queue pair of this program. */
static __attribute__((unused)) struct ibv_ah *datagram_to(struct rig *r)
{
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = rig_gid(r->ctx), .hop_limit = 1}};
	struct ibv_ah *ah;

	CHECK(!ibv_query_gid(r->ctx, 1, to.grh.sgid_index, &to.grh.dgid));
	CHECK(ah = ibv_create_ah(r->pd, &to));
	return ah;
}

/* datagrams_end waits for the message, if it comes: nothing says that one was dropped. */
static __attribute__((unused)) void datagrams_end(struct rig *r, struct ibv_ah *ah, int comes)
{
	CHECK(rig_poll(r) == IBV_WC_SUCCESS);
	if (comes)
		CHECK(rig_poll(r) == IBV_WC_SUCCESS);
	else
		usleep(100000);
	CHECK(!ibv_destroy_ah(ah));
	rig_end(r);
}

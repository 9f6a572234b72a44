/* recv-too-short: a receive of a UD queue pair has no room for the 40 bytes of the GRH. */
#include "rig.h"

enum { MESSAGE = 64, GRH = 40, QKEY = 0x11111111 };

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .sq_sig_all = 1, .cap = {4, 4, 1, 1}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = rig_gid(r.ctx), .hop_limit = 1}};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(r.cq = init.send_cq = init.recv_cq = ibv_create_cq(r.ctx, 16, NULL, NULL, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(r.qp[i] = ibv_create_qp(r.pd, &init)); /* LINE */
		a.qp_state = IBV_QPS_INIT;
		CHECK(!ibv_modify_qp(r.qp[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
		a.qp_state = IBV_QPS_RTR;
		CHECK(!ibv_modify_qp(r.qp[i], &a, IBV_QP_STATE));
		a.qp_state = IBV_QPS_RTS;
		CHECK(!ibv_modify_qp(r.qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	rig_recv(&r, r.buf + 4096, r.mr->lkey, MISTAKE ? MESSAGE : GRH + MESSAGE);
	CHECK(!ibv_query_gid(r.ctx, 1, to.grh.sgid_index, &to.grh.dgid));
	CHECK(wr.wr.ud.ah = ibv_create_ah(r.pd, &to));
	wr.wr.ud.remote_qpn = r.qp[1]->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	sge = (struct ibv_sge){(uintptr_t)r.buf, MESSAGE, r.mr->lkey};
	CHECK(!ibv_post_send(r.qp[0], &wr, &bad));
	rig_poll(&r);
	if (!MISTAKE)
		rig_poll(&r);
	else
		usleep(100000); /* nothing says that the datagram was dropped */
	CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
	rig_end(&r);
	return 0;
}

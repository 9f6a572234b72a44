/* gid-link-local: the path has the GIDs of the link, at index 0. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = MISTAKE ? 0 : rig_gid(r.ctx), .hop_limit = 1}};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK(r.cq = init.send_cq = init.recv_cq = ibv_create_cq(r.ctx, 4, NULL, NULL, 0));
	CHECK(r.qp[0] = ibv_create_qp(r.pd, &init));
	CHECK(!ibv_modify_qp(r.qp[0], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_query_gid(r.ctx, 1, to.grh.sgid_index, &to.grh.dgid));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = r.qp[0]->qp_num, .min_rnr_timer = 12, .ah_attr = to};
	CHECK(!ibv_modify_qp(r.qp[0], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | /* LINE */
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	rig_end(&r);
	return 0;
}

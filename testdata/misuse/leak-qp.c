/* leak: a queue pair, with its completion queue and its domain, is left at the end. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_cq *cq = ibv_create_cq(r.ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1}};
	struct ibv_qp *qp = ibv_create_qp(r.pd, &init); /* LINE */
	CHECK(qp);
	if (MISTAKE)
		exit(0);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	rig_end(&r);
	return 0;
}

/* bad-request: an atomic on an address that is not a multiple of 8. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r.qp[0]);
	ibv_wr_start(q);
	q->wr_id = 7;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(q, r.mr->rkey, (uintptr_t)r.buf + 4096 + 4 * MISTAKE, 1);
	ibv_wr_set_sge(q, r.mr->lkey, (uintptr_t)r.buf, 8);
	CHECK(!ibv_wr_complete(q)); /* LINE */
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

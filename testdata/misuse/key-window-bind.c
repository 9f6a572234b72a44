/* key-window: a window is bound to a region that does not allow it. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mw *mw;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL | (MISTAKE ? 0 : IBV_ACCESS_MW_BIND)));
	CHECK(mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_2));
	rig_connect(&r);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r.qp[0]);
	struct ibv_mw_bind_info info = {.mr = r.mr, .addr = (uintptr_t)r.buf, .length = SIZE, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	ibv_wr_start(q);
	q->wr_id = 7;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(q, mw, ibv_inc_rkey(mw->rkey), &info);
	CHECK(!ibv_wr_complete(q)); /* LINE */
	rig_poll(&r);
	CHECK(!ibv_dealloc_mw(mw));
	rig_end(&r);
	return 0;
}

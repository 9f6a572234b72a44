/* key-window: a key of a window from before it was bound again. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mw *mw;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL | IBV_ACCESS_MW_BIND));
	CHECK(mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1));
	rig_connect(&r);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = r.mr, .addr = (uintptr_t)r.buf, .length = SIZE, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
	CHECK(!ibv_bind_mw(r.qp[1], mw, &bind));
	CHECK(rig_poll(&r) == IBV_WC_SUCCESS);
	uint32_t rkey = mw->rkey;
	if (MISTAKE) {
		CHECK(!ibv_bind_mw(r.qp[1], mw, &bind));
		CHECK(rig_poll(&r) == IBV_WC_SUCCESS);
	}
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, r.buf + 4096, rkey, 0)); /* LINE */
	rig_poll(&r);
	CHECK(!ibv_dealloc_mw(mw));
	rig_end(&r);
	return 0;
}

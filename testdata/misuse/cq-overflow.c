/* cq-overflow, cq-too-small: more completions than their queue has room for. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.cqe = 4;
	r.depth = 128;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r); /* LINE */
	for (int i = 0, n = r.cq->cqe + 2 * MISTAKE; i < n; i++) /* libmlx5 has room for one more than it says */
		rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 8, r.buf + 4096, r.mr->rkey, 0);
	if (!MISTAKE)
		for (int i = 0; i < r.cq->cqe; i++)
			rig_poll(&r);
	else
		rig_await(&r, IBV_EVENT_CQ_ERR);
	rig_end(&r);
	return 0;
}

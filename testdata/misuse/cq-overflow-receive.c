/* cq-overflow: more messages than the completion queue of the receives has room for. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.recv_cq = ibv_create_cq(r.ctx, 4, NULL, NULL, 0));
	int room = r.recv_cq->cqe; /* libmlx5 has room for one more */
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r); /* LINE */
	for (int i = 0; i < room + 2 * MISTAKE; i++)
		rig_recv(&r, r.buf + 4096 + 8 * i, r.mr->lkey, 8);
	for (int i = 0; i < room + 2 * MISTAKE; i++) {
		CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 8, 0, 0, 0));
		rig_poll(&r);
	}
	rig_end(&r);
	return 0;
}

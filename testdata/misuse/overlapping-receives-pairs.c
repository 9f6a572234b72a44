/* overlapping-receives: receives of two queue pairs have the same memory. */
#include "rig.h"

static void post(struct rig *r, int i, char *to)
{
	struct ibv_sge sge = {(uintptr_t)to, 64, r->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(r->qp[i], &wr, &bad));
}

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *other;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	post(&r, 0, r.buf);
	post(&r, 1, r.buf + (MISTAKE ? 0 : 64));
	CHECK(other = ibv_reg_mr(r.pd, r.buf, SIZE, ALL)); /* LINE */
	for (int i = 0; i < 2; i++) {
		CHECK(!rig_from(&r, i, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
		rig_poll(&r);
		rig_poll(&r);
		post(&r, i, r.buf + 128); /* each in its turn */
		CHECK(!rig_from(&r, !i, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
		rig_poll(&r);
		rig_poll(&r);
	}
	CHECK(!ibv_dereg_mr(other));
	rig_end(&r);
	return 0;
}

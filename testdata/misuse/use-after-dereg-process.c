/* use-after-dereg: a process deregisters its region before another one has read it. */
#include "processes.h"

int main(int argc, char **argv)
{
	int child = other();
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	struct mine you = meet(&r);
	if (child && MISTAKE) {
		CHECK(!ibv_dereg_mr(r.mr)); /* LINE */
		r.mr = NULL;
	}
	tell("", 1);
	hear(&you.qpn, 1);
	if (!child) {
		CHECK(!rig_post(&r, IBV_WR_RDMA_READ, r.buf, r.mr->lkey, 64, (char *)you.addr, you.rkey, 0));
		rig_poll(&r);
	}
	tell("", 1);
	hear(&you.qpn, 1);
	rig_end(&r);
	parted(child);
	return 0;
}

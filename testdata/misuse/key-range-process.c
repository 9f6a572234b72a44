/* key-range: a process writes past the end of a region of another process. */
#include "processes.h"

int main(int argc, char **argv)
{
	int child = other();
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, child ? 4096 : SIZE, ALL)); /* LINE */
	struct mine you = meet(&r);
	if (!child) {
		CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, r.buf, r.mr->lkey, 64, (char *)you.addr + 4096 - 64 + 3 * MISTAKE, you.rkey, 0));
		rig_poll(&r);
	}
	tell("", 1);
	hear(&you, 1);
	rig_end(&r);
	parted(child);
	return 0;
}

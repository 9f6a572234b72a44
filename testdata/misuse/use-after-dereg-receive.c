/* use-after-dereg: a message comes to a receive whose region was deregistered. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *to;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(to = ibv_reg_mr(r.pd, r.buf + 4096, 4096, ALL));
	rig_connect(&r);
	rig_recv(&r, r.buf + 4096, to->lkey, 64);
	if (MISTAKE)
		CHECK(!ibv_dereg_mr(to)); /* LINE */
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0));
	rig_poll(&r);
	rig_poll(&r);
	if (!MISTAKE)
		CHECK(!ibv_dereg_mr(to));
	rig_end(&r);
	return 0;
}

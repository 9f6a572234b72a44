/* key-range: an atomic just behind its region. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, 4096, ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, r.buf, r.mr->lkey, 8, r.buf + 4096 - 8 * !MISTAKE, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

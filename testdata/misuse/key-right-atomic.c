/* key-right: an atomic on a region that peers may only read and write. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, MISTAKE ? ALL & ~IBV_ACCESS_REMOTE_ATOMIC : ALL)); /* LINE */
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, r.buf, r.mr->lkey, 8, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/* destroyed-while-posted: a queue pair is destroyed before its message was sent. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0));
	if (!MISTAKE) {
		rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
		rig_poll(&r);
		rig_poll(&r);
	}
	CHECK(!ibv_destroy_qp(r.qp[0])); /* LINE */
	r.qp[0] = NULL;
	rig_end(&r);
	return 0;
}

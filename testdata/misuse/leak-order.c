/* leak: a completion queue is destroyed before its queue pairs, which fails, so it is left. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	if (MISTAKE) {
		ibv_destroy_cq(r.cq); /* LINE */
		r.cq = NULL;
	}
	rig_end(&r);
	return 0;
}

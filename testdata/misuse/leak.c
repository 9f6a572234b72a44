/* leak: a region that is never deregistered. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL)); /* LINE */
	if (MISTAKE)
		exit(0);
	rig_end(&r);
	return 0;
}

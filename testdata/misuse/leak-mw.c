/* leak: a memory window is left at the end. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_mw *mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1); /* LINE */
	CHECK(mw);
	if (MISTAKE)
		exit(0);
	CHECK(!ibv_dealloc_mw(mw));
	rig_end(&r);
	return 0;
}

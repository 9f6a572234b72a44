/* leak: a shared receive queue is left at the end. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	CHECK(r.srq = ibv_create_srq(r.pd, &init)); /* LINE */
	if (MISTAKE)
		exit(0);
	rig_end(&r);
	return 0;
}

/* leak: a completion queue is left when the device is closed. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_cq *cq = ibv_create_cq(r.ctx, 4, NULL, NULL, 0); /* LINE */
	CHECK(cq);
	if (!MISTAKE)
		CHECK(!ibv_destroy_cq(cq));
	rig_end(&r);
	return 0;
}

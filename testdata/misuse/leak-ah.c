/* leak: an address handle is left at the end. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = rig_gid(r.ctx), .hop_limit = 1}};
	CHECK(!ibv_query_gid(r.ctx, 1, attr.grh.sgid_index, &attr.grh.dgid));
	struct ibv_ah *ah = ibv_create_ah(r.pd, &attr); /* LINE */
	CHECK(ah);
	if (MISTAKE)
		exit(0);
	CHECK(!ibv_destroy_ah(ah));
	rig_end(&r);
	return 0;
}

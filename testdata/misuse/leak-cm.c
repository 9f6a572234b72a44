/* leak: an id of RDMA CM is left at the end. */
#include "rig.h"
#include <rdma/rdma_cma.h>

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	CHECK(channel = rdma_create_event_channel());
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)); /* LINE */
	rig_end(&r);
	if (MISTAKE)
		return 0;
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	return 0;
}

/*
 * Makes memory regions and ids of RDMA CM, says "made", and holds them until it is killed.
 * usage: many DEVICE REGIONS IDS
 */
#include "qp.h"

#include <rdma/rdma_cma.h>

static char page[4096];

int main(int argc, char **argv)
{
	struct ibv_context *ctx = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK("ibv_alloc_pd", pd);
	CHECK("rdma_create_event_channel", channel);
	for (int i = 0; i < atoi(argv[2]); i++)
		CHECK("ibv_reg_mr", ibv_reg_mr(pd, page, sizeof page, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < atoi(argv[3]); i++) {
		struct rdma_cm_id *id;

		CHECK("rdma_create_id", !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	}
	puts("made");
	fflush(stdout);
	for (;;)
		pause();
}

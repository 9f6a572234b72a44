/* recv-too-short: over RDMA CM, a message is longer than the receive. */
#include "cm.h"

int main(int argc, char **argv)
{
	struct ibv_wc wc;

	MISTAKE = argc == 1;
	passive.posted = MISTAKE ? 32 : 64;
	active.param = passive.param = (struct rdma_conn_param){.retry_count = 7, .rnr_retry_count = 7};
	pthread_t thread = cm_connect();
	CHECK(!rdma_post_send(active.id, NULL, active.buf, 64, active.mr, 0)); /* LINE */
	CHECK(rdma_get_send_comp(active.id, &wc) == 1);
	cm_finish(thread);
	return 0;
}

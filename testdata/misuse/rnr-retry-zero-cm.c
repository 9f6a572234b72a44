/* rnr-retry-zero: a connection of RDMA CM whose parameters are left at 0. */
#include "cm.h"

int main(int argc, char **argv)
{
	MISTAKE = argc == 1;
	active.param = passive.param = (struct rdma_conn_param){.retry_count = 7, .rnr_retry_count = 7};
	if (MISTAKE)
		passive.param.rnr_retry_count = 0;
	pthread_t thread = cm_connect(); /* LINE */
	cm_finish(thread);
	return 0;
}

/* Two ends of a connection of RDMA CM, in two threads of one program. */
#include "rig.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

struct end {
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr;
	char buf[4096];
	int posted; /* bytes of the receive that is posted before the connection; 0: none */
	struct rdma_conn_param param;
};

static struct end passive, active;

static struct rdma_addrinfo *cm_address(int flags, int port)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *list;
	char text[8];

	sprintf(text, "%d", port);
	CHECK(!rdma_getaddrinfo(getenv("GORXE_ADDRESS"), text, &hints, &list));
	return list;
}

static void cm_end(struct end *e)
{
	CHECK(!rdma_dereg_mr(e->mr));
	rdma_destroy_ep(e->id);
}

static void *cm_accept(void *unused)
{
	struct ibv_wc wc;

	(void)unused;
	CHECK(!rdma_get_request(passive.listener, &passive.id));
	CHECK(passive.mr = rdma_reg_msgs(passive.id, passive.buf, sizeof(passive.buf)));
	if (passive.posted)
		CHECK(!rdma_post_recv(passive.id, NULL, passive.buf, passive.posted, passive.mr));
	CHECK(!rdma_accept(passive.id, &passive.param));
	if (passive.posted)
		CHECK(rdma_get_recv_comp(passive.id, &wc) == 1);
	return NULL;
}

/* cm_connect connects the two ends. The passive one then waits for its receive. */
static pthread_t cm_connect(void)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1}, .sq_sig_all = 1};
	struct rdma_addrinfo *to = cm_address(RAI_PASSIVE | RAI_NUMERICHOST, 0);
	pthread_t thread;

	CHECK(!rdma_create_ep(&passive.listener, to, NULL, &init));
	CHECK(!rdma_listen(passive.listener, 1));
	CHECK(!pthread_create(&thread, NULL, cm_accept, NULL));
	rdma_freeaddrinfo(to);
	to = cm_address(RAI_NUMERICHOST, ntohs(rdma_get_src_port(passive.listener)));
	CHECK(!rdma_create_ep(&active.id, to, NULL, &init));
	CHECK(active.mr = rdma_reg_msgs(active.id, active.buf, sizeof(active.buf)));
	CHECK(!rdma_connect(active.id, &active.param));
	rdma_freeaddrinfo(to);
	return thread;
}

static void cm_finish(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
	cm_end(&active);
	cm_end(&passive);
	rdma_destroy_ep(passive.listener);
}

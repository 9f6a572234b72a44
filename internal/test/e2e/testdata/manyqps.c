/*
 * Many queue pairs on each device there is, and completions that nobody reads. usage: manyqps NUMBER
 *
 * Each device gets so many queue pairs. Some of them write to themselves. One more has a small
 * completion queue, which the program never polls. Then the program waits to be killed.
 */
#include "qp.h"

enum { each = 50, small = 4, most = 64 };

static char buf[4096];

static struct ibv_qp *make_qp(struct end *e, struct ibv_cq *cq, int sends)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = {.max_send_wr = sends, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	CHECK("ibv_create_qp", qp);
	CHECK("INIT", !ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

/* Has the end's queue pair write to itself. */
static void write_to_itself(struct end *e, int times)
{
	struct address self = address_of(e);

	connect_to(e, &self);
	while (times--)
		CHECK("ibv_post_send", !(errno = post_write(e, &self, 8)));
}

static int writes(struct end *e, int count)
{
	int done = 0;

	for (int i = 0; i < count; i++) {
		struct ibv_wc wc;
		int n;

		e->qp = make_qp(e, e->cq, 1);
		if (i % each)
			continue;
		write_to_itself(e, 1);
		while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
			;
		CHECK("ibv_poll_cq", n == 1);
		done += wc.status == IBV_WC_SUCCESS;
	}
	return done;
}

static void never_reads(struct end *e)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_cq *cq = ibv_create_cq(e->ctx, small, NULL, NULL, 0);

	CHECK("ibv_create_cq", cq);
	e->qp = make_qp(e, cq, most);
	write_to_itself(e, most);
	CHECK("ibv_get_async_event", !ibv_get_async_event(e->ctx, &event));
	printf("%s: ", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	do
		CHECK("ibv_query_qp", !ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init));
	while (a.qp_state != IBV_QPS_ERR);
	printf("in ERR\n");
}

int main(int argc, char **argv)
{
	int devices, count = atoi(argv[1]), done = 0;
	struct ibv_device **list = ibv_get_device_list(&devices);
	struct end *ends = calloc(devices, sizeof(*ends));

	CHECK("ibv_get_device_list", list);
	for (int i = 0; i < devices; i++) {
		struct end *e = &ends[i];

		e->ctx = ibv_open_device(list[i]);
		CHECK("ibv_open_device", e->ctx);
		CHECK("ibv_alloc_pd", e->pd = ibv_alloc_pd(e->ctx));
		CHECK("ibv_create_cq", e->cq = ibv_create_cq(e->ctx, 16, NULL, NULL, 0));
		CHECK("ibv_reg_mr", e->mr = ibv_reg_mr(e->pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
		done += writes(e, count);
	}
	printf("%d devices with %d queue pairs, %d writes\n", devices, count, done);
	for (int i = 0; i < devices; i++)
		never_reads(&ends[i]);
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}

/*
 * An event-driven receiver with the extended API: after each event it asks for the
 * next one and polls with ibv_next_poll until ENOENT; in every other round it polls
 * before that, too. usage: excq DEVICE ROUNDS [hold]
 *
 * Each round sends 1 to 5 messages to itself and wants each receive completed once,
 * in order. With "hold" the program stays, with what it has, when all is received.
 */
#include "qp.h"

enum { depth = 64 };

static struct ibv_cq_ex *make_cq(struct ibv_context *ctx, struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex a = {.cqe = depth, .channel = channel, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);

	CHECK("ibv_create_cq_ex", cq);
	return cq;
}

static struct end make_receiver(struct end *sender, struct ibv_cq *cq)
{
	struct end e = *sender;
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK("ibv_create_qp", e.qp = ibv_create_qp(e.pd, &a));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return e;
}

/* Sends n messages and waits until each has been acknowledged. */
static void send_all(struct end *e, int n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->mr->addr, .length = 8, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < n; i++)
		CHECK("ibv_post_send", !(errno = ibv_post_send(e->qp, &wr, &bad)));
	for (int done = 0; done < n;) {
		struct ibv_wc wc;
		int got = ibv_poll_cq(e->cq, 1, &wc);

		CHECK("ibv_poll_cq", got >= 0);
		if (got && wc.status) {
			fprintf(stderr, "a send ended with %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		done += got;
	}
}

/* Polls until ENOENT and returns the number that the next receive has. */
static uint64_t poll_all(struct ibv_cq_ex *cq, uint64_t next)
{
	struct ibv_poll_cq_attr attr = {0};
	int ret = ibv_start_poll(cq, &attr);

	if (ret == ENOENT)
		return next;
	for (; ret == 0; ret = ibv_next_poll(cq), next++)
		if (cq->status || cq->wr_id != next || ibv_wc_read_byte_len(cq) != 8) {
			fprintf(stderr, "receive %lu: got number %lu, %s\n", next, cq->wr_id, ibv_wc_status_str(cq->status));
			exit(1);
		}
	ibv_end_poll(cq);
	return next;
}

int main(int argc, char **argv)
{
	static char buf[4096];
	struct ibv_context *ctx = open_device(argv[1]);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq_ex *cq = make_cq(ctx, channel);
	struct end s = make_end(ctx, buf, sizeof buf), r = make_receiver(&s, ibv_cq_ex_to_cq(cq));
	struct address to_s = address_of(&s), to_r = address_of(&r);
	uint64_t posted = 0, received = 0;

	connect_to(&s, &to_r);
	connect_to(&r, &to_s);
	CHECK("ibv_req_notify_cq", !ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0));
	alarm(60); /* an event that does not come */
	for (int round = 0, rounds = atoi(argv[2]); round < rounds; round++) {
		int n = 1 + round % 5;

		for (int i = 0; i < n; i++) {
			struct ibv_sge sge = {.addr = (uintptr_t)buf + 64, .length = 8, .lkey = r.mr->lkey};
			struct ibv_recv_wr wr = {.wr_id = posted++, .sg_list = &sge, .num_sge = 1}, *bad;

			CHECK("ibv_post_recv", !(errno = ibv_post_recv(r.qp, &wr, &bad)));
		}
		send_all(&s, n);
		while (received < posted) {
			struct ibv_cq *which;
			void *context;

			CHECK("ibv_get_cq_event", !ibv_get_cq_event(channel, &which, &context));
			ibv_ack_cq_events(which, 1);
			if (round % 2)
				received = poll_all(cq, received);
			CHECK("ibv_req_notify_cq", !ibv_req_notify_cq(which, 0));
			received = poll_all(cq, received);
		}
	}
	printf("received %lu\n", received);
	fflush(stdout);
	if (argc > 3) {
		alarm(0);
		pause();
	}
	CHECK("ibv_destroy_qp", !ibv_destroy_qp(r.qp) && !ibv_destroy_qp(s.qp));
	CHECK("ibv_destroy_cq", !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	return 0;
}

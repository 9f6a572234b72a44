/*
 * Says what a verbs device does where rdma_rxe and the specification differ, or where a device may look too
 * late: "NAME: VALUE" lines. usage: semantics DEVICE
 */
#include "qp.h"

static struct ibv_context *ctx;
static char memory[8192];

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static struct end new_end(struct ibv_pd *pd, struct ibv_srq *srq)
{
	struct end e = {.ctx = ctx, .pd = pd};
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .srq = srq, .sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS & ~IBV_ACCESS_MW_BIND};

	CHECK("ibv_create_cq", e.cq = ibv_create_cq(ctx, 16, NULL, NULL, 0));
	CHECK("ibv_reg_mr", e.mr = ibv_reg_mr(pd, memory, sizeof memory, RIGHTS));
	a.send_cq = a.recv_cq = e.cq;
	CHECK("ibv_create_qp", e.qp = ibv_create_qp(pd, &a));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return e;
}

static void connect_ends(struct end *a, struct end *b)
{
	struct address at_a = address_of(a), at_b = address_of(b);

	connect_to(a, &at_b);
	connect_to(b, &at_a);
}

/* A completion, within two seconds. */
static struct ibv_wc polled(struct end *e)
{
	struct ibv_wc wc = {0};

	for (int i = 0; i < 2000; i++, usleep(1000))
		if (ibv_poll_cq(e->cq, 1, &wc) == 1)
			return wc;
	wc.status = -1;
	return wc;
}

static void recv_into(struct end *e, struct ibv_srq *srq, struct ibv_mr *mr, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK("post_recv", !(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad)));
}

/* One request, and how it ends at both ends; -1: no completion is awaited there. */
static void request(const char *name, struct ibv_pd *pd, enum ibv_wr_opcode op, int flags, uint32_t length, uint32_t received, uint32_t key)
{
	struct end a = new_end(pd, NULL), b = new_end(pd, NULL);
	struct ibv_sge sge = {.addr = (uintptr_t)memory + 4096, .length = length, .lkey = a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = op, .send_flags = flags, .sg_list = &sge, .num_sge = 1}, *bad;

	connect_ends(&a, &b);
	if (received)
		recv_into(&b, NULL, b.mr, received);
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory;
		wr.wr.atomic.rkey = b.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory;
		wr.wr.rdma.rkey = b.mr->rkey ^ key;
	}
	CHECK("post_send", !ibv_post_send(a.qp, &wr, &bad));
	printf("%s: %d", name, polled(&a).status);
	if (received) {
		struct ibv_wc wc = polled(&b);
		printf(", the receive %d, wc_flags %d", wc.status, wc.status ? 0 : wc.wc_flags);
	}
	printf("\n");
}

static void srq(const char *name, struct ibv_pd *pd, struct ibv_pd *other, struct ibv_pd *of_mr)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *q = ibv_create_srq(other, &init);
	struct ibv_mr *mr = ibv_reg_mr(of_mr, memory, sizeof memory, RIGHTS);
	struct end a = new_end(pd, NULL), b = new_end(pd, q);
	struct ibv_sge sge = {.addr = (uintptr_t)memory + 4096, .length = 64, .lkey = a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK("SRQ", q && mr);
	connect_ends(&a, &b);
	recv_into(&b, q, mr, 64);
	CHECK("post_send", !ibv_post_send(a.qp, &wr, &bad));
	printf("%s: %d, ", name, polled(&a).status);
	printf("the receive %d\n", polled(&b).status);
}

static void late_receive(struct ibv_pd *pd)
{
	struct end e = new_end(pd, NULL);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	CHECK("ERR", !ibv_modify_qp(e.qp, &err, IBV_QP_STATE));
	recv_into(&e, NULL, e.mr, 64);
	printf("receive posted in ERR: %d\n", polled(&e).status);
}

static void bound_window(struct ibv_pd *pd)
{
	struct end a = new_end(pd, NULL), b = new_end(pd, NULL);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = a.mr, .addr = (uintptr_t)memory, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	CHECK("alloc_mw", mw);
	connect_ends(&a, &b);
	CHECK("bind_mw", !ibv_bind_mw(a.qp, mw, &bind));
	CHECK("bound", !polled(&a).status);
	printf("dereg_mr with a window: %d\n", ibv_dereg_mr(a.mr));
	printf("dealloc_mw: %d\n", ibv_dealloc_mw(mw));
	printf("dereg_mr: %d\n", ibv_dereg_mr(a.mr));
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port;
	struct ibv_pd *pd, *other;

	ctx = open_device(argc > 1 ? argv[1] : "rxe0");
	CHECK("alloc_pd", (pd = ibv_alloc_pd(ctx)) && (other = ibv_alloc_pd(ctx)));
	CHECK("query_port", !ibv_query_port(ctx, 1, &port));
	printf("port flags: %d\n", port.flags);
	late_receive(pd);
	request("SEND", pd, IBV_WR_SEND, 0, 64, 64, 0);
	request("SEND longer than the receive", pd, IBV_WR_SEND, 0, 64, 16, 0);
	request("READ", pd, IBV_WR_RDMA_READ, 0, 64, 0, 0);
	request("READ with inline data", pd, IBV_WR_RDMA_READ, IBV_SEND_INLINE, 64, 0, 0);
	request("compare-and-swap", pd, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 0, 0);
	request("compare-and-swap of 16 bytes", pd, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 16, 0, 0);
	request("WRITE with immediate data and a wrong key", pd, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, 64, 1);
	srq("receive in the SRQ's domain", pd, other, other);
	srq("receive in the queue pair's domain", pd, other, pd);
	bound_window(pd);
	return 0;
}

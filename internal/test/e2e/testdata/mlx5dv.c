/*
 * What libmlx5 offers beside the verbs, and what an adapter without DevX refuses. usage: mlx5dv
 * DEVICE
 *
 * Each line is one call, and what it returned: 0, an errno, or what the call has to say.
 */
#include "qp.h"
#include <infiniband/mlx5dv.h>
#include <poll.h>

#define SAY(what, n) printf("%s: %lld\n", what, (long long)(n))
#define REFUSED(what, call) (errno = 0, SAY(what, (call) ? 0 : errno))

enum { size = 8192 };

static int completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK("ibv_poll_cq", n == 1);
	return wc.status;
}

static int post(struct end *e, enum ibv_wr_opcode op, uint64_t addr, uint32_t length, uint32_t lkey, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
	struct ibv_send_wr wr = {.opcode = op, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = {.remote_addr = remote, .rkey = rkey}}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	}
	CHECK("ibv_post_send", !(errno = ibv_post_send(e->qp, &wr, &bad)));
	return completion(e->cq);
}

static void look(struct ibv_context *ctx, struct end *e)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_DYN_BFREGS | MLX5DV_CONTEXT_MASK_CQE_COMPRESION |
		MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE | MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK | MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS |
		MLX5DV_CONTEXT_MASK_STRIDING_RQ};
	struct mlx5dv_qp qp = {};
	struct mlx5dv_cq cq = {};
	struct mlx5dv_pd pd = {};
	struct mlx5dv_obj obj = {.qp = {e->qp, &qp}, .cq = {e->cq, &cq}};
	struct mlx5dv_port port;

	SAY("mlx5dv_is_supported", mlx5dv_is_supported(ctx->device));
	SAY("mlx5dv_query_device", mlx5dv_query_device(ctx, &dv));
	SAY("  CQE version 1", !!(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1));
	SAY("  padding", !!(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD));
	SAY("  compression", dv.cqe_comp_caps.max_num);
	SAY("  strides", dv.striding_rq_caps.max_single_wqe_log_num_of_strides);
	SAY("  of bytes", dv.striding_rq_caps.max_single_stride_log_num_of_bytes);
	SAY("  clock", (dv.comp_mask & MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK) && dv.hca_core_clock);
	SAY("  host time", dv.max_clock_info_update_nsec);
	SAY("  LAG", !!(dv.comp_mask & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS));
	SAY("mlx5dv_init_obj", mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ));
	SAY("  bf.size", qp.bf.size);
	SAY("  sq.stride", qp.sq.stride);
	SAY("  cqe_size", cq.cqe_size);
	obj.pd.in = e->pd;
	obj.pd.out = &pd;
	SAY("mlx5dv_init_obj of a domain", mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD));
	SAY("  pdn", pd.pdn > 0);
	SAY("mlx5dv_query_port", mlx5dv_query_port(ctx, 1, &port));
	SAY("  flags", port.flags);
	SAY("mlx5dv_query_port of port 2", mlx5dv_query_port(ctx, 2, &port));
}

/* A queue of compressed completions, and a striding receive queue, as DPDK makes them. */
static void striding(struct ibv_context *ctx, struct end *e)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 16};
	struct mlx5dv_cq_init_attr own_cq = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE,
		.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = e->pd};
	struct mlx5dv_wq_init_attr own_wq = {.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
		.striding_rq_attrs = {.single_stride_log_num_of_bytes = 11, .single_wqe_log_num_of_strides = 6}};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct mlx5dv_rwq rwq = {};
	struct mlx5dv_obj obj = {.rwq.out = &rwq};
	struct ibv_cq_ex *ex = mlx5dv_create_cq(ctx, &cq, &own_cq);

	SAY("mlx5dv_create_cq, compressed", ex ? 0 : errno);
	wq.cq = ibv_cq_ex_to_cq(ex);
	obj.rwq.in = mlx5dv_create_wq(ctx, &wq, &own_wq);
	SAY("mlx5dv_create_wq, striding", obj.rwq.in ? 0 : errno);
	SAY("  max_wr", wq.max_wr);
	SAY("ibv_modify_wq", ibv_modify_wq(obj.rwq.in, &ready));
	SAY("mlx5dv_init_obj of a work queue", mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ));
	SAY("  stride", rwq.stride);
	SAY("ibv_destroy_wq", ibv_destroy_wq(obj.rwq.in));
	SAY("ibv_destroy_cq", ibv_destroy_cq(wq.cq));
	own_wq.striding_rq_attrs.single_stride_log_num_of_bytes = 5;
	wq.cq = e->cq;
	SAY("mlx5dv_create_wq with short strides", mlx5dv_create_wq(ctx, &wq, &own_wq) ? 0 : errno);
}

static void clocks(struct ibv_context *ctx)
{
	struct ibv_values_ex a = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, b = a;
	struct mlx5dv_clock_info info;
	struct timespec before;
	int64_t ns;
	int old = 0;

	SAY("ibv_query_rt_values_ex", ibv_query_rt_values_ex(ctx, &a));
	usleep(50000);
	ibv_query_rt_values_ex(ctx, &b);
	ns = b.raw_clock.tv_nsec - a.raw_clock.tv_nsec;
	SAY("  50 ms are at least 30 ms", ns > 30000000 && ns < 30000000000);
	SAY("mlx5dv_get_clock_info", mlx5dv_get_clock_info(ctx, &info));
	ns = mlx5dv_ts_to_ns(&info, b.raw_clock.tv_nsec) / 1000000000 - time(NULL);
	SAY("  is now", ns > -10 && ns < 10);
	for (int i = 0; i < 10; i++) {
		usleep(20000);
		clock_gettime(CLOCK_REALTIME, &before);
		ibv_query_rt_values_ex(ctx, &a);
		mlx5dv_get_clock_info(ctx, &info);
		ns = mlx5dv_ts_to_ns(&info, a.raw_clock.tv_nsec);
		old += ns < before.tv_sec * 1000000000 + before.tv_nsec - 1000000;
	}
	SAY("  older than 1 ms after a pause, more than 3 times of 10", old > 3);
}

/* The end writes to itself and reads from itself. */
static void null_memory(struct end *e, char *buf)
{
	struct ibv_mr *null = ibv_alloc_null_mr(e->pd);

	SAY("ibv_alloc_null_mr", null ? 0 : errno);
	memset(buf, 'x', 64);
	SAY("  WRITE", post(e, IBV_WR_RDMA_WRITE, 4711, 32, null->lkey, (uintptr_t)buf, e->mr->rkey));
	SAY("  zeros, and no more", !buf[0] && !buf[31] && buf[32] == 'x');
	SAY("  READ", post(e, IBV_WR_RDMA_READ, 4711, 64, null->lkey, (uintptr_t)buf, e->mr->rkey));
	SAY("ibv_dereg_mr", ibv_dereg_mr(null));
}

static void device_memory(struct end *e, char *buf)
{
	struct ibv_alloc_dm_attr a = {.length = 4096, .log_align_req = 3};
	struct ibv_dm *dm = ibv_alloc_dm(e->ctx, &a);
	struct ibv_qp_attr rights = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_mr *mr;
	uint64_t word = 37;

	SAY("ibv_alloc_dm", dm ? 0 : errno);
	CHECK("rights", !ibv_modify_qp(e->qp, &rights, IBV_QP_ACCESS_FLAGS));
	mr = ibv_reg_dm_mr(e->pd, dm, 1024, 2048, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	SAY("ibv_reg_dm_mr", mr ? 0 : errno);
	SAY("ibv_memcpy_to_dm", ibv_memcpy_to_dm(dm, 1024, &word, 8));
	SAY("  FETCH_AND_ADD", post(e, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)buf, 8, e->mr->lkey, 0, mr->rkey));
	SAY("  was", *(uint64_t *)buf);
	SAY("ibv_memcpy_from_dm", ibv_memcpy_from_dm(&word, dm, 1024, 8));
	SAY("  is", word);
	strcpy(buf, "host");
	SAY("  WRITE", post(e, IBV_WR_RDMA_WRITE, (uintptr_t)buf, 8, e->mr->lkey, 64, mr->rkey));
	SAY("  READ of one part into another", post(e, IBV_WR_RDMA_READ, 128, 8, mr->lkey, 64, mr->rkey));
	ibv_memcpy_from_dm(&word, dm, 1024 + 128, 8);
	SAY("  has arrived", !strcmp((char *)&word, "host"));
	SAY("  behind the region", post(e, IBV_WR_RDMA_WRITE, (uintptr_t)buf, 8, e->mr->lkey, 2048, mr->rkey));
	SAY("ibv_free_dm with a region", ibv_free_dm(dm));
	SAY("ibv_dereg_mr", ibv_dereg_mr(mr));
	SAY("ibv_free_dm", ibv_free_dm(dm));
}

static void domains(struct ibv_context *ctx, char *buf)
{
	struct ibv_td_init_attr none = {};
	struct ibv_td *td = ibv_alloc_td(ctx, &none);
	struct ibv_parent_domain_init_attr a = {.pd = ibv_alloc_pd(ctx), .td = td};
	struct mlx5dv_devx_uar *uar;
	struct ibv_pd *pd;
	struct end e = {.ctx = ctx};
	struct address self;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

	SAY("ibv_alloc_td", td ? 0 : errno);
	pd = ibv_alloc_parent_domain(ctx, &a);
	SAY("ibv_alloc_parent_domain", pd ? 0 : errno);
	e.pd = pd;
	e.mr = ibv_reg_mr(pd, buf, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	e.cq = qp.send_cq = qp.recv_cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	CHECK("ibv_create_qp", e.qp = ibv_create_qp(pd, &qp));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	self = address_of(&e);
	connect_to(&e, &self);
	SAY("  WRITE", post(&e, IBV_WR_RDMA_WRITE, (uintptr_t)buf, 8, e.mr->lkey, (uintptr_t)buf + 8, e.mr->rkey));
	SAY("ibv_dealloc_td in use", ibv_dealloc_td(td));
	ibv_destroy_qp(e.qp);
	ibv_destroy_cq(e.cq);
	ibv_dereg_mr(e.mr);
	SAY("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	SAY("ibv_dealloc_td", ibv_dealloc_td(td));
	ibv_dealloc_pd(a.pd);
	uar = mlx5dv_devx_alloc_uar(ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	SAY("mlx5dv_devx_alloc_uar", uar ? 0 : errno);
	mlx5dv_devx_free_uar(uar);
}

/* An event waits for three completions. */
static void moderation(struct ibv_context *ctx, char *buf)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 3, .cq_period = 0}};
	struct end e = make_end(ctx, buf, size);
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct address self;

	e.cq = qp.send_cq = qp.recv_cq = ibv_create_cq(ctx, 8, NULL, channel, 0);
	CHECK("ibv_create_qp", e.qp = ibv_create_qp(e.pd, &qp));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	self = address_of(&e);
	connect_to(&e, &self);
	SAY("ibv_modify_cq", ibv_modify_cq(e.cq, &a));
	ibv_req_notify_cq(e.cq, 0);
	for (int i = 1; i <= 3; i++) {
		post(&e, IBV_WR_RDMA_WRITE, (uintptr_t)buf, 8, e.mr->lkey, (uintptr_t)buf + 8, e.mr->rkey);
		printf("  events after %d: %d\n", i, poll(&fd, 1, i < 3 ? 20 : 5000));
	}
	a.moderate.cq_period = 5000;
	SAY("ibv_modify_cq with a long period", ibv_modify_cq(e.cq, &a));
}

/* libmlx5 takes what the sizes of a new queue pair promise, and not a byte more. */
static void sizes(struct ibv_context *ctx, char *buf)
{
	struct end e = make_end(ctx, buf, size);
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC, .send_cq = e.cq, .recv_cq = e.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 5, .max_recv_sge = 1, .max_inline_data = 64}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_sge sge[32];
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = sge,
		.wr.rdma = {.remote_addr = (uintptr_t)buf + size / 2, .rkey = e.mr->rkey}}, *bad;
	struct address self;

	CHECK("ibv_create_qp", e.qp = ibv_create_qp(e.pd, &qp));
	CHECK("INIT", !ibv_modify_qp(e.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	self = address_of(&e);
	connect_to(&e, &self);
	SAY("max_send_sge", qp.cap.max_send_sge);
	for (unsigned i = 0; i < sizeof(sge) / sizeof(*sge); i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)buf + 16 * i, .length = 16, .lkey = e.mr->lkey};
	wr.num_sge = qp.cap.max_send_sge;
	SAY("  WRITE of as many", ibv_post_send(e.qp, &wr, &bad) ?: completion(e.cq));
	wr.num_sge++;
	SAY("  of one more", ibv_post_send(e.qp, &wr, &bad));
	SAY("max_inline_data is 64 or more", qp.cap.max_inline_data >= 64);
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_INLINE;
	sge[0].length = qp.cap.max_inline_data;
	memset(buf, 'i', size / 2);
	SAY("  WRITE of as many", ibv_post_send(e.qp, &wr, &bad) ?: completion(e.cq));
	SAY("  has arrived", !memcmp(buf, buf + size / 2, sge[0].length));
	sge[0].length++;
	SAY("  of one more", ibv_post_send(e.qp, &wr, &bad));
}

/* Enhancements of a connection: the adapter takes none. */
static void enhancements(struct ibv_context *ctx, char *buf)
{
	struct end e = make_end(ctx, buf, size);
	struct address self = address_of(&e);
	struct ibv_ece ece = {}, other = {.vendor_id = 1};

	SAY("ibv_query_ece", ibv_query_ece(e.qp, &ece));
	SAY("  of Mellanox", ece.vendor_id == 0x15b3);
	SAY("  options", ece.options);
	SAY("ibv_set_ece of another vendor", ibv_set_ece(e.qp, &other));
	ece.options = 0x30000002;
	SAY("ibv_set_ece", ibv_set_ece(e.qp, &ece));
	connect_to(&e, &self);
	SAY("ibv_query_ece in RTS", ibv_query_ece(e.qp, &ece));
	SAY("  options", ece.options);
	SAY("  WRITE", post(&e, IBV_WR_RDMA_WRITE, (uintptr_t)buf, 8, e.mr->lkey, (uintptr_t)buf + 8, e.mr->rkey));
}

static void refusals(struct ibv_context *ctx, struct end *e, char *buf)
{
	struct mlx5dv_context_attr devx = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_qp_init_attr_ex qp = {.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = e->pd,
		.send_cq = e->cq, .recv_cq = e->cq, .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct mlx5dv_qp_init_attr dc = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
	struct mlx5dv_mkey_init_attr mkey = {.pd = e->pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = 1};
	struct mlx5dv_crypto_login_attr login = {};
	struct mlx5dv_dek_init_attr dek = {.pd = e->pd};
	uint8_t port;
	uint32_t in[16] = {}, out[16], qpn;

	REFUSED("DevX: open", mlx5dv_open_device(ctx->device, &devx));
	SAY("DevX: command", mlx5dv_devx_general_cmd(ctx, in, sizeof(in), out, sizeof(out)));
	REFUSED("DevX: object", mlx5dv_devx_obj_create(ctx, in, sizeof(in), out, sizeof(out)));
	REFUSED("DevX: memory", mlx5dv_devx_umem_reg(ctx, buf, 4096, IBV_ACCESS_LOCAL_WRITE));
	REFUSED("DC", mlx5dv_create_qp(ctx, &qp, &dc));
	REFUSED("DR", mlx5dv_dr_table_create(mlx5dv_dr_domain_create(ctx, MLX5DV_DR_DOMAIN_TYPE_NIC_RX), 1));
	REFUSED("memory key", mlx5dv_create_mkey(&mkey));
	SAY("crypto: login", mlx5dv_crypto_login(ctx, &login));
	REFUSED("crypto: key", mlx5dv_dek_create(ctx, &dek));
	SAY("LAG: query", mlx5dv_query_qp_lag_port(e->qp, &port, &port));
	SAY("LAG: modify", mlx5dv_modify_qp_lag_port(e->qp, 1));
	REFUSED("VAR", mlx5dv_alloc_var(ctx, 0));
	REFUSED("packet pacing", mlx5dv_pp_alloc(ctx, sizeof(in), in, 0));
	SAY("reserved QPN", mlx5dv_reserved_qpn_alloc(ctx, &qpn));
	REFUSED("operations of device memory", mlx5dv_dm_map_op_addr(ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){.length = 64}), 0));
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = open_device(argv[1]);
	char *buf = aligned_alloc(4096, size);
	struct end e = make_end(ctx, buf, size);
	struct address self = address_of(&e);

	connect_to(&e, &self);
	look(ctx, &e);
	striding(ctx, &e);
	clocks(ctx);
	null_memory(&e, buf);
	domains(ctx, buf);
	moderation(ctx, buf);
	device_memory(&e, buf);
	sizes(ctx, buf);
	enhancements(ctx, buf);
	refusals(ctx, &e, buf);
	return 0;
}

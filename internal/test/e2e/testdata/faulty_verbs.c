/* Each call of libibverbs that reaches the device. */
#include "faulty.h"
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

static struct ibv_device *find(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK("ibv_get_device_list", list);
	while (*list && strcmp(ibv_get_device_name(*list), name))
		list++;
	CHECK(name, *list);
	return *list;
}

/* The library of this device has no rereg_mr, advise_mr and query_mr. Libraries of other devices make
 * these calls. */
static int reregister(struct ibv_mr *region)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr body;
	} q = {{IB_USER_VERBS_CMD_REREG_MR, sizeof q / 4, sizeof(struct ib_uverbs_rereg_mr_resp) / 4},
		{.flags = IBV_REREG_MR_CHANGE_ACCESS, .mr_handle = region->handle, .access_flags = IBV_ACCESS_LOCAL_WRITE}};
	struct ib_uverbs_rereg_mr_resp resp;

	q.body.response = (uintptr_t)&resp;
	return write(ctx->cmd_fd, &q, sizeof q);
}

static int ask(unsigned method, int count, const struct ib_uverbs_attr *attrs)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[8];
	} q = {.hdr = {.object_id = UVERBS_OBJECT_MR, .method_id = method, .driver_id = RDMA_DRIVER_RXE, .num_attrs = count,
		.length = sizeof q.hdr + count * sizeof *attrs}};

	memcpy(q.attrs, attrs, count * sizeof *attrs);
	for (int i = 0; i < count; i++)
		q.attrs[i].flags = UVERBS_ATTR_F_MANDATORY;
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &q);
}

static int advise(struct ibv_mr *region)
{
	struct ibv_sge sge = {.addr = (uintptr_t)region->addr, .length = region->length, .lkey = region->lkey};
	struct ib_uverbs_attr attrs[] = {
		{.attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .data = pd->handle},
		{.attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8, .data = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH},
		{.attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 4, .data = IB_UVERBS_ADVISE_MR_FLAG_FLUSH},
		{.attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = sizeof sge, .data = (uintptr_t)&sge},
	};

	return ask(UVERBS_METHOD_ADVISE_MR, 4, attrs);
}

static int query(struct ibv_mr *region)
{
	uint32_t lkey, rkey;
	uint64_t length;
	struct ib_uverbs_attr attrs[] = {
		{.attr_id = UVERBS_ATTR_QUERY_MR_HANDLE, .data = region->handle},
		{.attr_id = UVERBS_ATTR_QUERY_MR_RESP_LKEY, .len = 4, .data = (uintptr_t)&lkey},
		{.attr_id = UVERBS_ATTR_QUERY_MR_RESP_RKEY, .len = 4, .data = (uintptr_t)&rkey},
		{.attr_id = UVERBS_ATTR_QUERY_MR_RESP_LENGTH, .len = 8, .data = (uintptr_t)&length},
	};

	return ask(UVERBS_METHOD_QUERY_MR, 4, attrs);
}

void all_verbs(const char *device)
{
	struct ibv_device *d = find(device);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry gids[16];
	ssize_t n;

	POINTER("open_device", ctx = ibv_open_device(d));
	NUMBER("query_device", ibv_query_device(ctx, &attr));
	NUMBER("query_port", ibv_query_port(ctx, 1, &port));
	NUMBER("query_gid_table", (n = ibv_query_gid_table(ctx, gids, 16, 0)) < 0 ? -n : 0);
	POINTER("alloc_pd", pd = ibv_alloc_pd(ctx));

	static char memory[buffer_size] __attribute__((aligned(4096)));
	POINTER("reg_mr", mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	MINUS("advise_mr", advise(mr));
	MINUS("query_mr", query(mr));
	MINUS("rereg_mr", reregister(mr));
	struct ibv_mw *mw;
	POINTER("alloc_mw", mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	struct ibv_ah *ah;
	POINTER("create_ah", ah = make_ah());

	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	POINTER("create_comp_channel", channel = ibv_create_comp_channel(ctx));
	POINTER("create_cq", cq = ibv_create_cq(ctx, 8, NULL, channel, 0));
	NUMBER("resize_cq", ibv_resize_cq(cq, 16));
	NUMBER("req_notify_cq", ibv_req_notify_cq(cq, 0));
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr srq_attr = {.srq_limit = 1};
	struct ibv_srq *srq;
	POINTER("create_srq", srq = ibv_create_srq(pd, &srq_init));
	NUMBER("modify_srq", ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
	NUMBER("query_srq", ibv_query_srq(srq, &srq_attr));

	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct party p = {.cq = cq};
	POINTER("create_qp", p.qp = ibv_create_qp(pd, &init));
	struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	NUMBER("modify_qp", ibv_modify_qp(p.qp, &qp_attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	qp_attr.qp_state = IBV_QPS_RTR;
	CHECK("RTR", !ibv_modify_qp(p.qp, &qp_attr, IBV_QP_STATE));
	qp_attr.qp_state = IBV_QPS_RTS;
	CHECK("RTS", !ibv_modify_qp(p.qp, &qp_attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	NUMBER("query_qp", ibv_query_qp(p.qp, &qp_attr, IBV_QP_STATE, &init));
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, [11] = 0xff, [12] = 239, [15] = 7}};
	NUMBER("attach_mcast", ibv_attach_mcast(p.qp, &group, 0));
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {ah, p.qp->qp_num, qkey}}, *bad;
	NUMBER("post_send", ibv_post_send(p.qp, &wr, &bad));

	NUMBER("detach_mcast", ibv_detach_mcast(p.qp, &group, 0));
	NUMBER("destroy_qp", ibv_destroy_qp(p.qp));
	NUMBER("destroy_srq", ibv_destroy_srq(srq));
	NUMBER("destroy_cq", ibv_destroy_cq(cq));
	NUMBER("destroy_ah", ibv_destroy_ah(ah));
	NUMBER("dealloc_mw", ibv_dealloc_mw(mw));
	NUMBER("dereg_mr", ibv_dereg_mr(mr));
	NUMBER("dealloc_pd", ibv_dealloc_pd(pd));
}

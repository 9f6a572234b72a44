/*
 * Asks a verbs device for what it has to refuse, and prints each answer:
 *
 *     NAME: ok | ERRNO
 *
 * through both forms of the ABI, ioctl(RDMA_VERBS_IOCTL) and write(). The same
 * program ran on the Linux kernel's rdma_rxe: its output there is beside this
 * file, and a test compares. usage: errnos DEVICE [GID-INDEX]
 */
#include "errnos.h"

int fd;
int gid_index = 1;
union ibv_gid own;

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq, int type, unsigned wr, unsigned sge, unsigned inl)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
		.cap = {.max_send_wr = wr, .max_recv_wr = wr, .max_send_sge = sge, .max_recv_sge = sge, .max_inline_data = inl}};

	return ibv_create_qp(pd, &a);
}

static void limits(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	static char page[4096];
	struct ibv_device_attr dev;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 10, .max_sge = 1}};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .dgid = own}};
	union ibv_gid gid;
	uint16_t pkey;
	struct ibv_port_attr port;

	ibv_query_device(ctx, &dev);
	PTR("create_cq 0 entries", ibv_create_cq(ctx, 0, NULL, NULL, 0));
	PTR("create_cq max+1", ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0));
	PTR("create_cq vector 999", ibv_create_cq(ctx, 1, NULL, NULL, 999));
	PTR("create_cq vector -1", ibv_create_cq(ctx, 1, NULL, NULL, -1));
	struct ibv_comp_channel fake = {.context = ctx, .fd = 0};
	PTR("create_cq channel is stdin", ibv_create_cq(ctx, 1, NULL, &fake, 0));
	fake.fd = 9999;
	PTR("create_cq channel is no fd", ibv_create_cq(ctx, 1, NULL, &fake, 0));
	fake.fd = fd;
	PTR("create_cq channel is the device", ibv_create_cq(ctx, 1, NULL, &fake, 0));
	fake.fd = ctx->async_fd;
	PTR("create_cq channel is the async fd", ibv_create_cq(ctx, 1, NULL, &fake, 0));
	RET("resize_cq 0", ibv_resize_cq(cq, 0));
	RET("resize_cq max+1", ibv_resize_cq(cq, dev.max_cqe + 1));
	RET("resize_cq 100", ibv_resize_cq(cq, 100));

	PTR("create_qp max_send_wr too big", make_qp(pd, cq, NULL, IBV_QPT_RC, dev.max_qp_wr + 1, 1, 0));
	PTR("create_qp max_send_sge too big", make_qp(pd, cq, NULL, IBV_QPT_RC, 1, dev.max_sge + 1, 0));
	PTR("create_qp inline too big", make_qp(pd, cq, NULL, IBV_QPT_RC, 1, 1, 100000));
	PTR("create_qp no work requests", make_qp(pd, cq, NULL, IBV_QPT_RC, 0, 0, 0));
	PTR("create_qp RAW_PACKET", make_qp(pd, cq, NULL, IBV_QPT_RAW_PACKET, 1, 1, 0));
	PTR("create_qp XRC_SEND", make_qp(pd, cq, NULL, IBV_QPT_XRC_SEND, 1, 1, 0));
	PTR("create_qp DRIVER", make_qp(pd, cq, NULL, IBV_QPT_DRIVER, 1, 1, 0));
	PTR("create_qp type 77", make_qp(pd, cq, NULL, 77, 1, 1, 0));
	PTR("create_qp SMI", make_qp(pd, cq, NULL, 0, 1, 1, 0));
	PTR("create_qp GSI", make_qp(pd, cq, NULL, 1, 1, 1, 0));
	struct ibv_pd badpd = *pd;
	badpd.handle = 0xabcdef;
	PTR("create_qp unknown pd", make_qp(&badpd, cq, NULL, IBV_QPT_RC, 1, 1, 0));
	struct ibv_cq badcq = *cq;
	badcq.handle = 0xabcdef;
	PTR("create_qp unknown cq", make_qp(pd, &badcq, NULL, IBV_QPT_RC, 1, 1, 0));
	PTR("create_srq unknown pd", ibv_create_srq(&badpd, &sa));
	sa.attr.max_wr = 0;
	PTR("create_srq 0 wr", ibv_create_srq(pd, &sa));
	sa.attr.max_wr = dev.max_srq_wr + 1;
	PTR("create_srq max_wr too big", ibv_create_srq(pd, &sa));
	sa.attr.max_wr = 10;
	sa.attr.max_sge = dev.max_srq_sge + 1;
	PTR("create_srq max_sge too big", ibv_create_srq(pd, &sa));
	sa.attr.max_sge = 0;
	PTR("create_srq 0 sge", ibv_create_srq(pd, &sa));
	sa.attr.max_sge = 1;
	sa.attr.srq_limit = 11;
	PTR("create_srq limit above max_wr", ibv_create_srq(pd, &sa));
	sa.attr.srq_limit = 0;
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	struct ibv_srq_attr m = {.max_wr = 100, .srq_limit = 5};
	RET("modify_srq limit", ibv_modify_srq(srq, &m, IBV_SRQ_LIMIT));
	m.srq_limit = 100000;
	RET("modify_srq limit too big", ibv_modify_srq(srq, &m, IBV_SRQ_LIMIT));
	m.srq_limit = 2;
	RET("modify_srq grow", ibv_modify_srq(srq, &m, IBV_SRQ_MAX_WR));
	m.max_wr = 1;
	RET("modify_srq below its limit", ibv_modify_srq(srq, &m, IBV_SRQ_MAX_WR));
	m.max_wr = dev.max_srq_wr + 1;
	RET("modify_srq too big", ibv_modify_srq(srq, &m, IBV_SRQ_MAX_WR));
	m.max_wr = 100;
	RET("modify_srq both", ibv_modify_srq(srq, &m, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	RET("modify_srq unknown mask", ibv_modify_srq(srq, &m, 8));
	RET("modify_srq nothing", ibv_modify_srq(srq, &m, 0));
	RET("destroy_srq", ibv_destroy_srq(srq));

	PTR("reg_mr length 0", ibv_reg_mr(pd, page, 0, IBV_ACCESS_LOCAL_WRITE));
	PTR("reg_mr remote write without local write", ibv_reg_mr(pd, page, 10, IBV_ACCESS_REMOTE_WRITE));
	PTR("reg_mr remote atomic without local write", ibv_reg_mr(pd, page, 10, IBV_ACCESS_REMOTE_ATOMIC));
	PTR("reg_mr unknown access bit", ibv_reg_mr(pd, page, 10, 1 << 15));
	PTR("reg_mr optional access bit", ibv_reg_mr(pd, page, 10, 1 << 29 | IBV_ACCESS_LOCAL_WRITE));
	PTR("reg_mr on demand", ibv_reg_mr(pd, page, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	PTR("reg_mr on demand, everything", ibv_reg_mr(pd, NULL, (size_t)-1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	PTR("reg_mr huge pages", ibv_reg_mr(pd, page, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB));
	PTR("reg_mr relaxed ordering", ibv_reg_mr(pd, page, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	PTR("reg_mr zero based", ibv_reg_mr(pd, page, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	PTR("reg_mr mw_bind", ibv_reg_mr(pd, page, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
	void *hole = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(hole, 8192);
	PTR("reg_mr unmapped", ibv_reg_mr(pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE));
	char *ro = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	PTR("reg_mr read-only memory for writing", ibv_reg_mr(pd, ro, 4096, IBV_ACCESS_LOCAL_WRITE));
	PTR("reg_mr read-only memory for reading", ibv_reg_mr(pd, ro, 4096, 0));
	PTR("reg_mr wraps", ibv_reg_mr(pd, (void *)-4096L, 8192, 0));
	PTR("reg_mr kernel address", ibv_reg_mr(pd, (void *)0xffff800000000000UL, 4096, 0));
	PTR("reg_mr unknown pd", ibv_reg_mr(&badpd, page, 10, 0));
	PTR("reg_mr_iova unaligned", ibv_reg_mr_iova(pd, page, 10, 5, IBV_ACCESS_LOCAL_WRITE));
	PTR("reg_mr_iova", ibv_reg_mr_iova(pd, page, 4096, 0x10000 + ((uintptr_t)page & 4095), IBV_ACCESS_LOCAL_WRITE));
	PTR("reg_mr_iova wraps", ibv_reg_mr_iova(pd, page, 4096, -4096UL + ((uintptr_t)page & 4095) , IBV_ACCESS_LOCAL_WRITE));
	PTR("alloc_mw type 1", ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	PTR("alloc_mw type 2", ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	PTR("alloc_mw type 9", ibv_alloc_mw(pd, 9));
	PTR("alloc_mw unknown pd", ibv_alloc_mw(&badpd, IBV_MW_TYPE_1));
	PTR("alloc_null_mr", ibv_alloc_null_mr(pd));

	PTR("create_ah", ibv_create_ah(pd, &ah));
	ah.port_num = 2;
	PTR("create_ah port 2", ibv_create_ah(pd, &ah));
	ah.port_num = 0;
	PTR("create_ah port 0", ibv_create_ah(pd, &ah));
	ah.port_num = 1;
	ah.grh.sgid_index = 200;
	PTR("create_ah unset gid index", ibv_create_ah(pd, &ah));
	ah.grh.sgid_index = gid_index;
	ah.is_global = 0;
	PTR("create_ah without grh", ibv_create_ah(pd, &ah));
	ah.is_global = 1;
	PTR("create_ah unknown pd", ibv_create_ah(&badpd, &ah));
	memset(&ah.grh.dgid, 0, 16);
	PTR("create_ah zero dgid", ibv_create_ah(pd, &ah));
	ah.grh.dgid.raw[0] = 0xfe; ah.grh.dgid.raw[1] = 0x80; ah.grh.dgid.raw[15] = 1;
	PTR("create_ah IPv6 destination, IPv4 source", ibv_create_ah(pd, &ah));

	RET("query_port 2", ibv_query_port(ctx, 2, &port));
	SYS("query_gid 900", ibv_query_gid(ctx, 1, 900, &gid));
	SYS("query_gid 5000", ibv_query_gid(ctx, 1, 5000, &gid));
	SYS("query_gid port 2", ibv_query_gid(ctx, 2, 0, &gid));
	SYS("query_pkey 0", ibv_query_pkey(ctx, 1, 0, &pkey));
	SYS("query_pkey 1", ibv_query_pkey(ctx, 1, 1, &pkey));
	SYS("query_pkey 64", ibv_query_pkey(ctx, 1, 64, &pkey));
	PTR("open_xrcd", ibv_open_xrcd(ctx, &(struct ibv_xrcd_init_attr){.comp_mask = 3, .fd = -1, .oflags = O_CREAT}));
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	RET("query_rt_values", ibv_query_rt_values_ex(ctx, &values));
	RET("modify_cq", ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 1}}));
	PTR("alloc_td", ibv_alloc_td(ctx, &(struct ibv_td_init_attr){0}));
}

static void states(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(pd, cq, NULL, IBV_QPT_RC, 4, 1, 0);
	struct ibv_qp *ud = make_qp(pd, cq, NULL, IBV_QPT_UD, 4, 1, 0);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .port_num = 1};
	struct ibv_qp_init_attr ia;
	union ibv_gid mgid = {.raw = {0xff, 0x0e, [10] = 0xff, [11] = 0xff, [12] = 0xef, [15] = 1}};
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	RET("modify_qp RESET to RTR", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	RET("modify_qp nothing", ibv_modify_qp(qp, &a, 0));
	a.qp_state = IBV_QPS_INIT;
	RET("modify_qp INIT without attributes", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.port_num = 2;
	RET("modify_qp INIT port 2", ibv_modify_qp(qp, &a, init));
	a.port_num = 1;
	a.pkey_index = 5;
	RET("modify_qp INIT pkey index 5", ibv_modify_qp(qp, &a, init));
	a.pkey_index = 0;
	RET("modify_qp INIT with qkey", ibv_modify_qp(qp, &a, init | IBV_QP_QKEY));
	a.cur_qp_state = IBV_QPS_RTS;
	RET("modify_qp INIT wrong current state", ibv_modify_qp(qp, &a, init | IBV_QP_CUR_STATE));
	a.qp_access_flags = 1 << 20;
	RET("modify_qp INIT unknown access", ibv_modify_qp(qp, &a, init));
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	RET("modify_qp INIT", ibv_modify_qp(qp, &a, init));
	RET("modify_qp unknown mask bit", ibv_modify_qp(qp, &a, init | 1 << 30));
	RET("modify_qp rate limit", ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	RET("modify_qp INIT again", ibv_modify_qp(qp, &a, init));
	struct ibv_sge sge = {0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge}, *bad;
	RET("post_send in INIT", ibv_post_send(qp, &wr, &bad));
	struct ibv_qp_attr b = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 17, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 1, .dgid = own}}};
	RET("modify_qp RTR without attributes", ibv_modify_qp(qp, &b, IBV_QP_STATE));
	b.ah_attr.port_num = 2;
	RET("modify_qp RTR av port 2", ibv_modify_qp(qp, &b, rtr));
	b.ah_attr.port_num = 1;
	b.ah_attr.is_global = 0;
	RET("modify_qp RTR without grh", ibv_modify_qp(qp, &b, rtr));
	b.ah_attr.is_global = 1;
	b.ah_attr.grh.sgid_index = 200;
	RET("modify_qp RTR unset gid", ibv_modify_qp(qp, &b, rtr));
	b.ah_attr.grh.sgid_index = gid_index;
	b.path_mtu = 9;
	RET("modify_qp RTR mtu 9", ibv_modify_qp(qp, &b, rtr));
	b.path_mtu = IBV_MTU_1024;
	RET("modify_qp RTR alternate path", ibv_modify_qp(qp, &b, rtr | IBV_QP_ALT_PATH));
	RET("modify_qp RTR", ibv_modify_qp(qp, &b, rtr));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 40};
	RET("modify_qp RTS without attributes", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	RET("modify_qp RTS timeout 40", ibv_modify_qp(qp, &a, rts));
	a.timeout = 14;
	a.max_rd_atomic = 200;
	RET("modify_qp RTS max_rd_atomic 200", ibv_modify_qp(qp, &a, rts));
	a.max_rd_atomic = 1;
	RET("modify_qp RTS", ibv_modify_qp(qp, &a, rts));
	a.qp_state = IBV_QPS_SQD;
	RET("modify_qp SQD", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	RET("modify_qp SQD to RTS", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_SQE;
	RET("modify_qp SQE", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = 99;
	RET("modify_qp state 99", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_ERR;
	RET("modify_qp ERR", ibv_modify_qp(qp, &a, IBV_QP_STATE));
	RET("query_qp all", ibv_query_qp(qp, &a, 0xfffff, &ia));
	RET("query_qp unknown mask", ibv_query_qp(qp, &a, 1 << 30, &ia));
	a.qp_state = IBV_QPS_RESET;
	RET("modify_qp RESET", ibv_modify_qp(qp, &a, IBV_QP_STATE));

	RET("attach_mcast RC", ibv_attach_mcast(qp, &mgid, 0));
	RET("attach_mcast UD in RESET", ibv_attach_mcast(ud, &mgid, 0));
	RET("attach_mcast twice", ibv_attach_mcast(ud, &mgid, 0));
	mgid.raw[15] = 2;
	RET("detach_mcast not attached", ibv_detach_mcast(ud, &mgid, 0));
	mgid.raw[15] = 1;
	RET("attach_mcast lid 1", ibv_attach_mcast(ud, &mgid, 1));
	mgid.raw[0] = 0xfe;
	RET("attach_mcast no multicast gid", ibv_attach_mcast(ud, &mgid, 0));
	mgid.raw[0] = 0xff;
	RET("destroy_qp attached", ibv_destroy_qp(ud));
	RET("destroy_qp", ibv_destroy_qp(qp));
}

static void busy(struct ibv_context *ctx)
{
	static char page[4096];
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, ch, 0);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 10, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	struct ibv_qp *qp = make_qp(pd, cq, srq, IBV_QPT_RC, 4, 1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ib_uverbs_dealloc_pd dpd = {pd->handle};
	unsigned char resp[64];
	struct ib_uverbs_destroy_cq dcq = {.response = (uintptr_t)resp, .cq_handle = cq->handle};
	struct ib_uverbs_destroy_srq dsrq = {.response = (uintptr_t)resp, .srq_handle = srq->handle};

	RET("busy: destroy_cq with a QP", ibv_destroy_cq(cq));
	SYS("busy: write destroy_cq with a QP", cmd(IB_USER_VERBS_CMD_DESTROY_CQ, &dcq, sizeof(dcq), 8));
	RET("busy: destroy_srq with a QP", ibv_destroy_srq(srq));
	SYS("busy: write destroy_srq with a QP", cmd(IB_USER_VERBS_CMD_DESTROY_SRQ, &dsrq, sizeof(dsrq), 4));
	RET("busy: destroy_comp_channel with a CQ", ibv_destroy_comp_channel(ch));
	SYS("busy: ioctl dealloc_pd with everything", destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, pd->handle));
	SYS("busy: write dealloc_pd with everything", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	RET("busy: destroy_qp", ibv_destroy_qp(qp));
	SYS("busy: dealloc_pd with SRQ, MR, MW", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	RET("busy: destroy_srq", ibv_destroy_srq(srq));
	SYS("busy: dealloc_pd with MR, MW", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	RET("busy: dereg_mr", ibv_dereg_mr(mr));
	SYS("busy: dealloc_pd with MW", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	RET("busy: dealloc_mw", ibv_dealloc_mw(mw));
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .dgid = own}};
	struct ibv_ah *a = ibv_create_ah(pd, &ah);
	SYS("busy: dealloc_pd with AH", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	RET("busy: destroy_ah", a ? ibv_destroy_ah(a) : EINVAL);
	RET("busy: destroy_cq", ibv_destroy_cq(cq));
	RET("busy: destroy_comp_channel", ibv_destroy_comp_channel(ch));
	RET("busy: dealloc_pd", ibv_dealloc_pd(pd));
	SYS("busy: dealloc_pd again", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
}

/* Objects of one open file are unknown in another, also on the same device. */
static void foreign(struct ibv_device *dev, struct ibv_pd *pd)
{
	struct ibv_context *other = ibv_open_device(dev);
	struct ibv_pd *mine = ibv_alloc_pd(other), *more = ibv_alloc_pd(other);
	struct ib_uverbs_dealloc_pd dpd = {.pd_handle = 0};

	(void)pd;
	/* Handles are counted per file: one that only the other file has. */
	dpd.pd_handle = more->handle > mine->handle ? more->handle : mine->handle;
	for (int i = 0; i < 200; i++)
		dpd.pd_handle = ibv_alloc_pd(other)->handle;
	SYS("foreign: write dealloc_pd", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	SYS("foreign: ioctl dealloc_pd", destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, dpd.pd_handle));
	RET("foreign: close_device with objects", ibv_close_device(other));
}

/* The file before a context is made on it, and from another process. */
static void fresh(const char *path)
{
	unsigned char resp[512];
	struct ib_uverbs_query_port q = {.response = (uintptr_t)resp, .port_num = 1};
	struct ib_uverbs_get_context gc = {.response = (uintptr_t)resp};
	struct ib_uverbs_ex_query_device exq = {0};
	struct request r;
	int old = fd;

	fd = open(path, O_RDWR | O_CLOEXEC);
	SYS("fresh: open", fd);
	SYS("fresh: write query_port", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	SYS("fresh: write ex query_device", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 304));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	attr(&r, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_ALLOC_PD);
	SYS("fresh: ioctl invoke_write alloc_pd", submit(&r));
	SYS("fresh: ioctl destroy pd", destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 0));
	SYS("fresh: mmap", mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	SYS("fresh: write get_context", cmd(IB_USER_VERBS_CMD_GET_CONTEXT, &gc, sizeof(gc), 8));
	SYS("fresh: write query_port with context", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		SYS("fresh: write in a forked child", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
		struct ib_uverbs_alloc_pd ap = {.response = (uintptr_t)resp};
		SYS("fresh: write alloc_pd in a forked child", cmd(IB_USER_VERBS_CMD_ALLOC_PD, &ap, sizeof(ap), 4));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	SYS("fresh: open read-only", fd);
	SYS("fresh: write on a read-only file", cmd(IB_USER_VERBS_CMD_GET_CONTEXT, &gc, sizeof(gc), 8));
	uint32_t vectors, support[2];
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	attr(&r, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4, (uintptr_t)&vectors);
	attr(&r, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8, (uintptr_t)support);
	SYS("fresh: ioctl get_context on a read-only file", submit(&r));
	close(fd);
	SYS("fresh: open with O_DIRECTORY", open(path, O_RDWR | O_DIRECTORY));
	SYS("fresh: open with O_CREAT|O_EXCL", open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
	SYS("fresh: open below a device", open("/dev/infiniband/uverbs0/x", O_RDWR));
	fd = old;
}

static struct ibv_device *find(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	fprintf(stderr, "errnos: no device %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: errnos DEVICE [GID-INDEX]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 2)
		gid_index = atoi(argv[2]);
	struct ibv_device *dev = find(argv[1]);
	struct ibv_context *ctx = ibv_open_device(dev);
	if (!ctx) {
		perror("errnos: ibv_open_device");
		return 2;
	}
	fd = ctx->cmd_fd;
	if (ibv_query_gid(ctx, 1, gid_index, &own)) {
		perror("errnos: ibv_query_gid");
		return 2;
	}
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	char path[sizeof(dev->dev_name) + 32];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", dev->dev_name);
	ioctl_form();
	write_form();
	handles(ctx, pd, cq);
	limits(ctx, pd, cq);
	states(pd, cq);
	busy(ctx);
	foreign(dev, pd);
	fresh(path);
	return 0;
}

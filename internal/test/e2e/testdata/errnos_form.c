/* The form of requests, and the handles in them; see errnos.c. */
#include "errnos.h"

static void *volatile nowhere = (void *)8;

void ioctl_form(void)
{
	uint32_t support = 0, vectors = 0;
	struct ib_uverbs_query_port_resp_ex port;
	struct request r;
	unsigned char small[4];

	SYS("ioctl unknown number", ioctl(fd, 0x1234, &r));
	SYS("ioctl RDMA_VERBS_IOCTL bad pointer", ioctl(fd, RDMA_VERBS_IOCTL, (void *)8));
	SYS("ioctl RDMA_VERBS_IOCTL null", ioctl(fd, RDMA_VERBS_IOCTL, NULL));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.length = sizeof(r.hdr) - 4;
	SYS("ioctl header shorter than a header", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.length = sizeof(r.hdr) + 3;
	SYS("ioctl length does not match attributes", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.reserved1 = 1;
	SYS("ioctl reserved1 set", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.reserved2 = 1;
	SYS("ioctl reserved2 set", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.driver_id = RDMA_DRIVER_MLX5;
	attr(&r, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	attr(&r, UVERBS_ATTR_QUERY_PORT_RESP, sizeof(port), (uintptr_t)&port);
	SYS("ioctl other driver_id", submit(&r));
	r = req(0x77, 0);
	SYS("ioctl unknown object", submit(&r));
	r = req(0x1077, 0);
	SYS("ioctl unknown driver object", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, 0x77);
	SYS("ioctl unknown method", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, 0x1077);
	SYS("ioctl unknown driver method", submit(&r));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	attr(&r, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	attr(&r, UVERBS_ATTR_QUERY_PORT_RESP, sizeof(port), (uintptr_t)&port);
	SYS("ioctl query_port", submit(&r));
	r.attrs[0].data = 2;
	SYS("ioctl query_port port 2", submit(&r));
	r.attrs[0].data = 0;
	SYS("ioctl query_port port 0", submit(&r));
	r.attrs[0].data = 1;
	r.attrs[1].data = 8;
	SYS("ioctl query_port bad response pointer", submit(&r));
	r.attrs[1].data = (uintptr_t)&port;
	r.attrs[1].len = 4;
	SYS("ioctl query_port short response", submit(&r));
	r.attrs[1].len = sizeof(port);
	r.attrs[0].len = 9;
	SYS("ioctl query_port long port number", submit(&r));
	r.attrs[0].len = 4;
	SYS("ioctl query_port short port number", submit(&r));
	r.attrs[0].len = 0;
	SYS("ioctl query_port empty port number", submit(&r));
	r.attrs[0].len = 8;
	r.attrs[0].flags = 4;
	SYS("ioctl attribute with unknown flag", submit(&r));
	r.attrs[0].flags = MANDATORY;
	r.attrs[0].attr_data.reserved = 1;
	SYS("ioctl attribute with reserved set", submit(&r));
	r.attrs[0].attr_data.reserved = 0;
	attr(&r, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	r.hdr.length = 0;
	SYS("ioctl attribute twice", submit(&r));
	r.attrs[2].attr_id = 0x55;
	SYS("ioctl unknown mandatory attribute", submit(&r));
	r.attrs[2].flags = 0;
	SYS("ioctl unknown optional attribute", submit(&r));
	r.attrs[2].attr_id = 0x1055;
	SYS("ioctl unknown optional driver attribute", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	attr(&r, UVERBS_ATTR_QUERY_PORT_RESP, sizeof(port), (uintptr_t)&port);
	SYS("ioctl query_port without port number", submit(&r));
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	attr(&r, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	SYS("ioctl query_port without response", submit(&r));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	attr(&r, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4, (uintptr_t)&vectors);
	attr(&r, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8, (uintptr_t)&support);
	SYS("ioctl get_context a second time", submit(&r));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	attr(&r, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_POST_RECV);
	SYS("ioctl invoke_write post_recv without body", submit(&r));
	r.attrs[0].data = 200;
	SYS("ioctl invoke_write unknown command", submit(&r));
	r.attrs[0].data = IB_USER_VERBS_CMD_FLAG_EXTENDED | 200;
	SYS("ioctl invoke_write unknown extended command", submit(&r));
	r.attrs[0].data = IB_USER_VERBS_CMD_ALLOC_PD;
	attr(&r, UVERBS_ATTR_CORE_OUT, sizeof(small), (uintptr_t)small);
	r.hdr.length = 0;
	r.attrs[1].len = 2;
	SYS("ioctl invoke_write alloc_pd short response", submit(&r));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
	struct ib_uverbs_gid_entry entry;
	attr(&r, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 8, 1);
	attr(&r, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, 0);
	attr(&r, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0);
	attr(&r, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(entry), (uintptr_t)&entry);
	SYS("ioctl query_gid_entry", submit(&r));
	r.attrs[1].data = 900;
	SYS("ioctl query_gid_entry unset", submit(&r));
	r.attrs[1].data = 5000;
	SYS("ioctl query_gid_entry out of range", submit(&r));
	r.attrs[1].data = 0;
	r.attrs[0].data = 2;
	SYS("ioctl query_gid_entry port 2", submit(&r));
	r.attrs[0].data = 1;
	r.attrs[2].data = 1;
	SYS("ioctl query_gid_entry flags", submit(&r));
	r.attrs[2].data = 0;
	r.attrs[3].len = 8;
	SYS("ioctl query_gid_entry short entry", submit(&r));

	uint64_t count;
	struct ib_uverbs_gid_entry entries[16];
	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
	attr(&r, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, sizeof(entries[0]));
	attr(&r, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
	attr(&r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, sizeof(entries), (uintptr_t)entries);
	attr(&r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, (uintptr_t)&count);
	SYS("ioctl query_gid_table", submit(&r));
	r.attrs[2].len = sizeof(entries[0]);
	SYS("ioctl query_gid_table room for one", submit(&r));
	r.attrs[2].len = 0;
	SYS("ioctl query_gid_table no room", submit(&r));
	r.attrs[2].len = sizeof(entries);
	r.attrs[0].data = 0;
	SYS("ioctl query_gid_table entry size 0", submit(&r));
	r.attrs[0].data = sizeof(entries[0]) + 8;
	SYS("ioctl query_gid_table larger entries", submit(&r));

	r = req(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
	uint32_t total, list[64];
	attr(&r, UVERBS_ATTR_INFO_OBJECT_ID, 8, UVERBS_OBJECT_PD);
	attr(&r, UVERBS_ATTR_INFO_TOTAL_HANDLES, 4, (uintptr_t)&total);
	attr(&r, UVERBS_ATTR_INFO_HANDLES_LIST, sizeof(list), (uintptr_t)list);
	SYS("ioctl info_handles of PDs", submit(&r));
	r.attrs[0].data = 0x99;
	SYS("ioctl info_handles of unknown object", submit(&r));
}

void write_form(void)
{
	struct ib_uverbs_cmd_hdr h = {0};
	unsigned char buf[256] = {0}, resp[512];
	struct ib_uverbs_query_port q = {.response = (uintptr_t)resp, .port_num = 1};
	struct ib_uverbs_ex_query_device exq = {0};
	struct ib_uverbs_get_context gc = {.response = (uintptr_t)resp};

	SYS("write nothing", write(fd, buf, 0));
	SYS("write 4 bytes", write(fd, buf, 4));
	SYS("write bad pointer", write(fd, nowhere, 64));
	h.command = 200;
	h.in_words = sizeof(h) / 4;
	SYS("write unknown command", write(fd, &h, sizeof(h)));
	h.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | 200;
	memcpy(buf, &h, sizeof(h));
	SYS("write unknown extended command", write(fd, buf, 24));
	h.command = 0x40000000;
	SYS("write unknown flag", write(fd, &h, sizeof(h)));
	h.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
	SYS("write extended header too short", write(fd, &h, sizeof(h)));

	SYS("write get_context a second time", cmd(IB_USER_VERBS_CMD_GET_CONTEXT, &gc, sizeof(gc), 8));
	SYS("write query_port", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	q.port_num = 2;
	SYS("write query_port port 2", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	q.port_num = 0;
	SYS("write query_port port 0", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	q.port_num = 1;
	SYS("write query_port short request", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, 8, 40));
	SYS("write query_port long request", cmd(IB_USER_VERBS_CMD_QUERY_PORT, memcpy(buf, &q, sizeof(q)), sizeof(q) + 16, 40));
	SYS("write query_port short response", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 8));
	SYS("write query_port no response", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 0));
	q.response = 8;
	SYS("write query_port bad response pointer", cmd(IB_USER_VERBS_CMD_QUERY_PORT, &q, sizeof(q), 40));
	q.response = (uintptr_t)resp;
	h.command = IB_USER_VERBS_CMD_QUERY_PORT;
	h.in_words = 4;
	h.out_words = 10;
	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), &q, sizeof(q));
	SYS("write in_words does not match", write(fd, buf, sizeof(h) + sizeof(q)));

	SYS("write ex query_device", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 304));
	SYS("write ex query_device short response", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 8));
	SYS("write ex query_device null response", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), NULL, 304));
	SYS("write ex query_device response pointer without length", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 0));
	exq.comp_mask = 1;
	SYS("write ex query_device comp_mask", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 304));
	exq.comp_mask = 0;
	exq.reserved = 1;
	SYS("write ex query_device reserved", excmd(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &exq, sizeof(exq), resp, 304));

	SYS("pwrite", pwrite(fd, buf, 40, 0));
	SYS("read", read(fd, buf, 16));
	SYS("lseek", lseek(fd, 0, SEEK_SET));
	SYS("ftruncate", ftruncate(fd, 4096));
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	printf("poll: %d revents %#x\n", poll(&p, 1, 0), p.revents);
	SYS("ioctl FIONREAD", ioctl(fd, 0x541b, resp));
	SYS("fsync", fsync(fd));
	SYS("mmap offset 0", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	SYS("mmap far offset", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 1L << 40) == MAP_FAILED ? -1 : 0);
}

/* ---- handles ---- */

static const struct {
	const char *name;
	unsigned object, method;
} destroys[] = {
	{"pd", UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY},
	{"cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY},
	{"qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY},
	{"srq", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY},
	{"ah", UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY},
	{"mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY},
	{"mw", UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY},
	{"xrcd", UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY},
	{"wq", UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY},
	{"flow", UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY},
	{"rwq_ind_tbl", UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY},
	{"flow_action", UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY},
	{"dm", UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE},
	{"counters", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY},
};

void handles(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	char name[64];
	uint32_t none = 0x00abcdef;
	struct ibv_pd *gone = ibv_alloc_pd(ctx);
	uint32_t stale = gone->handle;
	unsigned char resp[256];

	ibv_dealloc_pd(gone);
	for (unsigned i = 0; i < sizeof(destroys) / sizeof(destroys[0]); i++) {
		snprintf(name, sizeof(name), "ioctl destroy %s unknown handle", destroys[i].name);
		SYS(name, destroy(destroys[i].object, destroys[i].method, none));
		snprintf(name, sizeof(name), "ioctl destroy %s stale handle", destroys[i].name);
		SYS(name, destroy(destroys[i].object, destroys[i].method, stale));
		snprintf(name, sizeof(name), "ioctl destroy %s handle of a %s", destroys[i].name, i ? "PD" : "CQ");
		SYS(name, destroy(destroys[i].object, destroys[i].method, i ? pd->handle : cq->handle));
	}
	struct request r = req(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY);
	attr(&r, 0, 0, pd->handle | 1ull << 32);
	SYS("ioctl destroy pd handle above 32 bits", submit(&r));
	r.attrs[0].len = 4;
	r.attrs[0].data = none;
	SYS("ioctl destroy pd handle with a length", submit(&r));

	struct ib_uverbs_dealloc_pd dpd = {none};
	SYS("write dealloc_pd unknown", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	dpd.pd_handle = cq->handle;
	SYS("write dealloc_pd of a CQ", cmd(IB_USER_VERBS_CMD_DEALLOC_PD, &dpd, sizeof(dpd), 0));
	struct ib_uverbs_destroy_cq dcq = {.response = (uintptr_t)resp, .cq_handle = none};
	SYS("write destroy_cq unknown", cmd(IB_USER_VERBS_CMD_DESTROY_CQ, &dcq, sizeof(dcq), 8));
	struct ib_uverbs_destroy_qp dqp = {.response = (uintptr_t)resp, .qp_handle = none};
	SYS("write destroy_qp unknown", cmd(IB_USER_VERBS_CMD_DESTROY_QP, &dqp, sizeof(dqp), 4));
	struct ib_uverbs_destroy_srq dsrq = {.response = (uintptr_t)resp, .srq_handle = none};
	SYS("write destroy_srq unknown", cmd(IB_USER_VERBS_CMD_DESTROY_SRQ, &dsrq, sizeof(dsrq), 4));
	struct ib_uverbs_dereg_mr dmr = {none};
	SYS("write dereg_mr unknown", cmd(IB_USER_VERBS_CMD_DEREG_MR, &dmr, sizeof(dmr), 0));
	SYS("write dealloc_mw unknown", cmd(IB_USER_VERBS_CMD_DEALLOC_MW, &dmr, sizeof(dmr), 0));
	SYS("write destroy_ah unknown", cmd(IB_USER_VERBS_CMD_DESTROY_AH, &dmr, sizeof(dmr), 0));
	struct ib_uverbs_req_notify_cq rn = {none, 0};
	SYS("write req_notify_cq unknown", cmd(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &rn, sizeof(rn), 0));
	rn.cq_handle = pd->handle;
	SYS("write req_notify_cq of a PD", cmd(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &rn, sizeof(rn), 0));
	rn.cq_handle = cq->handle;
	SYS("write req_notify_cq without channel", cmd(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &rn, sizeof(rn), 0));
	rn.solicited_only = 7;
	SYS("write req_notify_cq solicited_only 7", cmd(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &rn, sizeof(rn), 0));
	struct ib_uverbs_resize_cq rs = {.response = (uintptr_t)resp, .cq_handle = none, .cqe = 10};
	SYS("write resize_cq unknown", cmd(IB_USER_VERBS_CMD_RESIZE_CQ, &rs, sizeof(rs), 8 + 16));
	struct ib_uverbs_poll_cq pc = {.response = (uintptr_t)resp, .cq_handle = cq->handle, .ne = 1};
	SYS("write poll_cq", cmd(IB_USER_VERBS_CMD_POLL_CQ, &pc, sizeof(pc), 56));
	SYS("write peek_cq", cmd(IB_USER_VERBS_CMD_PEEK_CQ, &pc, sizeof(pc), 56));
	struct ib_uverbs_query_qp qq = {.response = (uintptr_t)resp, .qp_handle = none};
	SYS("write query_qp unknown", cmd(IB_USER_VERBS_CMD_QUERY_QP, &qq, sizeof(qq), 128));
	struct ib_uverbs_modify_qp mq = {.qp_handle = none};
	SYS("write modify_qp unknown", cmd(IB_USER_VERBS_CMD_MODIFY_QP, &mq, sizeof(mq), 0));
	struct ib_uverbs_post_send ps = {.response = (uintptr_t)resp, .qp_handle = none};
	SYS("write post_send unknown qp", cmd(IB_USER_VERBS_CMD_POST_SEND, &ps, sizeof(ps), 4));
	struct ib_uverbs_attach_mcast am = {.qp_handle = none, .gid = {0xff, 0x0e}};
	SYS("write attach_mcast unknown qp", cmd(IB_USER_VERBS_CMD_ATTACH_MCAST, &am, sizeof(am), 0));
	SYS("write detach_mcast unknown qp", cmd(IB_USER_VERBS_CMD_DETACH_MCAST, &am, sizeof(am), 0));
	struct ib_uverbs_query_srq qs = {.response = (uintptr_t)resp, .srq_handle = none};
	SYS("write query_srq unknown", cmd(IB_USER_VERBS_CMD_QUERY_SRQ, &qs, sizeof(qs), 16));
	struct ib_uverbs_modify_srq ms = {.srq_handle = none};
	SYS("write modify_srq unknown", cmd(IB_USER_VERBS_CMD_MODIFY_SRQ, &ms, sizeof(ms), 0));

	/* What rdma_rxe has no method for. */
	SYS("write reg_smr", cmd(IB_USER_VERBS_CMD_REG_SMR, resp, 32, 16));
	SYS("write query_mr", cmd(IB_USER_VERBS_CMD_QUERY_MR, resp, 32, 16));
	SYS("write bind_mw", cmd(IB_USER_VERBS_CMD_BIND_MW, resp, 32, 16));
	SYS("write modify_ah", cmd(IB_USER_VERBS_CMD_MODIFY_AH, resp, 32, 16));
	SYS("write query_ah", cmd(IB_USER_VERBS_CMD_QUERY_AH, resp, 32, 16));
	struct ib_uverbs_rereg_mr rr = {.response = (uintptr_t)resp, .mr_handle = none, .flags = IBV_REREG_MR_CHANGE_ACCESS};
	SYS("write rereg_mr unknown", cmd(IB_USER_VERBS_CMD_REREG_MR, &rr, sizeof(rr), 8));
	struct ib_uverbs_open_xrcd ox = {.response = (uintptr_t)resp, .fd = -1, .oflags = O_CREAT};
	SYS("write open_xrcd", cmd(IB_USER_VERBS_CMD_OPEN_XRCD, &ox, sizeof(ox), 4));
	SYS("write close_xrcd", cmd(IB_USER_VERBS_CMD_CLOSE_XRCD, &none, 4, 0));
	struct ib_uverbs_open_qp oq = {.response = (uintptr_t)resp, .pd_handle = pd->handle, .qpn = 5};
	SYS("write open_qp", cmd(IB_USER_VERBS_CMD_OPEN_QP, &oq, sizeof(oq), 32));
	SYS("write create_xsrq", cmd(IB_USER_VERBS_CMD_CREATE_XSRQ, &(struct ib_uverbs_create_xsrq){.response = (uintptr_t)resp, .pd_handle = pd->handle, .max_wr = 1, .max_sge = 1}, sizeof(struct ib_uverbs_create_xsrq), 16));
	memset(resp, 0, sizeof(resp));
	SYS("write ex create_flow", excmd(IB_USER_VERBS_EX_CMD_CREATE_FLOW, resp, 32, resp, 8));
	SYS("write ex destroy_flow", excmd(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, resp, 8, NULL, 0));
	SYS("write ex create_wq", excmd(IB_USER_VERBS_EX_CMD_CREATE_WQ, resp, 48, resp, 24));
	SYS("write ex destroy_wq", excmd(IB_USER_VERBS_EX_CMD_DESTROY_WQ, resp, 8, resp, 16));
	SYS("write ex create_rwq_ind_tbl", excmd(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, resp, 16, resp, 16));
	SYS("write ex modify_cq unknown", excmd(IB_USER_VERBS_EX_CMD_MODIFY_CQ, &(struct ib_uverbs_ex_modify_cq){.cq_handle = none, .attr_mask = 1}, sizeof(struct ib_uverbs_ex_modify_cq), NULL, 0));
	SYS("write ex modify_cq", excmd(IB_USER_VERBS_EX_CMD_MODIFY_CQ, &(struct ib_uverbs_ex_modify_cq){.cq_handle = cq->handle, .attr_mask = 1}, sizeof(struct ib_uverbs_ex_modify_cq), NULL, 0));

	uint64_t dm = 64;
	r = req(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	attr(&r, UVERBS_ATTR_ALLOC_DM_HANDLE, 0, 0);
	attr(&r, UVERBS_ATTR_ALLOC_DM_LENGTH, 8, dm);
	attr(&r, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4, 3);
	SYS("ioctl dm alloc", submit(&r));
	r = req(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE);
	attr(&r, UVERBS_ATTR_CREATE_COUNTERS_HANDLE, 0, 0);
	SYS("ioctl counters create", submit(&r));
	r = req(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
	struct ibv_sge sge = {0};
	attr(&r, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd->handle);
	attr(&r, UVERBS_ATTR_ADVISE_MR_ADVICE, 8, 0);
	attr(&r, UVERBS_ATTR_ADVISE_MR_FLAGS, 4, 0);
	attr(&r, UVERBS_ATTR_ADVISE_MR_SGE_LIST, 16, (uintptr_t)&sge);
	SYS("ioctl advise_mr", submit(&r));
	r = req(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
	attr(&r, UVERBS_ATTR_QUERY_MR_HANDLE, 0, none);
	SYS("ioctl query_mr unknown", submit(&r));
	r = req(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
	attr(&r, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
	SYS("ioctl reg_dmabuf_mr", submit(&r));
}

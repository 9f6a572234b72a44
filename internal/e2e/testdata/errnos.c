/*
 * Asks a verbs device for what it has to refuse, and prints each answer:
 *
 *     NAME: ok | ERRNO
 *
 * through both forms of the ABI, ioctl(RDMA_VERBS_IOCTL) and write(). The same
 * program ran on the Linux kernel's rdma_rxe: its output there is beside this
 * file, and a test compares. usage: errnos DEVICE [GID-INDEX]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd;            /* of the context under test */
static void *volatile nowhere = (void *)8;
static int gid_index = 1; /* the IPv4 GID */
static union ibv_gid own; /* what it holds: the one address that surely resolves */

static void say(const char *name, int err)
{
	printf("%s: %s\n", name, err ? strerrorname_np(err) : "ok");
}

/* Three kinds of calls: -1 with errno, a positive errno, a null pointer. */
#define SYS(name, call) (errno = 0, say(name, (long)(call) < 0 ? errno : 0))
#define RET(name, call) say(name, (call))
#define PTR(name, call) (errno = 0, say(name, (call) ? 0 : errno))

/* ---- the two forms ---- */

/* A write() command. The body begins with its response pointer, if it has one. */
static long cmd(unsigned number, void *body, size_t n, size_t resp)
{
	unsigned char buf[1024] = {0};
	struct ib_uverbs_cmd_hdr *h = (void *)buf;

	h->command = number;
	h->in_words = (sizeof(*h) + n) / 4;
	h->out_words = resp / 4;
	memcpy(h + 1, body, n);
	return write(fd, buf, sizeof(*h) + n);
}

/* An extended write() command; lengths in 8-byte words. */
static long excmd(unsigned number, void *body, size_t n, void *resp, size_t rn)
{
	unsigned char buf[1024] = {0};
	struct ib_uverbs_cmd_hdr *h = (void *)buf;
	struct ib_uverbs_ex_cmd_hdr *ex = (void *)(h + 1);

	h->command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
	h->in_words = n / 8;
	h->out_words = rn / 8;
	ex->response = (uintptr_t)resp;
	memcpy(ex + 1, body, n);
	return write(fd, buf, sizeof(*h) + sizeof(*ex) + n);
}

#define MANDATORY UVERBS_ATTR_F_MANDATORY

struct request {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[12];
};

static struct request req(unsigned object, unsigned method)
{
	struct request r = {0};

	r.hdr.object_id = object;
	r.hdr.method_id = method;
	r.hdr.driver_id = RDMA_DRIVER_RXE;
	return r;
}

static struct ib_uverbs_attr *attr(struct request *r, unsigned id, unsigned len, uint64_t data)
{
	struct ib_uverbs_attr *a = &r->attrs[r->hdr.num_attrs++];

	a->attr_id = id;
	a->len = len;
	a->flags = MANDATORY;
	a->data = data;
	return a;
}

static long submit(struct request *r)
{
	if (!r->hdr.length)
		r->hdr.length = sizeof(r->hdr) + r->hdr.num_attrs * sizeof(r->attrs[0]);
	return ioctl(fd, RDMA_VERBS_IOCTL, r);
}

/* Every destroy of the ioctl form takes its handle as attribute 0, except those
 * that also report (CQ, QP, SRQ: attribute 1). */
static long destroy(unsigned object, unsigned method, uint32_t handle)
{
	struct request r = req(object, method);
	struct ib_uverbs_destroy_qp_resp resp[2];

	attr(&r, 0, 0, handle);
	if (object == UVERBS_OBJECT_CQ)
		attr(&r, 1, sizeof(struct ib_uverbs_destroy_cq_resp), (uintptr_t)resp);
	if (object == UVERBS_OBJECT_QP || object == UVERBS_OBJECT_SRQ)
		attr(&r, 1, 4, (uintptr_t)resp);
	return submit(&r);
}

/* ---- the form of requests ---- */

static void ioctl_form(struct ibv_pd *pd)
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
	(void)pd;
}

static void write_form(void)
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

static void handles(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
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

/* ---- objects ---- */

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
	ioctl_form(pd);
	write_form();
	handles(ctx, pd, cq);
	limits(ctx, pd, cq);
	states(pd, cq);
	busy(ctx);
	foreign(dev, pd);
	fresh(path);
	return 0;
}

/*
 * Flow rules of mlx5dv, by matchers. usage: flows DEVICE
 *
 * One raw packet queue pair sends, and two receive what their rules take. Each line is one call,
 * and what it returned, or who received a frame and with which tag.
 */
#include "qp.h"
#include <infiniband/mlx5dv.h>
#include <netinet/in.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#define SAY(what, n) printf("%s: %lld\n", what, (long long)(n))
#define MADE(what, call) (errno = 0, SAY(what, (call) ? 0 : errno))

enum { room = 2048, receives = 256, frame_size = 60, outer = 1, last = 99 };

/* struct mlx5_ifc_fte_match_param_bits up to its inner headers. */
struct fte {
	uint8_t src[6], type[2], dst[6], vlan[2];
	uint8_t proto, tos, bits, tcp_flags; /* bits: C-VLAN, S-VLAN, fragment, version (4), NS */
	uint8_t tcp_src[2], tcp_dst[2], other[3], ttl;
	uint8_t udp_src[2], udp_dst[2], src_ip[16], dst_ip[16];
	uint8_t misc[64];
};

struct parameters { /* struct mlx5dv_flow_match_parameters */
	size_t size;
	struct fte fte;
	uint8_t more[512];
};

struct queue {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *buf;
static struct queue sender, a, b;

static void receive(struct queue *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = room, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK("ibv_post_recv", !ibv_post_recv(q->qp, &wr, &bad));
}

static struct queue make_queue(void)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 2 * receives, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = receives, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct queue q;

	CHECK("ibv_create_cq_ex", q.cq = ibv_create_cq_ex(ctx, &cq));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(q.cq);
	CHECK("ibv_create_qp", q.qp = ibv_create_qp(pd, &init));
	CHECK("INIT", !ibv_modify_qp(q.qp, &to, IBV_QP_STATE | IBV_QP_PORT));
	for (to.qp_state = IBV_QPS_RTR; to.qp_state <= IBV_QPS_RTS; to.qp_state++)
		CHECK("RTS", !ibv_modify_qp(q.qp, &to, IBV_QP_STATE));
	for (int i = 0; i < receives; i++)
		receive(&q);
	return q;
}

/* next waits for a completion, and returns the tag of its frame. */
static int next(struct queue *q)
{
	struct ibv_poll_cq_attr none = {};
	int tag = 0;

	while (ibv_start_poll(q->cq, &none))
		;
	CHECK("completion", q->cq->status == IBV_WC_SUCCESS);
	if (ibv_wc_read_opcode(q->cq) == IBV_WC_RECV)
		tag = ibv_wc_read_flow_tag(q->cq);
	ibv_end_poll(q->cq);
	return tag;
}

static void post(const void *data)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf + room, .length = frame_size, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1}, *bad;

	memcpy(buf + room, data, frame_size);
	CHECK("ibv_post_send", !ibv_post_send(sender.qp, &wr, &bad));
	next(&sender);
}

/* Sends a frame, and then one that both queue pairs receive: frames do not pass each other. */
static void frame(const char *what, const void *data)
{
	static const char end[frame_size] = "\2\0\0\0\0\14\2\0\0\0\0\13\210\265";
	int tag;

	post(data);
	post(end);
	printf("%s:", what);
	while ((tag = next(&a)) != last)
		printf(" a %d", tag);
	while ((tag = next(&b)) != last)
		printf(" b %d", tag);
	puts("");
}

/* A frame of 60 bytes, to 02:00:00:00:00:0a, with an IPv4 packet to 10.0.0.2. */
static const char *ipv4(int proto, int port, int tcp_flags)
{
	static char f[frame_size];

	memset(f, 0, sizeof f);
	memcpy(f, "\2\0\0\0\0\12\2\0\0\0\0\13\10\0\105\0\0\56", 18);
	f[22] = 64;
	f[23] = proto;
	memcpy(f + 26, "\12\0\0\1\12\0\0\2", 8);
	f[36] = port >> 8;
	f[37] = port;
	f[46] = 0x50;
	f[47] = tcp_flags;
	if (proto == IPPROTO_UDP)
		f[39] = 26;
	return f;
}

static struct mlx5dv_flow_matcher *matcher(int priority, const struct fte *mask, size_t size, uint8_t criteria)
{
	struct parameters p = {.size = size, .fte = *mask};
	struct mlx5dv_flow_matcher_attr attr = {.type = IBV_FLOW_ATTR_NORMAL, .priority = priority, .match_criteria_enable = criteria,
		.match_mask = (void *)&p};

	errno = 0;
	return mlx5dv_create_flow_matcher(ctx, &attr);
}

static struct ibv_flow *flow(struct mlx5dv_flow_matcher *m, const struct fte *value, struct mlx5dv_flow_action_attr *actions, int n)
{
	struct parameters p = {.size = sizeof *value, .fte = *value};

	errno = 0;
	return mlx5dv_create_flow(m, (void *)&p, n, actions);
}

static struct ibv_flow *flow_to(struct mlx5dv_flow_matcher *m, const struct fte *value, struct ibv_qp *qp, int tag)
{
	struct mlx5dv_flow_action_attr actions[] = {{.type = MLX5DV_FLOW_ACTION_TAG, .tag_value = tag},
		{.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = qp}};

	return flow(m, value, actions, 2);
}

static void take_last(void)
{
	const struct fte mask = {.type = {255, 255}}, value = {.type = {0x88, 0xb5}};
	struct mlx5dv_flow_matcher *m = matcher(0, &mask, sizeof mask, outer);

	CHECK("the last frame", flow_to(m, &value, a.qp, last) && flow_to(m, &value, b.qp, last));
}

static void rules(void)
{
	const struct fte none = {};
	const struct fte udp_mask = {.proto = 255, .bits = 15 << 1, .udp_dst = {255, 255}, .dst_ip = {[12] = 255, 255, 255, 255}};
	const struct fte udp = {.proto = IPPROTO_UDP, .bits = 4 << 1, .udp_dst = {5000 >> 8, 5000 & 255}, .dst_ip = {[12] = 10, 0, 0, 2}};
	const struct fte syn = {.proto = 255, .tcp_flags = 2}, is_syn = {.proto = IPPROTO_TCP, .tcp_flags = 2};
	struct mlx5dv_flow_action_attr drop = {.type = MLX5DV_FLOW_ACTION_DROP}, miss = {.type = MLX5DV_FLOW_ACTION_DEFAULT_MISS};
	struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof all, .port = 1};
	struct mlx5dv_flow_matcher *m, *tcp, *any;
	struct ibv_flow *f, *g, *dropped, *missed, *rest;

	MADE("a matcher", m = matcher(1, &udp_mask, sizeof udp_mask, outer));
	frame("without a rule", ipv4(IPPROTO_UDP, 5000, 0));
	MADE("a flow", f = flow_to(m, &udp, a.qp, 7));
	frame("its frame", ipv4(IPPROTO_UDP, 5000, 0));
	frame("another port", ipv4(IPPROTO_UDP, 5001, 0));
	frame("TCP", ipv4(IPPROTO_TCP, 5000, 2));
	MADE("the same flow to another queue pair", g = flow_to(m, &udp, b.qp, 7));
	frame("its frame", ipv4(IPPROTO_UDP, 5000, 0));
	MADE("the same flow with another tag", flow_to(m, &udp, b.qp, 8));
	MADE("a matcher for SYN", tcp = matcher(0, &syn, 24, outer));
	MADE("drop", dropped = flow(tcp, &is_syn, &drop, 1));
	MADE("a matcher for all", any = matcher(15, &none, 1, 0));
	MADE("a flow", rest = flow_to(any, &none, b.qp, 0));
	frame("SYN", ipv4(IPPROTO_TCP, 1, 2));
	frame("RST", ipv4(IPPROTO_TCP, 1, 4));
	SAY("ibv_destroy_flow", ibv_destroy_flow(dropped));
	frame("SYN", ipv4(IPPROTO_TCP, 1, 2));
	MADE("default miss", missed = flow(tcp, &is_syn, &miss, 1));
	frame("SYN", ipv4(IPPROTO_TCP, 1, 2));
	CHECK("ibv_create_flow", ibv_create_flow(a.qp, &all));
	frame("SYN, with a default rule", ipv4(IPPROTO_TCP, 1, 2));
	frame("RST", ipv4(IPPROTO_TCP, 1, 4));

	SAY("mlx5dv_destroy_flow_matcher in use", mlx5dv_destroy_flow_matcher(m));
	SAY("ibv_destroy_qp in use", ibv_destroy_qp(b.qp));
	SAY("ibv_destroy_flow", ibv_destroy_flow(f));
	SAY("ibv_destroy_flow", ibv_destroy_flow(g));
	SAY("mlx5dv_destroy_flow_matcher", mlx5dv_destroy_flow_matcher(m));
	frame("its frame", ipv4(IPPROTO_UDP, 5000, 0));
	SAY("ibv_destroy_flow", ibv_destroy_flow(missed));
	SAY("ibv_destroy_flow", ibv_destroy_flow(rest));
	SAY("mlx5dv_destroy_flow_matcher", mlx5dv_destroy_flow_matcher(tcp) ?: mlx5dv_destroy_flow_matcher(any));
}

/* The root table of mlx5dv's own steering needs no DevX. */
static void root_table(void)
{
	const struct fte mask = {.dst = {[5] = 255}}, value = {.dst = {[5] = 10}};
	struct parameters m = {.size = sizeof mask, .fte = mask}, v = {.size = sizeof value, .fte = value};
	struct mlx5dv_dr_domain *domain = mlx5dv_dr_domain_create(ctx, MLX5DV_DR_DOMAIN_TYPE_NIC_RX);
	struct mlx5dv_dr_table *table = mlx5dv_dr_table_create(domain, 0);
	struct mlx5dv_dr_matcher *matcher;
	struct mlx5dv_dr_action *actions[] = {mlx5dv_dr_action_create_tag(9), mlx5dv_dr_action_create_dest_ibv_qp(b.qp)};
	struct mlx5dv_dr_rule *rule;

	MADE("mlx5dv_dr_matcher_create", matcher = mlx5dv_dr_matcher_create(table, 0, outer, (void *)&m));
	MADE("mlx5dv_dr_rule_create", rule = mlx5dv_dr_rule_create(matcher, (void *)&v, 2, actions));
	frame("its frame", ipv4(IPPROTO_UDP, 5000, 0));
	SAY("mlx5dv_dr_rule_destroy", mlx5dv_dr_rule_destroy(rule));
	SAY("mlx5dv_dr_matcher_destroy", mlx5dv_dr_matcher_destroy(matcher));
}

static int masked(const struct fte *mask, size_t size, uint8_t criteria)
{
	return matcher(0, mask, size, criteria) ? 0 : errno;
}

static int flowed(struct mlx5dv_flow_matcher *m, const struct fte *value, struct mlx5dv_flow_action_attr *actions, int n)
{
	return flow(m, value, actions, n) ? 0 : errno;
}

static void refusals(void)
{
	const struct fte none = {}, ips = {.src_ip = {[15] = 1}}, version = {.bits = 15 << 1, .src_ip = {[0] = 255}};
	const struct fte both = {.tcp_dst = {255, 255}, .udp_dst = {255, 255}}, dst = {.dst = {[5] = 255}};
	struct mlx5dv_flow_action_attr to = {.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = a.qp};
	struct mlx5dv_flow_action_attr large[] = {to, {.type = MLX5DV_FLOW_ACTION_TAG, .tag_value = 1 << 24}};
	struct ibv_qp_init_attr rc = {.qp_type = IBV_QPT_RC, .send_cq = ibv_cq_ex_to_cq(a.cq), .recv_cq = ibv_cq_ex_to_cq(a.cq),
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct parameters empty = {.size = 0};
	struct mlx5dv_flow_matcher_attr attr = {.match_mask = (void *)&empty, .comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE};
	struct mlx5dv_flow_matcher *m = matcher(0, &dst, sizeof dst, outer);

	SAY("an empty mask", masked(&none, 0, 0));
	SAY("a mask of 640 bytes", masked(&none, 640, 0));
	SAY("of 641", masked(&none, 641, 0));
	SAY("unknown criteria", masked(&none, sizeof none, 1 << 7));
	SAY("a mask without criteria", masked(&dst, sizeof dst, 0));
	SAY("checksums", masked(&(struct fte){.other = {0, 0, 1}}, sizeof none, outer));
	SAY("a part of the version", masked(&(struct fte){.bits = 1 << 1}, sizeof none, outer));
	SAY("a GRE key", masked(&(struct fte){.misc = {[16] = 1}}, sizeof none, 2));
	empty.size = 64;
	for (attr.ft_type = MLX5DV_FLOW_TABLE_TYPE_NIC_TX; attr.ft_type <= MLX5DV_FLOW_TABLE_TYPE_RDMA_RX; attr.ft_type++)
		MADE("another table", mlx5dv_create_flow_matcher(ctx, &attr));

	SAY("no action", flowed(m, &none, NULL, 0));
	SAY("a value outside the mask", flowed(m, &(struct fte){.dst = {[4] = 1}}, &to, 1));
	SAY("a large tag", flowed(m, &none, large, 2));
	CHECK("ibv_create_qp", to.qp = ibv_create_qp(pd, &rc));
	SAY("an RC queue pair", flowed(m, &none, &to, 1));
	to.qp = a.qp;
	SAY("addresses without a version", flowed(matcher(0, &ips, sizeof ips, outer), &none, &to, 1));
	m = matcher(0, &version, sizeof version, outer);
	SAY("IPv6", flowed(m, &(struct fte){.bits = 6 << 1, .src_ip = {1}}, &to, 1));
	SAY("IPv4, with 16 bytes", flowed(m, &(struct fte){.bits = 4 << 1}, &to, 1));
	SAY("IPv5", flowed(m, &(struct fte){.bits = 5 << 1}, &to, 1));
	SAY("TCP and UDP", flowed(matcher(0, &both, sizeof both, outer), &none, &to, 1));
	SAY("priority 16", flowed(matcher(16, &none, 1, 0), &none, &to, 1));
}

/* What libmlx5 never asks for. */
static int ask(uint16_t object, uint16_t method, struct ib_uverbs_attr *attrs, int n)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[8];
	} cmd = {.hdr = {.length = sizeof cmd.hdr + n * sizeof *attrs, .object_id = object, .method_id = method, .num_attrs = n,
		.driver_id = RDMA_DRIVER_MLX5}};

	memcpy(cmd.attrs, attrs, n * sizeof *attrs);
	if (ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return errno;
	attrs[0].data = cmd.attrs[0].data;
	return 0;
}

static void handles(void)
{
	const struct fte none = {};
	struct ib_uverbs_attr create[] = {
		{.attr_id = MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY},
		{.attr_id = MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, .len = sizeof none, .data = (uintptr_t)&none},
		{.attr_id = MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, .len = 2},
		{.attr_id = MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, .len = 1},
	};
	struct ib_uverbs_attr flow[] = {
		{.attr_id = MLX5_IB_ATTR_CREATE_FLOW_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY},
		{.attr_id = MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, .len = sizeof none, .data = (uintptr_t)&none},
		{.attr_id = MLX5_IB_ATTR_CREATE_FLOW_MATCHER},
		{.attr_id = MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, .data = a.qp->handle},
		{.attr_id = MLX5_IB_ATTR_CREATE_FLOW_FLAGS, .len = 4, .data = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP},
	};
	struct ib_uverbs_attr matcher = {.attr_id = MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE};
	struct ib_uverbs_attr made = {.attr_id = MLX5_IB_ATTR_DESTROY_FLOW_HANDLE};

	create[2].attr_data.enum_data.elem_id = MLX5_IB_FLOW_TYPE_SNIFFER;
	SAY("a matcher for sniffers", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, create, 4));
	create[2].attr_data.enum_data.elem_id = 0;
	SAY("no criteria", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, create, 3));
	create[1].data = 8;
	SAY("a mask in no memory", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, create, 4));
	create[1].data = (uintptr_t)&none;
	SAY("a matcher", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, create, 4));
	flow[2].data = matcher.data = create[0].data;
	SAY("a queue pair, and drop", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 5));
	flow[4].data = 4;
	SAY("an unknown flag", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 5));
	flow[3].data = 4711;
	SAY("no queue pair", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 4));
	flow[3].data = a.qp->handle;
	flow[2].data = 4711;
	SAY("no matcher", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 4));
	flow[2].data = pd->handle;
	SAY("a domain as a matcher", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 4));
	flow[2].data = matcher.data;
	SAY("a flow", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, flow, 4));
	made.data = flow[0].data;
	SAY("DESTROY_FLOW of the matcher", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, &matcher, 1));
	SAY("FLOW_MATCHER_DESTROY in use", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY, &matcher, 1));
	SAY("DESTROY_FLOW", ask(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, &made, 1));
	SAY("FLOW_MATCHER_DESTROY", ask(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY, &matcher, 1));
}

static void too_many(void)
{
	const struct fte mask = {.dst = {[3] = 255, 255, 255}};
	struct mlx5dv_flow_matcher *m = matcher(0, &mask, sizeof mask, outer);
	int n = 0;

	while (n < 10000 && flow_to(m, &(struct fte){.dst = {[3] = 1, n >> 8, n}}, a.qp, 0))
		n++;
	printf("more than 4000 flows: %d, then %d\n", n > 4000, errno);
}

int main(int argc, char **argv)
{
	CHECK("usage", argc == 2);
	ctx = open_device(argv[1]);
	CHECK("ibv_alloc_pd", pd = ibv_alloc_pd(ctx));
	CHECK("memory", buf = calloc(2, room));
	CHECK("ibv_reg_mr", mr = ibv_reg_mr(pd, buf, 2 * room, IBV_ACCESS_LOCAL_WRITE));
	sender = make_queue();
	a = make_queue();
	b = make_queue();
	take_last();
	rules();
	root_table();
	refusals();
	handles();
	too_many();
	return 0;
}

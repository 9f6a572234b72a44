/*
 * A raw packet queue pair whose queues the program itself writes and reads, as libvma does. It takes
 * queues in contiguous pages if there are any. usage: rawdv DEVICE N | rawdv echo N
 *
 * It sends N datagrams from 02:00:00:00:00:01, 10.88.0.1, to 02:00:00:00:00:02, 10.88.0.2, where
 * the other form is an ordinary socket that sends them back.
 */
#include "qp.h"
#include <arpa/inet.h>
#include <infiniband/mlx5dv.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>

enum { port = 4711, block = 64, room = 2048, headers = 42, inlined = 18, most_inline = 160 };

struct queues {
	struct mlx5dv_qp qp;
	struct mlx5dv_cq sends, receives;
	uint32_t qpn, lkey, posted, sent, received; /* posted in blocks */
	char *buf;
};

static int echo(int n)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)}, from;
	char buf[room];

	CHECK("bind", fd >= 0 && !bind(fd, (struct sockaddr *)&own, sizeof own));
	puts("listens");
	fflush(stdout);
	while (n--) {
		socklen_t len = sizeof from;
		int got = recvfrom(fd, buf, sizeof buf, 0, (struct sockaddr *)&from, &len);

		CHECK("recvfrom", got >= 0);
		CHECK("sendto", sendto(fd, buf, got, 0, (struct sockaddr *)&from, len) == got);
	}
	return 0;
}

static void check(struct mlx5_cqe64 *cqe, int opcode)
{
	int got = mlx5dv_get_cqe_opcode(cqe);

	if (got == opcode)
		return;
	if (got == MLX5_CQE_REQ_ERR || got == MLX5_CQE_RESP_ERR)
		fprintf(stderr, "syndrome %#x\n", ((struct mlx5_err_cqe *)cqe)->syndrome);
	fprintf(stderr, "completion of kind %d\n", got);
	exit(1);
}

static struct mlx5_cqe64 *next(struct mlx5dv_cq *cq, uint32_t *at)
{
	struct mlx5_cqe64 *cqe = (void *)((char *)cq->buf + (*at & (cq->cqe_cnt - 1)) * cq->cqe_size);

	while (*(volatile uint8_t *)&cqe->op_own >> 4 == MLX5_CQE_INVALID ||
	       (*(volatile uint8_t *)&cqe->op_own & 1) != !!(*at & cq->cqe_cnt))
		;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	cq->dbrec[0] = htobe32(++*at & 0xffffff);
	return cqe;
}

static void post_receive(struct queues *q, uint32_t at)
{
	uint32_t i = at & (q->qp.rq.wqe_cnt - 1);

	mlx5dv_set_data_seg((void *)((char *)q->qp.rq.buf + i * q->qp.rq.stride), room, q->lkey, (uintptr_t)q->buf + (1 + i) * room);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->qp.dbrec[MLX5_RCV_DBR] = htobe32((at + 1) & 0xffff);
}

/* Copies into the send queue, which is a ring. */
static void put(struct queues *q, uint32_t at, const void *from, uint32_t n)
{
	uint32_t size = q->qp.sq.wqe_cnt * block;

	for (uint32_t i = 0; i < n; i++)
		((char *)q->qp.sq.buf)[(at + i) % size] = ((const char *)from)[i];
}

static void send_frame(struct queues *q, char *frame, uint32_t n)
{
	struct mlx5_wqe_ctrl_seg ctrl = {};
	struct mlx5_wqe_eth_seg eth = {.cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM, .inline_hdr_sz = htobe16(inlined)};
	uint32_t at = q->posted * block, used = sizeof ctrl + sizeof eth;

	memcpy(eth.inline_hdr_start, frame, inlined);
	put(q, at + sizeof ctrl, &eth, sizeof eth);
	frame += inlined;
	n -= inlined;
	if (n <= most_inline) {
		uint32_t count = htobe32(n | MLX5_INLINE_SEG);

		put(q, at + used, &count, 4);
		put(q, at + used + 4, frame, n);
		used += 4 + n;
	} else {
		struct mlx5_wqe_data_seg data;

		mlx5dv_set_data_seg(&data, n, q->lkey, (uintptr_t)frame);
		put(q, at + used, &data, sizeof data);
		used += sizeof data;
	}
	mlx5dv_set_ctrl_seg(&ctrl, q->posted, MLX5_OPCODE_SEND, 0, q->qpn, MLX5_WQE_CTRL_CQ_UPDATE, (used + 15) / 16, 0, 0);
	put(q, at, &ctrl, sizeof ctrl);
	q->posted += (used + block - 1) / block;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->qp.dbrec[MLX5_SND_DBR] = htobe32(q->posted & 0xffff);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*(volatile uint64_t *)q->qp.bf.reg = *(uint64_t *)&ctrl;
}

static void steer(struct ibv_qp *qp)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ip;
		struct ibv_flow_spec_tcp_udp udp;
	} rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 3, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof rule.eth,
			.val = {.dst_mac = {2, 0, 0, 0, 0, 1}}, .mask = {.dst_mac = {255, 255, 255, 255, 255, 255}}},
		.ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof rule.ip,
			.val = {.dst_ip = inet_addr("10.88.0.1")}, .mask = {.dst_ip = 0xffffffff}},
		.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof rule.udp,
			.val = {.dst_port = htons(port)}, .mask = {.dst_port = 0xffff}},
	};

	CHECK("ibv_create_flow", ibv_create_flow(qp, &rule.attr));
}

static void set_up(struct queues *q, struct ibv_context *ctx)
{
	enum { receives = 256 };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *sent = ibv_create_cq(ctx, 127, NULL, NULL, 0), *received = ibv_create_cq(ctx, 2 * receives, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RAW_PACKET, .send_cq = sent, .recv_cq = received,
		.cap = {.max_send_wr = 16, .max_recv_wr = receives, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 204}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct mlx5dv_obj obj = {};

	CHECK("memory", q->buf = calloc(1 + receives, room));
	CHECK("ibv_reg_mr", mr = ibv_reg_mr(pd, q->buf, (1 + receives) * room, IBV_ACCESS_LOCAL_WRITE));
	CHECK("ibv_create_cq", sent && received);
	CHECK("ibv_create_qp", qp = ibv_create_qp(pd, &a));
	CHECK("INIT", !ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PORT));
	obj.qp.in = qp;
	obj.qp.out = &q->qp;
	CHECK("mlx5dv_init_obj", !mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	obj.cq.in = sent;
	obj.cq.out = &q->sends;
	CHECK("mlx5dv_init_obj", !mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	obj.cq.in = received;
	obj.cq.out = &q->receives;
	CHECK("mlx5dv_init_obj", !mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	q->qpn = qp->qp_num;
	q->lkey = mr->lkey;
	for (to.qp_state = IBV_QPS_RTR; to.qp_state <= IBV_QPS_RTS; to.qp_state++)
		CHECK("RTS", !ibv_modify_qp(qp, &to, IBV_QP_STATE));
	for (uint32_t i = 0; i < q->qp.rq.wqe_cnt; i++)
		post_receive(q, i);
	steer(qp);
}

int main(int argc, char **argv)
{
	struct queues q = {};
	int n, unchecked = 0;

	CHECK("usage", argc == 3);
	n = atoi(argv[2]);
	alarm(60);
	if (!strcmp(argv[1], "echo"))
		return echo(n);
	setenv("MLX_QP_ALLOC_TYPE", "PREFER_CONTIG", 1);
	setenv("MLX_CQ_ALLOC_TYPE", "PREFER_CONTIG", 1);
	set_up(&q, open_device(argv[1]));
	for (int i = 0; i < n; i++) {
		uint32_t size = 1 + i * 1471 / n;
		char *frame = q.buf, *back;
		struct iphdr ip = {.version = 4, .ihl = 5, .tot_len = htons(28 + size), .ttl = 64, .protocol = IPPROTO_UDP,
			.saddr = inet_addr("10.88.0.1"), .daddr = inet_addr("10.88.0.2")};
		struct udphdr udp = {.source = htons(port), .dest = htons(port), .len = htons(8 + size)};
		struct mlx5_cqe64 *cqe;

		memcpy(frame, "\2\0\0\0\0\2\2\0\0\0\0\1\10\0", 14);
		memcpy(frame + 14, &ip, sizeof ip);
		memcpy(frame + 34, &udp, sizeof udp);
		memset(frame + headers, 'a' + i % 26, size);
		send_frame(&q, frame, headers + size);
		check(next(&q.sends, &q.sent), MLX5_CQE_REQ);
		back = q.buf + (1 + (q.received & (q.qp.rq.wqe_cnt - 1))) * room;
		cqe = next(&q.receives, &q.received);
		check(cqe, MLX5_CQE_RESP_SEND);
		CHECK("length", be32toh(cqe->byte_cnt) >= headers + size);
		CHECK("payload", !memcmp(back + headers, frame + headers, size) && !memcmp(back + 26, &ip.daddr, 4));
		unchecked += (cqe->hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK)) != (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
		post_receive(&q, q.received + q.qp.rq.wqe_cnt - 1);
	}
	printf("%d datagrams came back, %d without checksums\n", n, unchecked);
	return 0;
}

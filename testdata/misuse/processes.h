/* Two processes, each with one queue pair. What they exchange goes through a socket. */
#include "rig.h"
#include <sys/socket.h>
#include <sys/wait.h>

struct mine {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static int to_other; /* a socket */

static void tell(const void *what, int n) { CHECK(write(to_other, what, n) == n); }
static void hear(void *what, int n) { CHECK(read(to_other, what, n) == n); }

/* other forks, and reports whether this is the child. */
static int other(void)
{
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	int child = fork();
	to_other = ends[child == 0];
	close(ends[child != 0]);
	return child == 0;
}

/* meet connects qp[0] to that of the other process, and returns what that says of itself. */
static __attribute__((unused)) struct mine meet(struct rig *r)
{
	int index = rig_gid(r->ctx);
	struct mine me = {.rkey = r->mr->rkey, .addr = (uintptr_t)r->buf}, you;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {4, 4, 1, 1}};

	CHECK(r->cq = init.send_cq = init.recv_cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0));
	CHECK(r->qp[0] = ibv_create_qp(r->pd, &init));
	CHECK(!ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	me.qpn = r->qp[0]->qp_num;
	tell(&me, sizeof(me));
	hear(&you, sizeof(you));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = you.qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = index, .hop_limit = 1}}};
	CHECK(!ibv_query_gid(r->ctx, 1, index, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC));
	tell("", 1);
	hear(&a, 1); /* both are ready */
	return you;
}

/* parted ends the child, or waits for it. */
static void parted(int child)
{
	int status;

	if (child)
		exit(0);
	CHECK(wait(&status) > 0 && status == 0);
}

/* Gives a queue pair the Q_Key of queue pair 1: with CAP_NET_RAW, from another network namespace, and without. */
#include "qp.h"
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void try(struct end *e, const char *who)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_UD, .send_cq = e->cq, .recv_cq = e->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x80010000};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	CHECK("ibv_create_qp", qp);
	errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	printf("%s: %s\n", who, errno ? errno == EPERM ? "EPERM" : strerror(errno) : "ok");
	CHECK("ibv_destroy_qp", !ibv_destroy_qp(qp));
}

int main(void)
{
	static char buf[64];
	struct end e = make_end(open_device("rxe0"), buf, sizeof(buf));
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	setvbuf(stdout, NULL, _IONBF, 0);
	try(&e, "root");
	if (fork() == 0) {
		CHECK("unshare", !unshare(CLONE_NEWNET));
		try(&e, "root of another network");
		return 0;
	}
	wait(NULL);
	if (fork() == 0) {
		CHECK("unshare", !unshare(CLONE_NEWUSER));
		try(&e, "root of another user namespace");
		return 0;
	}
	wait(NULL);
	CHECK("capget", !syscall(SYS_capget, &hdr, caps));
	caps[0].effective &= ~(1u << CAP_NET_RAW);
	CHECK("capset", !syscall(SYS_capset, &hdr, caps));
	try(&e, "without CAP_NET_RAW");
	return 0;
}

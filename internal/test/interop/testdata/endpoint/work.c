/* Work requests and their completions, one at a time. */
#include <endian.h>
#include <stdio.h>
#include <time.h>

#include "endpoint.h"

void do_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)place(), number("len", 0), region_argument()->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number("id", 99), .sg_list = &sge, .num_sge = sge.length > 0 }, *bad;
	struct ibv_qp *qp = qps[object("qp")];

	answer("ibv_post_recv", number("srq", 0) ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad));
}

void do_send(void)
{
	struct ibv_sge sge = { (uintptr_t)place(), number("len", 0), number("lkey", region_argument()->mr ? region_argument()->mr->lkey : 0) };
	struct ibv_send_wr wr = {
		.wr_id = number("id", 1), .sg_list = &sge, .num_sge = sge.length > 0,
		.opcode = number("op", IBV_WR_SEND), .send_flags = number("flags", IBV_SEND_SIGNALED),
	}, *bad;

	switch (wr.opcode) {
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		wr.invalidate_rkey = number("inv", 0);
		break;
	case IBV_WR_BIND_MW:
		wr.bind_mw.mw = mws[object("mw")];
		wr.bind_mw.rkey = number("rkey", 0);
		wr.bind_mw.bind_info = window();
		wr.num_sge = 0;
		break;
	default:
		wr.imm_data = htobe32(number("imm", 0));
	}
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = number("raddr", 0);
		wr.wr.atomic.rkey = number("rkey", 0);
		wr.wr.atomic.compare_add = number("add", 0);
		wr.wr.atomic.swap = number("swap", 0);
	} else if (value("ah")) {
		wr.wr.ud.ah = ahs[object("ah")];
		wr.wr.ud.remote_qpn = number("peer", 0);
		wr.wr.ud.remote_qkey = number("qkey", 0x11111111);
	} else {
		wr.wr.rdma.remote_addr = number("raddr", 0);
		wr.wr.rdma.rkey = number("rkey", 0);
	}
	answer("ibv_post_send", ibv_post_send(qps[object("qp")], &wr, &bad));
}

/* do_awrite posts an ATOMIC WRITE of 8 bytes, do_flush a FLUSH. */
void do_awrite(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(qps[object("qp")]);

	ibv_wr_start(qp);
	qp->wr_id = number("id", 1);
	qp->wr_flags = number("flags", IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, number("rkey", 0), number("raddr", 0), place());
	answer("ibv_wr_complete", ibv_wr_complete(qp));
}

void do_flush(void)
{
#ifdef HAVE_FLUSH
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(qps[object("qp")]);

	ibv_wr_start(qp);
	qp->wr_id = number("id", 1);
	qp->wr_flags = number("flags", IBV_SEND_SIGNALED);
	ibv_wr_flush(qp, number("rkey", 0), number("raddr", 0), number("len", 0), number("placement", 0), number("range", 0));
	answer("ibv_wr_complete", ibv_wr_complete(qp));
#else
	say("error this libibverbs has no FLUSH");
#endif
}

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* next waits for one completion; 0 if none comes in time. */
int next(struct ibv_wc *wc, double until)
{
	static const struct timespec pause = { 0, 50000 };
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)) && seconds() < until)
		nanosleep(&pause, NULL);
	return n;
}

/* do_poll answers with n completions, or fewer if they do not come in time. */
void do_poll(void)
{
	double until = seconds() + number("ms", 60000) / 1e3;
	int n = number("n", 1);
	struct ibv_wc wc;

	printf("ok");
	for (; n > 0 && next(&wc, until) > 0; n--) {
		unsigned flags = wc.status ? 0 : wc.wc_flags & ~IBV_WC_GRH;
		unsigned extra = flags & IBV_WC_WITH_IMM ? be32toh(wc.imm_data) : flags ? wc.invalidated_rkey : 0;

		printf(" wc=%llu:%d:%d:%u:%u:%u", (unsigned long long)wc.wr_id, wc.status,
		       wc.status ? 0 : (int)wc.opcode, wc.status ? 0 : wc.byte_len,
		       flags, extra);
	}
	say("");
}

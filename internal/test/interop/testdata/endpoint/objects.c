/* Queue pairs, and what else a work request names. */
#include <stdio.h>

#include "endpoint.h"

struct ibv_qp *qps[OBJECTS];
struct ibv_mw *mws[OBJECTS];
struct ibv_ah *ahs[OBJECTS];
struct ibv_srq *srq;

unsigned object(const char *name) { return number(name, 0) % OBJECTS; }

union ibv_gid gid_argument(const char *name)
{
	union ibv_gid gid = {};
	const char *text = value(name);
	int i;

	for (i = 0; text && i < 16; i++) {
		unsigned byte = 0;

		sscanf(text + 2 * i, "%2x", &byte);
		gid.raw[i] = byte;
	}
	return gid;
}

void do_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 2 } };

	srq = ibv_create_srq(pds[0], &attr);
	if (!srq)
		fails("ibv_create_srq", 0);
	else
		ok();
}

/*
 * create makes a queue pair. Operations that ibv_post_send does not know need an
 * extended one.
 */
static struct ibv_qp *create(struct ibv_qp_init_attr *init, uint64_t extended)
{
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = init->send_cq, .recv_cq = init->recv_cq, .qp_type = init->qp_type, .srq = init->srq,
		.cap = init->cap, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pds[0], .send_ops_flags = extended,
	};

	return extended ? ibv_create_qp_ex(ctx, &ex) : ibv_create_qp(pds[0], init);
}

/* do_qp makes a queue pair and takes it to INIT. */
void do_qp(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = types[number("type", 0) % 3],
		.srq = number("srq", 0) ? srq : NULL,
		.cap = { DEPTH, DEPTH, 2, 2, MAX_INLINE },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = number("access", 0), .qkey = number("qkey", 0x11111111),
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct ibv_qp *qp = create(&init, number("extended", 0));
	int error;

	if (!qp) {
		fails("ibv_create_qp", 0);
		return;
	}
	qps[object("qp")] = qp;
	mask |= init.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	error = ibv_modify_qp(qp, &attr, mask);
	if (error)
		fails("ibv_modify_qp INIT", error);
	else
		say("ok qpn=%u", qp->qp_num);
}

void do_connect(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = number("mtu", IBV_MTU_1024),
		.dest_qp_num = number("peer", 0),
		.rq_psn = number("rqpsn", 0),
		.max_dest_rd_atomic = number("rd", 4),
		.min_rnr_timer = number("rnrtimer", 10),
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid_argument("gid"), .sgid_index = gid_index, .hop_limit = 64 } },
		.sq_psn = number("sqpsn", 0),
		.max_rd_atomic = number("rd", 4),
		.timeout = number("timeout", 18), /* 1.07 s: an emulated machine pauses */
		.retry_cnt = number("retry", 7),
		.rnr_retry = number("rnr", 7),
	};
	int to_rtr = IBV_QP_STATE, to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	int error;

	if (qp->qp_type != IBV_QPT_UD)
		to_rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC) {
		to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	error = ibv_modify_qp(qp, &attr, to_rtr);
	if (error) {
		fails("ibv_modify_qp RTR", error);
		return;
	}
	attr.qp_state = IBV_QPS_RTS;
	answer("ibv_modify_qp RTS", ibv_modify_qp(qp, &attr, to_rts));
}

void do_modify(void)
{
	struct ibv_qp_attr attr = { .qp_state = number("state", IBV_QPS_ERR) };

	answer("ibv_modify_qp", ibv_modify_qp(qps[object("qp")], &attr, IBV_QP_STATE));
}

void do_state(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int error = ibv_query_qp(qps[object("qp")], &attr, IBV_QP_STATE, &init);

	if (error)
		fails("ibv_query_qp", error);
	else
		say("ok is=%d", attr.qp_state);
}

void do_destroy(void) { answer("ibv_destroy_qp", ibv_destroy_qp(qps[object("qp")])); }

void do_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = gid_argument("gid"), .sgid_index = gid_index, .hop_limit = 64 },
	};

	ahs[object("ah")] = ibv_create_ah(pds[0], &attr);
	if (!ahs[object("ah")])
		fails("ibv_create_ah", 0);
	else
		ok();
}

void do_join(void)
{
	union ibv_gid gid = gid_argument("gid");

	answer("ibv_attach_mcast", ibv_attach_mcast(qps[object("qp")], &gid, 0));
}

void do_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pds[0], number("type", IBV_MW_TYPE_2));

	mws[object("mw")] = mw;
	if (!mw)
		fails("ibv_alloc_mw", 0);
	else
		say("ok rkey=%u", mw->rkey);
}

struct ibv_mw_bind_info window(void)
{
	struct region *r = region_argument();

	return (struct ibv_mw_bind_info){ r->mr, (uintptr_t)r->at + number("off", 0), number("len", 0), number("access", 0) };
}

/* do_bind binds a window of type 1. Those of type 2 are work requests. */
void do_bind(void)
{
	struct ibv_mw *mw = mws[object("mw")];
	struct ibv_mw_bind bind = { .wr_id = number("id", 0), .send_flags = IBV_SEND_SIGNALED, .bind_info = window() };
	int error = ibv_bind_mw(qps[object("qp")], mw, &bind);

	if (error)
		fails("ibv_bind_mw", error);
	else
		say("ok rkey=%u", mw->rkey);
}

void do_port(void)
{
	struct ibv_port_attr attr;
	int error = ibv_query_port(ctx, 1, &attr);

	if (error)
		fails("ibv_query_port", error);
	else
		say("ok pkey=%u qkey=%u", attr.bad_pkey_cntr, attr.qkey_viol_cntr);
}

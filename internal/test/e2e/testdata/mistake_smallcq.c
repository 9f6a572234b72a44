/*
 * The mistake: the peer has answered, so the send has completed, and its completion can be polled.
 * So four sends that are not polled for need no room for four completions. They do: a completion
 * queue that is full is in error, and its queue pairs fail.
 */
#include "mistake.h"

enum { sends = 4 };

static int cqe_of(int right) { return right ? sends : sends - 1; }

static void alive(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK("ibv_query_qp", !ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	if (attr.qp_state != IBV_QPS_RTS)
		FAIL("the queue pair is in state %d", attr.qp_state);
}

static void run(int right)
{
	for (int i = 0; i < (right ? 1 : 5) * rounds; i++) {
		int left = sends;

		for (int k = 0; k < sends; k++) {
			post_receive(&a);
			post_receive(&b);
			post(&a, &b, IBV_WR_SEND, 1);
			await(b.receives);
			post(&b, &a, IBV_WR_SEND, 1);
			while (!completed(a.receives))
				alive();
			while (completed(a.sends))
				left--;
			await(b.sends);
		}
		while (left > 0) {
			left -= completed(a.sends);
			alive();
		}
	}
}

/*
 * The mistake: the send has completed, so the receive buffer has the message. Only the completion
 * of the receive says so.
 */
#include "mistake.h"

static int cqe_of(int right) { return 8; }

static void run(int right)
{
	for (int i = 1; i <= rounds; i++) {
		memset(a.buf, i, size);
		post_receive(&b);
		post(&a, &b, IBV_WR_SEND, size);
		await(a.sends);
		if (right)
			await(b.receives);
		expect(&b, i);
		if (!right)
			await(b.receives);
	}
}

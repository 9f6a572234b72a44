/*
 * The mistake: ibv_post_send has returned, so the buffer is free. It is free when the send has
 * completed.
 */
#include "mistake.h"

static int cqe_of(int right) { return 8; }

static void run(int right)
{
	for (int i = 1; i <= rounds; i++) {
		memset(a.buf, i, size);
		post_receive(&b);
		post(&a, &b, IBV_WR_SEND, size);
		if (right)
			await(a.sends);
		memset(a.buf, 0xff, size);
		await(b.receives);
		expect(&b, i);
		if (!right)
			await(a.sends);
	}
}

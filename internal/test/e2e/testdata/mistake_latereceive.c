/*
 * The mistake: the send has completed, so the peer has taken the message, and has posted the next
 * receive. It has when it says so. With rnr_retry 0 a message that comes before that is an error.
 */
#include "mistake.h"

static int cqe_of(int right) { return 8; }

static void run(int right)
{
	post_receive(&b);
	for (int i = 0; i < rounds; i++) {
		post(&a, &b, IBV_WR_SEND, 1);
		await(a.sends);
		if (right) {
			await(b.receives);
			post_receive(&b);
		} else if (completed(b.receives)) {
			post_receive(&b);
		}
	}
}

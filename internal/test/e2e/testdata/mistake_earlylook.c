/*
 * The mistake: a WRITE has completed at its sender, so its bytes are in the target's memory. The
 * acknowledgement says that the target's device has them. A READ behind the WRITE says that memory
 * has them.
 */
#include "mistake.h"

static int cqe_of(int right) { return 8; }

static void run(int right)
{
	for (int i = 1; i <= rounds; i++) {
		memset(a.buf, i, size);
		post(&a, &b, IBV_WR_RDMA_WRITE, size);
		await(a.sends);
		if (right) {
			post(&a, &b, IBV_WR_RDMA_READ, size);
			await(a.sends);
		}
		expect(&b, i);
	}
}

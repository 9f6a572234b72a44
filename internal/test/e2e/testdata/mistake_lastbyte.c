/*
 * The mistake: the last byte of a WRITE has arrived, so the others have. Only a completion at this
 * end says so, here that of a WRITE with immediate data.
 */
#include "mistake.h"

static int cqe_of(int right) { return 8; }

static void run(int right)
{
	for (int i = 1; i <= rounds; i++) {
		memset(a.buf, i, size);
		if (right) {
			post_receive(&b);
			post(&a, &b, IBV_WR_RDMA_WRITE_WITH_IMM, size);
			await(b.receives);
		} else {
			post(&a, &b, IBV_WR_RDMA_WRITE, size);
			while (((volatile unsigned char *)b.buf)[2 * size - 1] != i)
				;
		}
		expect(&b, i);
		await(a.sends);
	}
}

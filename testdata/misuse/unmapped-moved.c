/* unmapped: registered memory was moved by mremap. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *from;
	char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *there = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(from = ibv_reg_mr(r.pd, data, 4096, ALL)); /* LINE */
	rig_connect(&r);
	if (MISTAKE)
		CHECK(mremap(data, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, data, from->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(from));
	rig_end(&r);
	return 0;
}

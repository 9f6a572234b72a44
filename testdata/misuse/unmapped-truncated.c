/* unmapped: the file of registered memory was truncated. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	struct ibv_mr *from;
	int fd = memfd_create("data", 0);

	CHECK(!ftruncate(fd, 4096));
	char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(data, 1, 4096);
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(from = ibv_reg_mr(r.pd, data, 4096, ALL)); /* LINE */
	rig_connect(&r);
	if (MISTAKE)
		CHECK(!ftruncate(fd, 0));
	CHECK(!rig_post(&r, IBV_WR_RDMA_WRITE, data, from->lkey, 64, r.buf + 4096, r.mr->rkey, 0));
	rig_poll(&r);
	CHECK(!ibv_dereg_mr(from));
	rig_end(&r);
	return 0;
}

/*
 * One thread prepares what belongs to a message and posts it. Another one polls, and uses it. With an
 * argument, the first one changes it after the post, too.
 */
#include "../../../../../testdata/misuse/rig.h"
#include <pthread.h>

static struct rig r;
static int late;
static long belongs[2];

static void *post(void *unused)
{
	struct ibv_sge sge = {(uintptr_t)r.buf, 8, r.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uintptr_t)belongs, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	(void)unused;
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf + 64;
	wr.wr.rdma.rkey = r.mr->rkey;
	belongs[0] = 7;
	CHECK(!ibv_post_send(r.qp[0], &wr, &bad));
	if (late)
		belongs[1] = 8;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	struct ibv_wc wc;

	r = rig_make(1);
	late = argc > 1;
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!pthread_create(&thread, NULL, post, NULL));
	while (ibv_poll_cq(r.cq, 1, &wc) == 0)
		;
	long *p = (long *)(uintptr_t)wc.wr_id;
	printf("%s\n", p[0] == 7 && (p[1] == 0 || late) ? "right" : "wrong");
	CHECK(!pthread_join(thread, NULL));
	rig_end(&r);
	return 0;
}

/* send-buffer-changed: another thread changes a posted buffer. */
#include "rig.h"
#include <pthread.h>

static void *fill(void *buf)
{
	memset(buf, 1, 8);
	return NULL;
}

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	pthread_t thread;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 64, 0, 0, 0)); /* LINE */
	CHECK(!pthread_create(&thread, NULL, fill, MISTAKE ? r.buf : r.buf + 64));
	CHECK(!pthread_join(thread, NULL));
	rig_recv(&r, r.buf + 4096, r.mr->lkey, 64);
	rig_poll(&r);
	rig_poll(&r);
	rig_end(&r);
	return 0;
}

/*
 * As qperf: a signal whose handler lacks SA_RESTART ends ibv_req_notify_cq, and the program goes on
 * to the end without acknowledging the event that it has read.
 */
#include "../../../../testdata/misuse/rig.h"
#include <errno.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int sig)
{
	(void)sig;
	ticks++;
}

int main(int argc, char **argv)
{
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	struct sigaction act = {.sa_handler = tick};
	struct rig r = rig_make(argc);
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	void *unused;
	int err = 0;

	CHECK(channel = ibv_create_comp_channel(r.ctx));
	CHECK(r.recv_cq = ibv_create_cq(r.ctx, 4, NULL, channel, 0));
	CHECK(!ibv_req_notify_cq(r.recv_cq, 0));
	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!sigaction(SIGALRM, &act, NULL));
	while (!err && ticks < 10000) {
		rig_recv(&r, r.buf, r.mr->lkey, 64);
		CHECK(!rig_post(&r, IBV_WR_SEND, r.buf + 4096, r.mr->lkey, 8, 0, 0, 0));
		CHECK(!ibv_get_cq_event(channel, &cq, &unused));
		rig_poll(&r);
		rig_poll_of(cq);
		CHECK(!setitimer(ITIMER_REAL, &often, NULL));
		for (int i = 0; i < 100 && !err; i++)
			err = ibv_req_notify_cq(cq, 0);
		CHECK(!setitimer(ITIMER_REAL, &never, NULL));
		if (!err)
			ibv_ack_cq_events(cq, 1);
	}
	CHECK(err == EINTR);
	rig_end(&r);
	CHECK(!ibv_destroy_comp_channel(channel));
	puts("ended");
	return 0;
}

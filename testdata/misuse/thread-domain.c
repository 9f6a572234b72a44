/* thread-domain: two threads post to two queue pairs of one thread domain at the same time, without a lock. */
#include "rig.h"
#include <pthread.h>
#include <sched.h>

enum { POSTS = 30 };

static struct rig r;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int locked, arrived;

/* together waits until the other thread has come as far. */
static void together(int step)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * step)
		sched_yield();
}

static void *post(void *which)
{
	int i = which != NULL;

	for (int n = 1; n <= POSTS; n++) {
		together(2 * n - 1);
		if (locked)
			pthread_mutex_lock(&lock);
		CHECK(!rig_from(&r, i, IBV_WR_RDMA_WRITE, r.buf + i * 64, r.mr->lkey, 8, r.buf + 4096 + i * 64, r.mr->rkey, 0)); /* LINE */
		if (locked)
			pthread_mutex_unlock(&lock);
		CHECK(rig_poll(&r) == IBV_WC_SUCCESS); /* of either */
		together(2 * n);
	}
	return NULL;
}

static struct ibv_pd *domain(struct ibv_pd *pd, struct ibv_td **td)
{
	struct ibv_parent_domain_init_attr init = {.pd = pd};
	struct ibv_td_init_attr none = {};

	CHECK(*td = init.td = ibv_alloc_td(pd->context, &none));
	CHECK(pd = ibv_alloc_parent_domain(pd->context, &init));
	return pd;
}

/* threads has the two post, in one domain or each in its own. */
static void threads(int argc, int lone)
{
	struct ibv_td *td, *td2;
	struct ibv_pd *pd;
	pthread_t thread;

	arrived = 0;
	r = rig_make(argc);
	pd = r.pd;
	r.pd = domain(pd, &td);
	if (lone)
		r.pd2 = domain(pd, &td2);
	CHECK(r.mr = ibv_reg_mr(pd, r.buf, SIZE, ALL));
	rig_connect(&r);
	CHECK(!pthread_create(&thread, NULL, post, NULL));
	post(&r);
	CHECK(!pthread_join(thread, NULL));
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(r.qp[i]));
	CHECK(!ibv_dealloc_pd(r.pd));
	CHECK(!ibv_dealloc_td(td));
	if (lone) {
		CHECK(!ibv_dealloc_pd(r.pd2));
		CHECK(!ibv_dealloc_td(td2));
	}
	r.qp[0] = r.qp[1] = NULL;
	r.pd2 = NULL;
	r.pd = pd;
	rig_end(&r);
}

int main(int argc, char **argv)
{
	locked = argc > 1;
	threads(argc, 0);
	locked = 0;
	if (argc > 1)
		threads(argc, 1);
	return 0;
}

/*
 * A program that writes nonsense where an adapter looks. usage: mlx5hostile DEVICE ROUNDS
 *     [USERFAULTFD]
 *
 * USERFAULTFD is the device node of userfaultfd, for users who may not make the system call. In
 * each round each attack has a process of its own, and a queue pair that is connected to itself.
 * The program prints how often each attack had the effect that it has on an adapter, and fails if
 * one never had.
 */
#include "qp.h"
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef USERFAULTFD_IOC_NEW /* before Linux 6.1 */
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

enum { size = 4096, page = 4096, refused = 42 };

static char buf[size] __attribute__((aligned(4096)));
static const char *node; /* of userfaultfd */

/* An end and where libmlx5 has its queues. */
struct victim {
	struct end e;
	struct address self;
	struct mlx5dv_qp qp;
	struct mlx5dv_cq cq;
};

static struct victim victim(struct ibv_context *ctx)
{
	struct victim v = {.e = make_end(ctx, buf, size)};
	struct mlx5dv_obj obj = {.qp = {v.e.qp, &v.qp}, .cq = {v.e.cq, &v.cq}};

	v.self = address_of(&v.e);
	connect_to(&v.e, &v.self);
	CHECK("mlx5dv_init_obj", !mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ));
	return v;
}

/* fill writes random bytes. */
static void fill(void *p, size_t n)
{
	for (volatile char *at = p; n--; at++)
		*at = rand();
}

/* ring stores to both halves of the register what libmlx5 does: the start of a request. */
static void ring(struct victim *v)
{
	uint64_t word = htobe64((uint64_t)v->e.qp->qp_num << 8 | 4);

	__sync_synchronize();
	*(volatile uint64_t *)v->qp.bf.reg = word;
	*(volatile uint64_t *)((char *)v->qp.bf.reg + v->qp.bf.size) = word;
}

/* fails reports whether the queue pair gets into the error state. */
static int fails(struct victim *v)
{
	struct ibv_qp_attr a = {0};
	struct ibv_qp_init_attr init;

	for (int ms = 0; ms < 20000; ms++) {
		CHECK("ibv_query_qp", !ibv_query_qp(v->e.qp, &a, IBV_QP_STATE, &init));
		if (a.qp_state == IBV_QPS_ERR)
			return 1;
		usleep(1000);
	}
	return 0;
}

/* writes reports whether a WRITE succeeds. */
static int writes(struct victim *v)
{
	struct ibv_wc wc = {0};
	time_t end = time(NULL) + 20;

	CHECK("ibv_post_send", !post_write(&v->e, &v->self, 64));
	while (ibv_poll_cq(v->e.cq, 1, &wc) == 0 && time(NULL) < end)
		;
	return wc.status == IBV_WC_SUCCESS && wc.wr_id == 0 && wc.qp_num == v->e.qp->qp_num;
}

/* request: the send queue has random bytes, of which the last word says a length of nothing. */
static int request(struct victim *v)
{
	fill(v->qp.sq.buf, v->qp.sq.wqe_cnt * v->qp.sq.stride);
	((uint8_t *)v->qp.sq.buf)[7] = 0;
	v->qp.dbrec[MLX5_SND_DBR] = htobe32(1);
	ring(v);
	return fails(v);
}

/* backwards: the doorbell record takes back what it said. */
static int backwards(struct victim *v)
{
	int wrote = writes(v);

	v->qp.dbrec[MLX5_SND_DBR] = 0;
	ring(v);
	return wrote && fails(v);
}

/* ahead: it counts more requests than the queue holds. */
static int ahead(struct victim *v)
{
	v->qp.dbrec[MLX5_SND_DBR] = htobe32(v->qp.sq.wqe_cnt + 1);
	ring(v);
	return fails(v);
}

/* registers: nonsense in every register is a doorbell of nobody. The queue pair goes on. */
static int registers(struct victim *v)
{
	uint64_t *uar = (uint64_t *)((uintptr_t)v->qp.bf.reg & -(uintptr_t)page);

	for (int n = 0; n < 1000; n++)
		*(volatile uint64_t *)&uar[rand() % (page / 8)] = rand();
	return writes(v);
}

/* owners: completions whose owner bits and contents the program changes are the program's harm. */
static int owners(struct victim *v)
{
	int wrote = writes(v);

	for (int n = 0; n < 1000; n++) {
		fill(v->cq.buf, v->cq.cqe_cnt * v->cq.cqe_size);
		v->cq.dbrec[rand() % 2] = rand();
		if (n % 50 == 0)
			post_write(&v->e, &v->self, 64);
	}
	return wrote;
}

/* everything: all at once, while the device works. */
static int everything(struct victim *v)
{
	int wrote = writes(v);

	for (int n = 0; n < 2000; n++) {
		if (n % 10 == 0)
			post_write(&v->e, &v->self, 64);
		fill((char *)v->qp.sq.buf + rand() % v->qp.sq.wqe_cnt * v->qp.sq.stride, v->qp.sq.stride);
		fill((char *)v->cq.buf + rand() % v->cq.cqe_cnt * v->cq.cqe_size, v->cq.cqe_size);
		fill((void *)v->qp.dbrec, 8);
		ring(v);
	}
	return wrote;
}

/* queue returns the pages that hold the start of the send queue, and no memory of the C library. */
static void *queue(struct victim *v)
{
	return (void *)((uintptr_t)v->qp.sq.buf & -(uintptr_t)page);
}

/* unmapped: the send queue is no memory. */
static int unmapped(struct victim *v)
{
	CHECK("mmap", mmap(queue(v), page, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	v->qp.dbrec[MLX5_SND_DBR] = htobe32(1);
	ring(v);
	return fails(v);
}

/* unanswered: nobody supplies the page of the send queue. The process is killed while the device
 * waits for it. */
static int unanswered(struct victim *v)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC), file = fd < 0 && node ? open(node, O_RDWR | O_CLOEXEC) : -1;
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(uintptr_t)queue(v), page}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct pollfd wanted = {.events = POLLIN};

	if (file >= 0)
		fd = ioctl(file, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	if (fd < 0)
		_exit(refused);
	wanted.fd = fd;
	CHECK("mmap", mmap(queue(v), page, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	CHECK("UFFDIO_API", !ioctl(fd, UFFDIO_API, &api));
	CHECK("UFFDIO_REGISTER", !ioctl(fd, UFFDIO_REGISTER, &reg));
	v->qp.dbrec[MLX5_SND_DBR] = htobe32(1);
	ring(v);
	CHECK("the device's access", poll(&wanted, 1, 20000) == 1 || fails(v));
	raise(SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*attack)(struct victim *);
	} attacks[] = {
		{"request", request}, {"backwards", backwards}, {"ahead", ahead}, {"registers", registers}, {"owners", owners},
		{"everything", everything}, {"unmapped", unmapped}, {"unanswered", unanswered},
	};
	int failed = 0;

	CHECK("usage: mlx5hostile DEVICE ROUNDS [USERFAULTFD]", argc == 3 || argc == 4);
	node = argv[3];
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		int effects = 0, refusals = 0;

		for (int n = 0; n < atoi(argv[2]); n++) {
			pid_t pid = fork();
			int status;

			if (pid == 0) {
				srand(n);
				struct victim v = victim(open_device(argv[1]));
				_exit(!attacks[i].attack(&v));
			}
			CHECK("waitpid", pid > 0 && waitpid(pid, &status, 0) == pid);
			effects += (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
				(attacks[i].attack == unanswered && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			refusals += WIFEXITED(status) && WEXITSTATUS(status) == refused;
		}
		if (refusals)
			printf("%s: refused\n", attacks[i].name);
		else
			printf("%s: %d\n", attacks[i].name, effects);
		failed += effects + refusals == 0;
	}
	return failed;
}

/*
 * What a program may do with the numbers of its descriptors. Prints "ok" if all is well.
 * usage: descriptors selectable | beside | lowered | again N | devices N
 */
#define _FORTIFY_SOURCE 2
#define _GNU_SOURCE
#include "qp.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>

/* waited makes each kind of descriptor for which programs wait, and waits for all with select. */
static void waited(struct ibv_context *ctx)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct ibv_comp_channel *completions = ibv_create_comp_channel(ctx);
	struct timeval now = {0};
	fd_set set;
	int top = 0;

	CHECK("rdma_create_event_channel", events);
	CHECK("ibv_create_comp_channel", completions);
	int fds[] = {events->fd, completions->fd, ctx->async_fd, rsocket(AF_INET, SOCK_STREAM, 0), rsocket(AF_INET, SOCK_STREAM, 0)};

	FD_ZERO(&set);
	for (int i = 0; i < 5; i++) {
		if (fds[i] < 0 || fds[i] >= FD_SETSIZE) {
			printf("descriptor %d of 5 is %d\n", i + 1, fds[i]);
			exit(1);
		}
		FD_SET(fds[i], &set);
		top = fds[i] > top ? fds[i] : top;
	}
	CHECK("select", select(top + 1, &set, NULL, NULL, &now) == 0);
	rdma_destroy_event_channel(events);
	CHECK("ibv_destroy_comp_channel", !ibv_destroy_comp_channel(completions));
}

static ino_t inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* beside uses most of the low numbers itself, and finds its own files there afterwards. */
static void beside(void)
{
	int own[2], moved;

	CHECK("pipe", !pipe(own));
	for (int fd = 10; fd < 1000; fd++)
		CHECK("dup2", dup2(own[0], fd) == fd);
	struct ibv_context *ctx = open_device("rxe0");
	struct rdma_event_channel *events[40];
	for (int i = 0; i < 40; i++)
		CHECK("rdma_create_event_channel", (events[i] = rdma_create_event_channel()));
	for (int fd = 10; fd < 1000; fd++)
		CHECK("an own descriptor was replaced", inode(fd) == inode(own[0]));
	CHECK("write", write(own[1], "x", 1) == 1);
	char c = 0;
	CHECK("read from an own descriptor", read(500, &c, 1) == 1 && c == 'x');
	CHECK("ibv_alloc_pd", ibv_alloc_pd(ctx));
	/* F_DUPFD does not go below its argument, and refuses the limit. */
	CHECK("F_DUPFD", (moved = fcntl(events[0]->fd, F_DUPFD_CLOEXEC, 1010)) >= 1010);
	CHECK("F_DUPFD at the limit", fcntl(events[0]->fd, F_DUPFD, RLIM_INFINITY) < 0 && errno == EINVAL);
	close(moved);
}

/* limit sets the soft limit, as a shell's ulimit -Sn does. */
static void limit(rlim_t n)
{
	struct rlimit r;

	CHECK("getrlimit", !getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = n < r.rlim_max ? n : r.rlim_max;
	CHECK("setrlimit", !setrlimit(RLIMIT_NOFILE, &r));
}

/* lowered changes its limit, down and up. */
static void lowered(void)
{
	static const rlim_t limits[] = {4096, 300, 2000, 200, RLIM_INFINITY};

	for (int i = 0; i < 5; i++) {
		limit(limits[i]);
		struct ibv_context *ctx = open_device("rxe0");
		waited(ctx);
		ibv_close_device(ctx);
	}
}

/* again makes n completion channels and destroys them, n event channels, and n / 2 open devices,
 * several times. The completion channels are of two contexts in turn. */
static void again(int n)
{
	struct ibv_context *ctx[2] = {open_device("rxe0"), open_device("rxe0")};
	struct ibv_comp_channel **made = calloc(n, sizeof *made);
	struct rdma_event_channel **events = calloc(n, sizeof *events);
	struct ibv_context **opened = calloc(n / 2, sizeof *opened);

	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < n; i++)
			CHECK("ibv_create_comp_channel", (made[i] = ibv_create_comp_channel(ctx[round % 2])));
		for (int i = 0; i < n; i++)
			CHECK("ibv_destroy_comp_channel", !ibv_destroy_comp_channel(made[i]));
		for (int i = 0; i < n; i++)
			CHECK("rdma_create_event_channel", (events[i] = rdma_create_event_channel()));
		for (int i = 0; i < n; i++)
			rdma_destroy_event_channel(events[i]);
		for (int i = 0; i < n / 2; i++)
			CHECK("ibv_open_device", (opened[i] = open_device("rxe0")));
		for (int i = 0; i < n / 2; i++)
			CHECK("ibv_close_device", !ibv_close_device(opened[i]));
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "selectable"))
		waited(open_device("rxe0"));
	else if (!strcmp(what, "beside"))
		beside();
	else if (!strcmp(what, "lowered"))
		lowered();
	else if (!strcmp(what, "again"))
		again(atoi(argv[2]));
	else
		for (int i = 0; i < atoi(argv[2]); i++)
			CHECK("ibv_alloc_pd", ibv_alloc_pd(open_device("rxe0")));
	puts("ok");
	return 0;
}

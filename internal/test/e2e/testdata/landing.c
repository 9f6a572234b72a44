/*
 * Remote WRITEs land in a program while it forks or execs, and must not land in
 * what comes out of that. usage: landing DEVICE fork|exec ROUNDS
 *
 * A writer WRITEs 0xaa to one address for ever. The target has its buffer there,
 * forks or execs, and the new process puts memory of its own, filled with 0x55,
 * at the same address and watches it. After an exec the writer has to see an
 * error; after a fork it goes on writing to the parent, and nothing else.
 */
#include "qp.h"
#include <signal.h>
#include <sys/wait.h>

static void *const place = (void *)0x100000000;
static const size_t size = 65536;
static const unsigned char theirs_byte = 0xaa, own_byte = 0x55;

static int any(const volatile unsigned char *p, unsigned char byte)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] == byte)
			return 1;
	return 0;
}

static void *map_place(void)
{
	void *p = mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK("mmap", p == place);
	return p;
}

/* The new process: one byte on fd 3 for every pass without a trespass. */
static int watch(int fd)
{
	for (int pass = 0; pass < 200; pass++)
		if (any(place, theirs_byte)) {
			fprintf(stderr, "a remote WRITE landed in another program\n");
			return 1;
		}
	return write(fd, "w", 1) == 1 ? 0 : 1;
}

static void target(const char *device, const char *how, int in, int out)
{
	volatile unsigned char *buf = map_place();
	struct end e = make_end(open_device(device), place, size);
	struct address mine = address_of(&e), peer;
	char arg[16];

	CHECK("pipe", write(out, &mine, sizeof(mine)) == sizeof(mine));
	CHECK("pipe", read(in, &peer, sizeof(peer)) == sizeof(peer));
	connect_to(&e, &peer);
	CHECK("pipe", write(out, "!", 1) == 1);
	while (!any(buf, theirs_byte)) /* WRITEs land */
		;
	if (!strcmp(how, "exec")) {
		snprintf(arg, sizeof(arg), "%d", out);
		execl("/proc/self/exe", "landing", "watch", arg, NULL);
		CHECK("exec", 0);
	}
	pid_t child = fork();
	if (child == 0) {
		memset(place, own_byte, size);
		_exit(watch(out));
	}
	int status;
	CHECK("waitpid", waitpid(child, &status, 0) == child);
	memset(place, own_byte, size);
	while (!any(buf, theirs_byte)) /* they still land here */
		;
	exit(status ? 1 : 0);
}

static int one_round(const char *device, const char *how)
{
	int in[2], out[2], status;
	char byte;
	struct address peer, mine;
	struct ibv_wc wc;

	CHECK("pipe", !pipe(in) && !pipe(out));
	pid_t child = fork();
	if (child == 0)
		target(device, how, in[0], out[1]);
	close(out[1]);
	void *buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(buf, theirs_byte, size);
	struct ibv_context *ctx = open_device(device);
	struct end e = make_end(ctx, buf, size);
	mine = address_of(&e);
	CHECK("the target's address", read(out[0], &peer, sizeof(peer)) == sizeof(peer));
	CHECK("pipe", write(in[1], &mine, sizeof(mine)) == sizeof(mine));
	CHECK("the target's answer", read(out[0], &byte, 1) == 1);
	connect_to(&e, &peer);
	for (int posted = 0, failed = 0; !failed;) {
		if (posted < 8) {
			failed = post_write(&e, &peer, size);
			posted++;
			continue;
		}
		int n = ibv_poll_cq(e.cq, 1, &wc);
		CHECK("ibv_poll_cq", n >= 0);
		if (n && wc.status != IBV_WC_SUCCESS)
			failed = 1;
		posted -= n;
	}
	CHECK("waitpid", waitpid(child, &status, 0) == child);
	if (read(out[0], &byte, 1) != 1 || status) {
		fprintf(stderr, "%s: the new process ended with status %#x\n", how, status);
		return 1;
	}
	ibv_destroy_qp(e.qp);
	ibv_dereg_mr(e.mr);
	ibv_destroy_cq(e.cq);
	ibv_dealloc_pd(e.pd);
	ibv_close_device(ctx);
	munmap(buf, size);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "watch")) {
		memset(map_place(), own_byte, size);
		return watch(atoi(argv[2]));
	}
	CHECK("usage: landing DEVICE fork|exec ROUNDS", argc == 4);
	for (int i = 0; i < atoi(argv[3]); i++)
		if (one_round(argv[1], argv[2]))
			return 1;
	printf("ok\n");
	return 0;
}

/*
 * Preloaded into stock programs, to make their life harder.
 * E2E_TIMER=1: a signal every millisecond, as from a profiler, whose handler does
 * nothing and lets system calls fail with EINTR where they may.
 * E2E_WRITE_ABI=1: ioctl(RDMA_VERBS_IOCTL) fails as on a kernel before 4.20, so
 * that libibverbs falls back to write() commands.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int sig)
{
	(void)sig;
	ticks++;
}

__attribute__((constructor)) static void start_timer(void)
{
	struct sigaction sa = {.sa_handler = tick, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 1000}, {0, 1000}};

	if (!getenv("E2E_TIMER"))
		return;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, void *);
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (request == RDMA_VERBS_IOCTL && getenv("E2E_WRITE_ABI")) {
		errno = ENOTTY;
		return -1;
	}
	if (!next)
		next = (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, arg);
}

// Threads of this program hang while the device has them make a userfaultfd: the page with their
// code is gone, and nobody serves that fault. usage: hung THREADS
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// linux/userfaultfd.h, which musl does not have
enum { user_mode_only = 1, mode_missing = 1 };
static const unsigned long uffdio_api = 0xc018aa3f, uffdio_register = 0xc020aa00, uffdio_wake = 0x8010aa02, uffdio_copy = 0xc028aa03;

enum { page = 4096, most = 64 };

static int dev;

struct thread {
	unsigned char *code;
	volatile int tid;
};

// call makes a system call with the instruction of a page.
static long call(void *code, long number, long a, const void *b, long c)
{
	long r;

	__asm__ volatile("sub $128, %%rsp; call *%5; add $128, %%rsp"
			 : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(code) : "rcx", "r11", "memory");
	return r;
}

static void *lend(void *arg)
{
	struct thread *t = arg;
	char any[8] = {0};

	for (t->tid = syscall(SYS_gettid);;)
		call(t->code, SYS_write, dev, any, sizeof(any));
	return NULL;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int is_traced(int tid)
{
	char name[64], line[256];
	int tracer = 0;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", tid);
	FILE *f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "TracerPid: %d", &tracer) != 1)
		;
	if (f)
		fclose(f);
	return tracer != 0;
}

// hang takes the thread's code away again and again, until the thread hangs and is traced.
static void hang(int fd, struct thread *t)
{
	static unsigned char copy[page] __attribute__((aligned(page))) = "\x0f\x05\xc3"; // syscall; ret
	uint64_t source[5] = {(uintptr_t)t->code, (uintptr_t)copy, page}, range[2] = {(uintptr_t)t->code, page};
	char event[32];

	for (;;) {
		madvise(t->code, page, MADV_DONTNEED);
		for (int n = 0; n < 50; n++)
			if (read(fd, event, sizeof(event)) > 0 && is_traced(t->tid))
				return;
		source[3] = source[4] = 0;
		if (ioctl(fd, uffdio_copy, source))
			ioctl(fd, uffdio_wake, range);
		for (volatile int n = 0; n < 20000; n++)
			;
	}
}

int main(int argc, char **argv)
{
	static struct thread threads[most];
	int n = argc == 2 ? atoi(argv[1]) : 0, fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only);
	uint64_t api[3] = {0xaa};

	if (fd < 0 || ioctl(fd, uffdio_api, api))
		fail("userfaultfd");
	if ((dev = open("/dev/infiniband/uverbs0", O_RDWR)) < 0)
		fail("open");
	for (int i = 0; i < n && i < most; i++) {
		struct thread *t = &threads[i];
		pthread_t id;

		t->code = mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (t->code == MAP_FAILED)
			fail("mmap");
		uint64_t reg[4] = {(uintptr_t)t->code, page, mode_missing};
		if (ioctl(fd, uffdio_register, reg))
			fail("UFFDIO_REGISTER");
		if (pthread_create(&id, NULL, lend, t))
			fail("pthread_create");
		while (t->tid == 0)
			usleep(100);
		hang(fd, t);
	}
	pause();
}

/*
 * Attacks on the sanitizer by a program that it watches. usage: watched ATTACK DEVICE
 *
 * The sanitizer stops a program at its posts, and reads its stack and its memory. With each attack
 * there is something else then than there was. What the program gets does not matter, and neither
 * does how its processes end: other programs judge. It fails if the attack had no effect.
 */
#include "qp.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { size = 1 << 16, page = 4096, children = 3 };

static char buf[size] __attribute__((aligned(page)));
static const char *device;

static struct {
	int effects, refusals;
} *shared;

static void took_effect(int yes)
{
	if (yes)
		__atomic_add_fetch(&shared->effects, 1, __ATOMIC_RELAXED);
}

static void was_refused(void) { __atomic_add_fetch(&shared->refusals, 1, __ATOMIC_RELAXED); }

/* looped makes an end that is connected to itself. */
static struct end looped(void)
{
	struct end e = make_end(open_device(device), buf, size);
	struct address self = address_of(&e);

	connect_to(&e, &self);
	return e;
}

/* post posts a WRITE, and takes the completions that are there. */
static int post(struct end *e)
{
	struct address self = {.rkey = e->mr->rkey, .va = (uintptr_t)buf};
	struct ibv_wc wc[16];

	ibv_poll_cq(e->cq, 16, wc);
	return post_write(e, &self, 64);
}

/* child runs f in a process of its own, which has a second. */
static void child(void (*f)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(1);
		srand(getpid());
		f();
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void pause_a_little(void)
{
	struct timespec t = {0, rand() % 3000000};

	nanosleep(&t, NULL);
}

static void *poster(void *arg)
{
	for (int n = 0; n < 20000; n++)
		post(arg);
	return NULL;
}

static pthread_t start(void *(*f)(void *), void *arg)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN + 4 * page);
	if (pthread_create(&t, &a, f, arg))
		was_refused(), _exit(0);
	return t;
}

/* ring rings as librxe does, with a stack pointer of its own. With libmlx5 it is a wrong command. */
static long ring(struct end *e, uint64_t sp)
{
	static struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} db;
	long r = -ENOSYS;

	db.hdr = (struct ib_uverbs_cmd_hdr){IB_USER_VERBS_CMD_POST_SEND, sizeof(db) / 4, 1};
	db.cmd = (struct ib_uverbs_post_send){.response = (uintptr_t)buf, .qp_handle = e->qp->handle};
#ifdef __x86_64__
	register uint64_t other __asm__("r12") = sp;
	__asm__ volatile("xchg %%rsp, %1; syscall; xchg %%rsp, %1"
			 : "=a"(r), "+r"(other) : "0"(SYS_write), "D"(e->ctx->cmd_fd), "S"(&db), "d"(sizeof(db)) : "rcx", "r11", "memory");
#endif
	return r;
}

/* stacks: the stack is nowhere, at the end of memory, nearly over, or goes on for ever. */
static void stacks(void)
{
	struct end e = looped();
	char *three = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t odd[] = {0, 1, 8, -1, -8, -4096, 1ull << 47, (1ull << 47) - 8, 1ull << 63, (uintptr_t)buf, (uintptr_t)ring,
			  (uintptr_t)three + 2 * page - 8, (uintptr_t)three + page, (uintptr_t)three - 1};

	mprotect(three + 2 * page, page, PROT_NONE);
	for (size_t i = 0; i < 2 * page / 8; i++) /* each frame returns to this function */
		((uint64_t *)three)[i] = i % 2 ? (uintptr_t)post + 20 : (uintptr_t)&((uint64_t *)three)[i + 2];
	for (int n = 0; n < 60; n++) {
		post(&e);
		took_effect(ring(&e, odd[n % (sizeof(odd) / sizeof(odd[0]))]) != -ENOSYS);
	}
}

/* threads: very many post at once. */
static void threads(void)
{
	struct end e = looped();

	for (int n = 0; n < 500; n++) {
		start(poster, &e);
		took_effect(1);
	}
	poster(&e);
}

/* stops: the program is stopped and goes on, at any moment. */
static void stops(void)
{
	struct end e = looped();
	pid_t me = getpid();

	if (fork() == 0) {
		for (int n = 0; n < 100; n++) {
			took_effect(!kill(me, SIGSTOP));
			pause_a_little();
			kill(me, SIGCONT);
		}
		_exit(0);
	}
	for (int n = 0; n < 30; n++) {
		struct end again = looped(); /* its faults are borrowed again */
		for (int i = 0; i < 300; i++)
			post(i % 2 ? &again : &e);
		ibv_destroy_qp(again.qp);
		ibv_dereg_mr(again.mr);
		ibv_destroy_cq(again.cq);
		ibv_dealloc_pd(again.pd);
		ibv_close_device(again.ctx);
	}
}

/* leave: a thread ends the process, or executes another program, while others post and open. */
static void *opener(void *arg)
{
	(void)arg;
	while (ibv_alloc_pd(open_device(device)))
		;
	return NULL;
}

static void leave(void)
{
	struct end e = looped();

	start(poster, &e);
	start(opener, NULL);
	pause_a_little();
	took_effect(1);
	switch (rand() % 3) {
	case 0:
		execl("/proc/self/exe", "watched", NULL);
		break;
	case 1:
		syscall(SYS_exit_group, 0);
		break;
	default:
		raise(SIGKILL);
	}
}

/* places finds mappings by a word in their names, and calls f for each. */
static void places(const char *word, void (*f)(char *start, size_t n))
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	struct {
		char *start;
		size_t n;
	} found[64];
	int count = 0;

	while (maps && count < 64 && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		if (strstr(line, word) && sscanf(line, "%lx-%lx", &from, &to) == 2) {
			found[count].start = (char *)from;
			found[count++].n = to - from;
		}
	}
	if (maps)
		fclose(maps);
	while (count--)
		f(found[count].start, found[count].n);
}

/* replace puts something else at the pages of the device, while other threads use them. */
static void replace(char *start, size_t n)
{
	char *to = NULL;

	switch (rand() % 5) {
	case 0:
		took_effect(!munmap(start, n));
		break;
	case 1: /* other memory at the same place */
		took_effect(mmap(start, n, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
		break;
	case 2: /* the same memory at another place */
		to = mremap(start, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, start - (1l << 32));
		took_effect(to != MAP_FAILED);
		break;
	case 3:
		took_effect(!mprotect(start, n, PROT_NONE));
		break;
	default:
		took_effect(!madvise(start, n, MADV_DONTNEED));
	}
}

static void pages(void)
{
	struct end e = looped();

	start(poster, &e);
	pause_a_little();
	places("infiniband", replace); /* registers and queues */
	pause_a_little();
	places("[heap]", replace); /* libmlx5's doorbell records */
	pause_a_little();
}

/* limits: no room for descriptors, memory or stack, and nobody may look into the process. */
static void limits(void)
{
	struct rlimit none = {0, 0};
	struct end e = looped();

	took_effect(!setrlimit(RLIMIT_NOFILE, &none) && !setrlimit(RLIMIT_AS, &none) && !setrlimit(RLIMIT_STACK, &none) &&
		    !prctl(PR_SET_DUMPABLE, 0));
	for (int n = 0; n < 100; n++)
		post(&e);
	ibv_alloc_pd(e.ctx);
	ibv_create_cq(e.ctx, 1, NULL, NULL, 0);
	for (int n = 0; n < 100; n++)
		post(&e);
}

/* keep takes the userfaultfd that the device has a thread make, and uses it. */
static void *keep(void *arg)
{
	struct uffdio_range all = {(uintptr_t)buf, size};
	struct uffdio_register reg = {.range = all, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect wp = {.range = all, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	char name[64], to[64], events[32];

	for (; !arg;)
		for (int fd = 3; fd < 32; fd++) {
			snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
			ssize_t n = readlink(name, to, sizeof(to) - 1);
			if (n < 0 || strncmp(to, "anon_inode:[userfaultfd]", 24))
				continue;
			int own = rand() % 2 ? dup(fd) : dup2(open("/dev/null", O_RDWR), fd);
			took_effect(own >= 0);
			fcntl(own, F_SETFL, 0);
			ioctl(own, UFFDIO_REGISTER, &reg);
			ioctl(own, UFFDIO_WRITEPROTECT, &wp);
			places("infiniband", replace);
			fcntl(own, F_SETFL, O_NONBLOCK);
			for (int i = 0; i < 1000; i++)
				took_effect(read(own, events, sizeof(events)) > 0);
		}
	return NULL;
}

static void faults(void)
{
	start(keep, NULL);
	while (!__atomic_load_n(&shared->effects, __ATOMIC_RELAXED)) {
		struct end e = looped();
		for (int i = 0; i < 50; i++)
			post(&e);
	}
}

/* contexts: the device is opened, used and closed again and again. Half of it stays. */
static void contexts(void)
{
	for (int n = 0; n < 60; n++) {
		struct end e = looped();

		post(&e);
		if (n % 2) {
			ibv_destroy_qp(e.qp);
			ibv_dereg_mr(e.mr);
			ibv_destroy_cq(e.cq);
			ibv_dealloc_pd(e.pd);
			took_effect(!ibv_close_device(e.ctx));
		}
	}
}

/* forks: many processes, each with a device. */
static void forks(void)
{
	for (int n = 0; n < 40; n++)
		if (fork() == 0) {
			struct end e = looped();
			took_effect(!post(&e));
			for (int i = 0; i < 50; i++)
				post(&e);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
}

/* names: the report has what a terminal obeys, and a mistake. */
static void names(void)
{
	struct end e;
	struct address behind;

	prctl(PR_SET_NAME, "\033]0;x\a\n\233\xff");
	e = looped();
	behind = (struct address){.rkey = e.mr->rkey, .va = (uintptr_t)buf + size};
	took_effect(!post_write(&e, &behind, 64));
	usleep(10000);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*attack)(void);
	} attacks[] = {
		{"stacks", stacks}, {"threads", threads}, {"stops", stops}, {"leave", leave}, {"pages", pages}, {"limits", limits},
		{"faults", faults}, {"contexts", contexts}, {"forks", forks}, {"names", names},
	};

	if (argc == 1) /* executed by leave */
		return 0;
	CHECK("usage: watched ATTACK DEVICE", argc == 3);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK("mmap", shared != MAP_FAILED);
	device = argv[2];
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (strcmp(argv[1], attacks[i].name))
			continue;
		int rounds = attacks[i].attack == leave || attacks[i].attack == pages ? children : 1;
		/* A child has a second, in which a busy machine may not get to the attack: it gets more. */
		for (int n = 0; n < rounds || (n < 30 && !shared->effects && !shared->refusals); n++)
			child(attacks[i].attack);
		if (shared->effects)
			printf("attacked %d times\n", shared->effects);
		else if (shared->refusals)
			printf("refused\n");
		return !shared->effects && !shared->refusals;
	}
	fprintf(stderr, "no attack %s\n", argv[1]);
	return 1;
}

/*
 * Attacks on the daemon by a program under it. usage: hostile ATTACK ROUNDS
 *
 * An attack opens the device in a situation that confuses the process that answers its calls.
 * What the program gets does not matter, and neither does how it ends: other programs judge.
 * Each attack notes that it took effect. The program fails if none of the rounds did, and prints
 * "refused" if the kernel did not allow the attack.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[1 << 16];

/* What the attacks did, in all processes: how often one took effect, or was refused. */
static struct {
	int effects, refusals, failed;
} *shared;

static void took_effect(int yes)
{
	if (yes)
		__atomic_add_fetch(&shared->effects, 1, __ATOMIC_RELAXED);
}

static void was_refused(void) { __atomic_add_fetch(&shared->refusals, 1, __ATOMIC_RELAXED); }

/* use_device makes and uses what it can. */
static void use_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = ctx ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;

	if (pd)
		ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (pd && cq) {
		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
						.cap = {16, 16, 1, 1, 0}};
		ibv_create_qp(pd, &init);
	}
	/* the rest is the kernel's to clean up */
}

/* child runs f in a process of its own, which has a second. */
static void child(void (*f)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(1);
		f();
		_exit(0);
	}
	int status;

	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		was_refused();
}

static void open_files(void)
{
	static const char *const names[] = {
		"/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm", "/dev/infiniband",
		"/sys/class/infiniband", "/sys/class/infiniband/rxe0/ports/1/gids/0",
		"/sys/class/infiniband/rxe0/../../infiniband/rxe0/fw_ver", "infiniband/uverbs0", "uverbs0",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int fd = open(names[i], O_RDWR | O_CLOEXEC);
		if (fd < 0)
			fd = open(names[i], O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			char buf[64];
			if (read(fd, buf, sizeof(buf)) < 0 && ioctl(fd, 0xc0181b01, buf) < 0)
				errno = 0;
			close(fd);
		}
	}
}

/* ptrace: a tracer stops the program in its calls, changes some, and kills it within one. */
static void traced(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		use_device();
		_exit(0);
	}
#ifdef __x86_64__
	static const long harmless[] = {SYS_read, SYS_close, SYS_ioctl, SYS_getpid, SYS_openat, SYS_fstat};
#endif
	int stops = 20 + rand() % 2000;
	while (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (stops-- == 0)
			kill(pid, SIGKILL);
#ifdef __x86_64__
		if (stops % 97 == 0) /* the call's number becomes another's */
			took_effect(!ptrace(PTRACE_POKEUSER, pid, (void *)offsetof(struct user_regs_struct, orig_rax),
					    (void *)harmless[rand() % 6]));
#else
		took_effect(1);
#endif
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	}
}

/* replace_devices closes or replaces each descriptor that the device's process has installed. */
static void replace_devices(void)
{
	DIR *all = opendir("/proc/self/fd");

	for (struct dirent *e; all && (e = readdir(all));) {
		char to[64];
		ssize_t n = readlinkat(dirfd(all), e->d_name, to, sizeof(to) - 1);
		if (n < 0)
			continue;
		to[n] = 0;
		if (strstr(to, "uverbs") || strstr(to, "rdma_cm"))
			took_effect((rand() % 2 ? close(atoi(e->d_name)) : dup2(0, atoi(e->d_name))) >= 0);
	}
	if (all)
		closedir(all);
}

/* files: processes share the table of descriptors, but no memory, and one closes and replaces
 * what the other opens. */
static int replace(void *arg)
{
	(void)arg;
	for (int i = 0; i < 300; i++)
		replace_devices();
	_exit(0);
}

static void files(void)
{
	static char stack[1 << 16] __attribute__((aligned(16)));

	use_device(); /* so there is something to close */
	pid_t pid = clone(replace, stack + sizeof(stack), CLONE_FILES | SIGCHLD, NULL);
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
		use_device();
		open_files();
	}
}

/* limits: no room for descriptors, memory or files. */
static void limits(void)
{
	struct rlimit few = {4 + rand() % 8, 4096}, small = {64 << 20, 64 << 20}, none = {0, 0};
	int fd, last = 2;

	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_MEMLOCK, &none);
	setrlimit(RLIMIT_NOFILE, &few);
	setrlimit(RLIMIT_AS, &small);
	while ((fd = dup(0)) >= 0)
		last = fd;
	took_effect(errno == EMFILE && mlock(memory, sizeof(memory)) &&
		    mmap(NULL, small.rlim_cur, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	open_files();
	while (last > 2)
		close(last--);
	use_device();
	open_files();
}

static void undumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	took_effect(!prctl(PR_GET_DUMPABLE));
	use_device();
	open_files();
}

/* chroots, mounts: paths mean something else. */
static void chroots(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || chroot("/dev")) {
		was_refused();
		return;
	}
	took_effect(access("/null", F_OK) == 0);
	open_files();
	use_device();
}

static void mounts(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)) {
		was_refused();
		return;
	}
	mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	mount("none", "/sys", "tmpfs", 0, NULL);
	mount("none", "/proc", "tmpfs", 0, NULL);
	mount("none", "/dev", "tmpfs", 0, NULL);
	took_effect(access("/dev/null", F_OK) && access("/proc/self", F_OK));
	use_device();
	open_files();
	if (fork() == 0) { /* process 1 of another namespace */
		use_device();
		_exit(0);
	}
	wait(NULL);
}

/* filters: another filter refuses some of the calls, or asks for a listener of its own. */
static void filters(void)
{
	struct sock_filter refuse[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rand() % 2 ? SYS_ioctl : SYS_mmap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {4, refuse};

	int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	int busy = listener < 0 && errno == EBUSY; /* the kernel allows one, which is gorxe's */
	took_effect(busy && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
	use_device();
	open_files();
}

/* pids: processes end within their calls, and others get their numbers soon. */
static void pids(void)
{
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			open_files();
			use_device();
			_exit(0);
		}
		if (pid > 0 && i % 2)
			took_effect(!kill(pid, SIGKILL));
	}
	while (wait(NULL) > 0)
		;
}

/* reuse: a process ends within its calls, and the next process gets its number at once. That one
 * has nothing of the first, and can use the device. */
static void reuse(void)
{
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(1); /* if this program ends first */
			for (;;) {
				use_device();
				open_files();
			}
		}
		usleep(rand() % 30000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		usleep(2000); /* the daemon trusts a number for a millisecond */
		struct clone_args again = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
		pid_t second = syscall(SYS_clone3, &again, sizeof(again));
		if (second == 0) {
			alarm(5);
			struct ibv_device **list = ibv_get_device_list(NULL);
			struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
			struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
			if (!pd || !ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)) {
				fprintf(stderr, "process number %d, used again: %s\n", pid, strerror(errno));
				_exit(1);
			}
			_exit(0);
		}
		int status = 0;

		if (second < 0)
			was_refused(); /* only root, and the number may be taken */
		else if (waitpid(second, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status))
			__atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
		else
			took_effect(second == pid);
	}
}

/* ia32: calls of a 32-bit program. The filter does not trap them. */
static void ia32(void)
{
#ifdef __x86_64__
	char *name = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long fd;

	if (name == MAP_FAILED)
		return;
	strcpy(name, "/dev/infiniband/uverbs0");
	__asm__ volatile("int $0x80" : "=a"(fd) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	took_effect(fd == getpid()); /* without 32-bit calls in the kernel this was the end */
	__asm__ volatile("int $0x80" : "=a"(fd) : "a"(5), "b"(name), "c"(O_RDWR), "d"(0) : "memory", "r8", "r9", "r10", "r11");
	__asm__ volatile("int $0x80" : "=a"(fd) : "a"(54), "b"(3), "c"(0xc0181b01), "d"(name) : "memory", "r8", "r9", "r10", "r11");
#endif
	use_device();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*attack)(void);
	} attacks[] = {
		{"ptrace", traced}, {"files", files}, {"limits", limits}, {"undumpable", undumpable}, {"chroots", chroots},
		{"mounts", mounts}, {"filters", filters}, {"pids", pids}, {"reuse", reuse}, {"ia32", ia32},
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (size_t i = 0; argc == 3 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (strcmp(argv[1], attacks[i].name))
			continue;
		/* A child has a second, in which a busy machine may not get to the attack: it gets more. */
		for (int n = 0; n < atoi(argv[2]) || (n < 30 && !shared->effects && !shared->refusals); n++) {
			srand(n);
			child(attacks[i].attack);
		}
		if (shared->effects)
			printf("attacked %d times\n", shared->effects);
		else if (shared->refusals)
			printf("refused\n");
		else
			fprintf(stderr, "the attack %s has no effect\n", argv[1]);
		return shared->failed || (!shared->effects && !shared->refusals);
	}
	fprintf(stderr, "usage: hostile ATTACK ROUNDS\n");
	return 1;
}

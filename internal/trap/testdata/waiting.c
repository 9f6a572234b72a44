// Programs that use a pollable file whose calls may wait; the argument names one. Each
// prints nothing if all is well. The file has a queue of numbers, and these commands.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POST = 1, GET, WAITS, OPEN, HOLD, MISSED };

static const char *dev = "/dev/infiniband/gorxe-test";
static int failures;

static void check(const char *what, int ok)
{
	if (!ok) {
		printf("%s: %s\n", what, strerror(errno));
		failures++;
	}
}

struct command {
	uint32_t op, arg;
	uint64_t addr;
};

static int command(int fd, uint32_t op, uint32_t arg, uint32_t *result)
{
	struct command c = {op, arg, (uintptr_t)result};
	ssize_t n = write(fd, &c, sizeof c);
	if (n < 0)
		return -errno;
	return n == sizeof c ? 0 : -EIO;
}

static int post(int fd, uint32_t n) { return command(fd, POST, n, 0); }
static int get(int fd, uint32_t *n) { return command(fd, GET, 0, n); }

static uint32_t ask(int fd, uint32_t op)
{
	uint32_t n = 0;
	check("a question", command(fd, op, 0, &n) == 0);
	return n;
}

// until waits until the answer to a question is at least (or with OPEN, exactly) want.
static void until(int fd, uint32_t op, uint32_t want)
{
	for (;;) {
		uint32_t n = ask(fd, op);
		if (op == OPEN ? n == want : n >= want)
			return;
		poll(0, 0, 1);
	}
}

static int readable(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static int open_file(int flags)
{
	int fd = open(dev, O_RDWR | flags);
	check("open", fd >= 0);
	return fd;
}

// A waiter is a thread that makes one blocking call.
struct waiter {
	pthread_t thread;
	volatile int tid;
	int fd, err;
	uint32_t got;
};

static void *wait_for(void *arg)
{
	struct waiter *w = arg;
	w->tid = syscall(SYS_gettid);
	w->err = get(w->fd, &w->got);
	return 0;
}

static void begin(struct waiter *w, int fd)
{
	w->fd = fd, w->err = 1, w->got = 0, w->tid = 0;
	check("pthread_create", pthread_create(&w->thread, 0, wait_for, w) == 0);
}

// sleeps waits until the thread is in its call. WAITS does not tell: a call that is made
// again counts twice.
static void sleeps(struct waiter *w)
{
	char path[64], text[64];
	long call, fd;
	for (;; poll(0, 0, 1)) {
		snprintf(path, sizeof path, "/proc/self/task/%d/syscall", w->tid);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		int in_call = fgets(text, sizeof text, f) && sscanf(text, "%ld %lx", &call, &fd) == 2 &&
			call == SYS_write && fd == w->fd;
		fclose(f);
		if (in_call)
			return;
	}
}

static volatile sig_atomic_t handled;
static void handler(int sig) { (void)sig, handled++; }

static void handle(int sig, int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	check("sigaction", sigaction(sig, &a, 0) == 0);
}

static void mask(int how, int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	check("pthread_sigmask", pthread_sigmask(how, &set, 0) == 0);
}

static void test_poll(void)
{
	int fd = open_file(0), ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	uint32_t n = 0;
	check("epoll_ctl", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
	check("poll of nothing", !readable(fd));
	for (int i = 1; i <= 2; i++) {
		check("post", post(fd, 40 + i) == 0);
		check("poll", readable(fd));
		check("an edge for each", epoll_wait(ep, &e, 1, 0) == 1);
		check("and no more", epoll_wait(ep, &e, 1, 0) == 0);
	}
	fd_set set;
	struct timeval now = {0, 0};
	FD_ZERO(&set);
	if (fd < FD_SETSIZE) {
		FD_SET(fd, &set);
		check("select", select(fd + 1, &set, 0, 0, &now) == 1);
	}
	check("get", get(fd, &n) == 0 && n == 41);
	check("poll with one left", readable(fd));
	check("get", get(fd, &n) == 0 && n == 42);
	check("poll of nothing left", !readable(fd));
	check("get to nowhere", post(fd, 43) == 0 && get(fd, (void *)8) == -EFAULT);
	check("and still there", readable(fd) && get(fd, &n) == 0 && n == 43);
	struct command c = {GET, 0, (uintptr_t)&n};
	struct iovec v = {&c, sizeof c};
	check("writev", post(fd, 44) == 0 && writev(fd, &v, 1) == sizeof c && n == 44);
	check("read", read(fd, &n, 4) == -1 && errno == EINVAL);
	check("a wrong command", command(fd, 99, 0, 0) == -EINVAL);
}

static void test_block(void)
{
	int fd = open_file(0);
	struct waiter w[2];
	begin(&w[0], fd);
	begin(&w[1], fd);
	until(fd, WAITS, 2);
	check("post", post(fd, 7) == 0 && post(fd, 8) == 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(w[i].thread, 0);
		check("a waiting call", w[i].err == 0);
	}
	check("each event goes to one", w[0].got + w[1].got == 15 && w[0].got != w[1].got);
	check("poll of nothing left", !readable(fd));
}

// Signals whose handlers lack SA_RESTART.
static void test_eintr(void)
{
	int fd = open_file(0);
	uint32_t n = 0;
	struct waiter w;
	handle(SIGUSR1, 0);
	begin(&w, fd);
	until(fd, WAITS, 1);
	pthread_kill(w.thread, SIGUSR1);
	pthread_join(w.thread, 0);
	check("interrupted", w.err == -EINTR && handled == 1);
	check("an event afterwards is not lost", post(fd, 3) == 0 && get(fd, &n) == 0 && n == 3);
	// The first thread, with a signal for the process.
	handle(SIGALRM, 0);
	struct itimerval it = {{0, 0}, {0, 30000}};
	setitimer(ITIMER_REAL, &it, 0);
	check("interrupted by a timer", get(fd, &n) == -EINTR && handled == 2);
	// Another thread, with a signal for the process that the first one blocks.
	begin(&w, fd);
	mask(SIG_BLOCK, SIGUSR1);
	until(fd, WAITS, 3);
	sleeps(&w);
	kill(getpid(), SIGUSR1);
	pthread_join(w.thread, 0);
	check("interrupted by kill", w.err == -EINTR && handled == 3);
	// A signal that is blocked does not interrupt.
	begin(&w, fd); // it inherits the mask
	until(fd, WAITS, 4);
	sleeps(&w);
	pthread_kill(w.thread, SIGUSR1);
	kill(getpid(), SIGUSR1);
	poll(0, 0, 200);
	check("post", post(fd, 4) == 0);
	pthread_join(w.thread, 0);
	check("not interrupted", w.err == 0 && w.got == 4 && handled == 3);
}

static void test_restart(void)
{
	int fd = open_file(0);
	uint32_t n = 0;
	struct waiter w;
	handle(SIGUSR1, SA_RESTART);
	begin(&w, fd);
	for (int i = 1; i <= 3; i++) {
		until(fd, WAITS, i);
		pthread_kill(w.thread, SIGUSR1);
	}
	until(fd, WAITS, 4);
	check("handled", handled == 3);
	check("post", post(fd, 5) == 0);
	pthread_join(w.thread, 0);
	check("restarted", w.err == 0 && w.got == 5);
	// Stopped and continued, as by a shell: no handler, and the call goes on.
	pid_t child = fork();
	if (child == 0)
		_exit(get(fd, &n) == 0 ? n : 99);
	until(fd, WAITS, 5);
	int status;
	kill(child, SIGSTOP);
	check("stopped", waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	kill(child, SIGCONT);
	until(fd, WAITS, 6);
	check("post", post(fd, 6) == 0);
	check("continued", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
}

// Two threads could take the signal, and no other: no call returns anything odd.
static void test_shared(void)
{
	int fd = open_file(0);
	struct waiter w[2];
	handle(SIGUSR1, 0);
	for (int i = 0; i < 2; i++)
		begin(&w[i], fd);
	mask(SIG_BLOCK, SIGUSR1);
	until(fd, WAITS, 2);
	kill(getpid(), SIGUSR1);
	while (!handled)
		poll(0, 0, 1);
	post(fd, 1);
	post(fd, 2);
	int interrupted = 0;
	for (int i = 0; i < 2; i++) {
		pthread_join(w[i].thread, 0);
		check("EINTR or an event", w[i].err == -EINTR || w[i].err == 0);
		interrupted += w[i].err == -EINTR;
	}
	check("handled once", handled == 1 && interrupted >= 1);
}

static void test_cancel(void)
{
	int fd = open_file(0);
	uint32_t n = 0;
	struct waiter w;
	void *result = 0;
	begin(&w, fd);
	until(fd, WAITS, 1);
	check("pthread_cancel", pthread_cancel(w.thread) == 0);
	pthread_join(w.thread, &result);
	check("cancelled", result == PTHREAD_CANCELED && w.err == 1);
	check("an event afterwards is not lost", post(fd, 3) == 0 && get(fd, &n) == 0 && n == 3);
}

static void test_nonblock(void)
{
	int fd = open_file(O_NONBLOCK), copy = dup(fd);
	uint32_t n = 0;
	check("opened so", get(fd, &n) == -EAGAIN && get(copy, &n) == -EAGAIN);
	check("an event", post(fd, 1) == 0 && get(copy, &n) == 0 && n == 1);
	check("block", fcntl(fd, F_SETFL, 0) == 0);
	struct waiter w;
	begin(&w, copy);
	until(fd, WAITS, 3);
	check("post", post(fd, 2) == 0);
	pthread_join(w.thread, 0);
	check("a waiting call", w.err == 0 && w.got == 2);
	check("unblock", fcntl(copy, F_SETFL, O_NONBLOCK) == 0 && get(fd, &n) == -EAGAIN);
}

static void test_dup(void)
{
	int fd = open_file(0), other = open_file(0);
	int a = dup(fd), b = fcntl(fd, F_DUPFD_CLOEXEC, 0), c = fcntl(a, F_DUPFD, 0);
	uint32_t n = 0;
	check("numbers", a >= 0 && b >= 0 && c >= 0);
	check("close-on-exec", fcntl(b, F_GETFD) == FD_CLOEXEC && fcntl(c, F_GETFD) == 0);
	check("dup2 to a number that is only polled", dup2(fd, 50) == 50 && !readable(50));
	check("post", post(a, 9) == 0 && readable(50) && readable(b) && !readable(other));
	close(fd);
	check("get", get(b, &n) == 0 && n == 9 && !readable(50));
	check("dup2 over a copy", dup2(other, c) == c && post(c, 11) == 0 && readable(other));
	check("get", get(other, &n) == 0 && n == 11);
	close(a), close(b);
	until(other, OPEN, 2); // 50 is left
	close(50);
	until(other, OPEN, 1);
	// A number that was ours is anybody's.
	int p[2];
	check("a pipe of its own", pipe(p) == 0 && dup2(p[1], a) == a && dup2(p[0], b) == b);
	check("write and read", write(a, "x", 1) == 1 && read(b, &n, 1) == 1);
}

static void test_fork(void)
{
	int fd = open_file(0), status = 0;
	pid_t child = fork();
	if (child == 0) {
		uint32_t n = 0;
		_exit(get(fd, &n) == 0 ? n : 99);
	}
	until(fd, WAITS, 1);
	check("post", post(fd, 21) == 0);
	check("in the child", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 21);
	// A child that is killed while it waits.
	child = fork();
	if (child == 0) {
		uint32_t n = 0;
		_exit(get(fd, &n));
	}
	until(fd, WAITS, 2);
	kill(child, SIGKILL);
	check("killed", waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	uint32_t n = 0;
	check("an event afterwards is not lost", post(fd, 22) == 0 && get(fd, &n) == 0 && n == 22);
}

static void test_stat(void)
{
	int fd = open_file(0), copy = dup(fd);
	struct stat a, b, c;
	check("stat", stat(dev, &a) == 0 && fstat(fd, &b) == 0 && fstat(copy, &c) == 0);
	check("a character device", S_ISCHR(a.st_mode) && a.st_rdev == makedev(10, 250) && (a.st_mode & 0777) == 0660);
	check("the same", memcmp(&a, &b, sizeof a) == 0 && memcmp(&b, &c, sizeof a) == 0);
}

static void test_many(void)
{
	enum { MANY = 500 };
	int fds[1024];
	uint32_t n;
	struct stat st;
	int room = 528; // from 176 on, but for what this process has inherited
	for (int i = 176; i < 176 + 528; i++)
		room -= fcntl(i, F_GETFD) >= 0;
	for (int i = 0; i < MANY; i++) {
		fds[i] = open_file(O_CLOEXEC);
		check("post", post(fds[i], i) == 0);
	}
	for (int i = 0; i < MANY; i++)
		check("get", readable(fds[i]) && get(fds[i], &n) == 0 && n == (uint32_t)i && fstat(fds[i], &st) == 0 && S_ISCHR(st.st_mode));
	int null = open("/dev/null", O_RDWR);
	check("its own files have low numbers", null >= 0 && null < 100);
	int count = MANY;
	while (count < 1024 && (fds[count] = open(dev, O_RDWR)) >= 0)
		count++;
	check("full", errno == EMFILE);
	if (count != room)
		printf("%d files, not %d\n", count, room), failures++;
	while (count > 1)
		close(fds[--count]);
	until(fds[0], OPEN, 1);
}

static void test_exec(char *self)
{
	int fd = open_file(O_CLOEXEC);
	struct waiter w;
	begin(&w, fd); // exec ends it
	until(fd, WAITS, 1);
	char number[16];
	snprintf(number, sizeof number, "%d", fd);
	execl(self, self, "execed", number, (char *)0);
	check("exec", 0);
}

static void test_execed(int old)
{
	check("closed", fcntl(old, F_GETFD) == -1 && errno == EBADF);
	until(open_file(0), OPEN, 1);
}

// The last descriptor is closed while a call waits: as in the kernel the call still
// refers to the file, until a signal ends it.
static void test_closed(void)
{
	int fd = open_file(0), other = open_file(0);
	struct waiter w;
	handle(SIGUSR1, 0);
	begin(&w, fd);
	until(fd, WAITS, 1);
	close(fd);
	poll(0, 0, 100);
	check("still open", ask(other, OPEN) == 2 && w.err == 1);
	pthread_kill(w.thread, SIGUSR1);
	pthread_join(w.thread, 0);
	check("interrupted", w.err == -EINTR);
	until(other, OPEN, 1);
}

// Events, and signals at any moment: each event arrives, and arrives once.
enum { EVENTS = 2000, READERS = 4 };
static unsigned char seen[EVENTS];
static volatile int finished;

static void *reader(void *arg)
{
	int fd = *(int *)arg;
	for (;;) {
		uint32_t n = 0;
		int err = get(fd, &n);
		if (err == -EINTR)
			continue;
		if (err || n == EVENTS)
			return (void *)(intptr_t)err;
		__atomic_add_fetch(&seen[n], 1, __ATOMIC_SEQ_CST);
	}
}

static void test_storm(void)
{
	int fd = open_file(0);
	pthread_t t[READERS];
	handle(SIGUSR1, 0);
	for (int i = 0; i < READERS; i++)
		pthread_create(&t[i], 0, reader, &fd);
	for (int i = 0; i < EVENTS; i++) {
		check("post", post(fd, i) == 0);
		if (i % 7 == 0)
			pthread_kill(t[i % READERS], SIGUSR1);
	}
	for (int i = 0; i < READERS; i++)
		check("post", post(fd, EVENTS) == 0);
	for (int i = 0; i < READERS; i++) {
		void *err;
		pthread_join(t[i], &err);
		check("a reader", err == 0);
	}
	for (int i = 0; i < EVENTS; i++)
		check("each event once", seen[i] == 1);
	check("nothing left", !readable(fd));
}

// Threads that wait until they are killed.
static void test_kill(void)
{
	int fd = open_file(0);
	struct waiter w[3];
	for (int i = 0; i < 3; i++)
		begin(&w[i], fd);
	until(fd, WAITS, 3);
	printf("waiting\n");
	fflush(stdout);
	pause();
}

// The process that answers is killed while a thread waits.
static void test_orphan(void)
{
	int fd = open_file(0);
	struct waiter w;
	begin(&w, fd);
	until(fd, WAITS, 1);
	printf("open\n");
	fflush(stdout);
	struct pollfd p = {fd, POLLIN, 0};
	check("poll", poll(&p, 1, -1) == 1 && p.revents == POLLHUP);
	pthread_join(w.thread, 0);
	check("the waiting call", w.err == -ENODEV);
	check("a later one", get(fd, &w.got) == -ENODEV);
	check("fstat", fstat(fd, &(struct stat){0}) == -1 && errno == ENODEV);
	int own[2]; // another file in the range
	check("a pipe of its own", pipe(own) == 0 && dup2(own[1], fd) == fd && write(fd, "x", 1) == 1);
	printf(failures ? "failed\n" : "ok\n");
}

static void *hold(void *fd)
{
	check("held", command(*(int *)fd, HOLD, 0, 0) == 0);
	return 0;
}

// A signal whose handler lacks SA_RESTART, while another call keeps the receiver busy.
static void test_missed(void)
{
	int fd = open_file(0);
	struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
	pthread_t thread;
	uint32_t n;
	int err;
	check("nothing is missed", ask(fd, MISSED) == 0);
	handle(SIGALRM, 0);
	check("pthread_create", pthread_create(&thread, 0, hold, &fd) == 0);
	setitimer(ITIMER_REAL, &often, 0);
	while ((err = command(fd, WAITS, 0, &n)) == 0)
		;
	setitimer(ITIMER_REAL, &never, 0);
	check("interrupted", err == -EINTR);
	printf("interrupted\n");
	fflush(stdout);
	pthread_join(thread, 0);
	check("missed", ask(fd, MISSED) == 1);
	printf(failures ? "failed\n" : "ok\n");
}

int main(int argc, char **argv)
{
	struct { const char *name; void (*run)(void); } tests[] = {
		{"poll", test_poll}, {"block", test_block}, {"eintr", test_eintr}, {"restart", test_restart},
		{"shared", test_shared}, {"cancel", test_cancel}, {"nonblock", test_nonblock}, {"dup", test_dup},
		{"fork", test_fork}, {"stat", test_stat}, {"many", test_many}, {"closed", test_closed},
		{"storm", test_storm}, {"kill", test_kill}, {"orphan", test_orphan},
		{"missed", test_missed},
	};
	if (argc == 3 && strcmp(argv[1], "execed") == 0)
		test_execed(atoi(argv[2]));
	else if (strcmp(argv[1], "exec") == 0)
		test_exec(argv[0]);
	else {
		int found = 0;
		for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
			if (strcmp(argv[1], tests[i].name) == 0)
				tests[i].run(), found = 1;
		check("a test of that name", found);
	}
	return failures != 0;
}

/*
 * Registers memory whose pages nobody supplies, and has the device read it. usage: unanswered
 * fuse|userfaultfd DEVICE ROUNDS [FILE]
 *
 * FILE is the device node of userfaultfd, for users who may not make the system call.
 *
 * Each round waits until the device's access is blocked, or refused because too many are, and
 * is killed then. The program prints "attacked" after them, and "refused" if this user may not
 * have such memory.
 */
#include "qp.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef USERFAULTFD_IOC_NEW /* before Linux 6.1 */
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

enum { size = 65536, refused = 42 };

static char dir[] = "/tmp/gorxe-unanswered-XXXXXX";

/* from_userfaultfd returns a descriptor that is readable when a page is wanted. */
static int from_userfaultfd(void **p, const char *file)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC), node = fd < 0 && file ? open(file, O_RDWR | O_CLOEXEC) : -1;
	struct uffdio_api api = {.api = UFFD_API};

	if (node >= 0)
		fd = ioctl(node, USERFAULTFD_IOC_NEW, O_CLOEXEC);

	if (fd < 0)
		_exit(refused);
	*p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {.range = {(uintptr_t)*p, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	CHECK("UFFDIO_API", !ioctl(fd, UFFDIO_API, &api));
	CHECK("UFFDIO_REGISTER", !ioctl(fd, UFFDIO_REGISTER, &reg));
	return fd;
}

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(refused);
	close(fd);
}

/* serve answers for a file system that is one file, except to a READ. Then it writes to seen. */
static void serve(int fuse, int seen)
{
	static char request[1 << 17];

	for (;;) {
		struct {
			struct fuse_out_header h;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			};
		} answer = {0};
		struct fuse_in_header *in = (struct fuse_in_header *)request;
		size_t n = 0;

		if (read(fuse, request, sizeof(request)) < 0)
			_exit(0); /* unmounted */
		switch (in->opcode) {
		case FUSE_INIT:
			answer.init.major = FUSE_KERNEL_VERSION;
			answer.init.minor = ((struct fuse_init_in *)(in + 1))->minor;
			answer.init.max_write = 4096;
			n = sizeof(answer.init);
			break;
		case FUSE_GETATTR:
			answer.attr.attr_valid = 1000;
			answer.attr.attr = (struct fuse_attr){.ino = 1, .size = size, .mode = S_IFREG | 0600, .nlink = 1,
				.uid = getuid(), .gid = getgid()};
			n = sizeof(answer.attr);
			break;
		case FUSE_OPEN:
			n = sizeof(answer.open);
			break;
		case FUSE_READ:
			if (write(seen, "!", 1) != 1)
				_exit(1);
			continue;
		default:
			answer.h.error = -ENOSYS;
		}
		answer.h.unique = in->unique;
		answer.h.len = sizeof(answer.h) + n;
		if (write(fuse, &answer, answer.h.len) < 0)
			_exit(1);
	}
}

/* from_fuse is the same with a file. */
static int from_fuse(void **p)
{
	char name[64], options[128], map[64];
	int uid = getuid(), gid = getgid(), seen[2], fuse, fd;
	struct stat st;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		_exit(refused);
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%d %d 1", uid, uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%d %d 1", gid, gid);
	put("/proc/self/gid_map", map);
	snprintf(name, sizeof(name), "%s/file", dir);
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100600,user_id=%d,group_id=%d", fuse, uid, gid);
	if (fuse < 0 || fd < 0 || mount("unanswered", name, "fuse", MS_NOSUID | MS_NODEV, options))
		_exit(refused);
	close(fd);
	CHECK("pipe", !pipe(seen));
	pid_t pid = fork();
	CHECK("fork", pid >= 0);
	if (pid == 0)
		serve(fuse, seen[1]);
	close(fuse); /* the mount ends with the server */
	CHECK("open", (fd = open(name, O_RDONLY | O_CLOEXEC)) >= 0);
	CHECK("fstat", !fstat(fd, &st) && st.st_size == size);
	*p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK("mmap", *p != MAP_FAILED);
	return seen[0];
}

int main(int argc, char **argv)
{
	CHECK("usage: unanswered fuse|userfaultfd DEVICE ROUNDS [FILE]", (argc == 4 || argc == 5) && mkdtemp(dir));
	int status = 0;

	for (int n = 0; n < atoi(argv[3]) && !status; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			setpgid(0, 0);
			void *p;
			int fd = strcmp(argv[1], "fuse") ? from_userfaultfd(&p, argv[4]) : from_fuse(&p);
			struct end e = make_end(open_device(argv[2]), p, size);
			struct address self = address_of(&e);
			struct pollfd wanted = {.fd = fd, .events = POLLIN};
			struct ibv_wc wc = {0};

			connect_to(&e, &self);
			CHECK("ibv_post_send", !post_write(&e, &self, size));
			while (poll(&wanted, 1, 10) == 0 && ibv_poll_cq(e.cq, 1, &wc) == 0)
				;
			CHECK("the device's access", wanted.revents || wc.status);
			raise(SIGKILL);
		}
		CHECK("waitpid", pid > 0 && waitpid(pid, &status, 0) == pid);
		kill(-pid, SIGKILL); /* the server of the file system */
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			status = 0;
	}
	char name[64];
	snprintf(name, sizeof(name), "%s/file", dir);
	unlink(name);
	rmdir(dir);
	if (WIFEXITED(status) && WEXITSTATUS(status) == refused) {
		printf("refused\n");
		return 0;
	}
	if (!status)
		printf("attacked\n");
	return status != 0;
}

// A program that uses the calls that C libraries other than glibc use, and forks
// with a device open. It prints nothing if all is well.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void check(const char *what, int ok)
{
	if (!ok) {
		perror(what);
		failures++;
	}
}

int main(void)
{
	const char *dev = "/dev/infiniband/uverbs0";
	struct stat st;
	char buf[256];

	check("stat", stat(dev, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(231, 192));
	check("lstat", lstat("/sys/class/infiniband/rxe0", &st) == 0 && S_ISLNK(st.st_mode));
	check("access", access(dev, R_OK | W_OK) == 0);
	check("access of nothing", access("/dev/infiniband/uverbs9", R_OK) == -1);
	check("readlink", readlink("/sys/class/infiniband/rxe0", buf, sizeof buf) > 10);
#ifdef SYS_open
	check("old open", syscall(SYS_open, "/sys/class/infiniband/rxe0/node_type", O_RDONLY) >= 0);
	check("old stat", syscall(SYS_stat, "/sys/class/infiniband/rxe0/node_type", &st) == 0);
	check("old access", syscall(SYS_access, dev, R_OK) == 0);
	long old = syscall(SYS_open, "/sys/class/infiniband_verbs", O_RDONLY | O_DIRECTORY);
	long n = syscall(SYS_getdents, old, buf, sizeof buf);
	check("old getdents", n > 0 && n <= (long)sizeof buf);
	check("end of old getdents", syscall(SYS_getdents, old, buf, sizeof buf) == 0);
	close(old);
#endif

	FILE *f = fopen("/sys/class/infiniband/rxe0/node_type", "r");
	check("fopen", f != NULL && fgets(buf, sizeof buf, f) != NULL && strcmp(buf, "1: CA\n") == 0);
	if (f)
		fclose(f);

	int seen = 0;
	DIR *d = opendir("/sys/class/infiniband_verbs");
	check("opendir", d != NULL);
	for (struct dirent *e; d && (e = readdir(d)); )
		if (strcmp(e->d_name, "uverbs0") == 0 && e->d_type == DT_LNK)
			seen++;
	check("readdir", seen == 1);
	if (d) {
		rewinddir(d);
		check("rewinddir", readdir(d) != NULL);
		check("openat", faccessat(dirfd(d), "uverbs0/ibdev", R_OK, 0) == 0);
		closedir(d);
	}

	int fd = open(dev, O_RDWR | O_CLOEXEC);
	check("open", fd >= 0);
	check("fstat", fstat(fd, &st) == 0 && S_ISCHR(st.st_mode));
	check("write", write(fd, buf, 16) == 16);
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(write(fd, buf, 16) == 16 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) ? 0 : 1);
		int status;
		check("child", waitpid(child, &status, 0) == child && status == 0);
	}
	pid_t child = vfork();
	if (child == 0)
		_exit(write(fd, buf, 16) == 16 ? 0 : 1);
	int status;
	check("vfork", waitpid(child, &status, 0) == child && status == 0);
	check("write after", write(fd, buf, 16) == 16);
	return failures != 0;
}

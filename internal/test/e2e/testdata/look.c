/*
 * Looks for devices the way a program without libibverbs does, with the C library
 * alone, and prints what it finds. Built static, so that no library's start-up
 * helps.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(void)
{
	char path[512], text[64], target[256];
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *e;
	struct stat st;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		int in = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY);
		int file = openat(in, "node_type", O_RDONLY);
		ssize_t n = read(file, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = 0;
		text[strcspn(text, "\n")] = 0;
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s", e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		printf("%s: %s -> %s\n", e->d_name, text, target);
	}
	if (!stat("/dev/infiniband/uverbs0", &st) && S_ISCHR(st.st_mode))
		printf("uverbs0: %u:%u\n", major(st.st_rdev), minor(st.st_rdev));
	int fd = open("/dev/infiniband/uverbs0", O_RDWR);
	if (!fstat(fd, &st) && S_ISCHR(st.st_mode))
		printf("open: %u:%u\n", major(st.st_rdev), minor(st.st_rdev));
	return close(fd);
}

/*
 * Two programs: the first registers memory whose pages nobody ever supplies
 * (userfaultfd) and says where it is; the second one WRITEs to it, which can not
 * end. "stalled" is printed when the write is under way. Both then wait to be
 * killed. usage: stall DEVICE
 */
#include "qp.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static const size_t size = 65536;

static void *without_pages(void)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {.range = {(uintptr_t)p, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	CHECK("userfaultfd", fd >= 0);
	CHECK("UFFDIO_API", !ioctl(fd, UFFDIO_API, &api));
	CHECK("UFFDIO_REGISTER", !ioctl(fd, UFFDIO_REGISTER, &reg));
	return p;
}

int main(int argc, char **argv)
{
	int to_writer[2], to_target[2];
	struct address mine, theirs;

	CHECK("usage: stall DEVICE", argc == 2);
	CHECK("pipe", !pipe(to_writer) && !pipe(to_target));
	if (fork() == 0) { /* the target */
		struct end e = make_end(open_device(argv[1]), without_pages(), size);
		mine = address_of(&e);
		CHECK("pipe", write(to_writer[1], &mine, sizeof(mine)) == sizeof(mine));
		CHECK("pipe", read(to_target[0], &theirs, sizeof(theirs)) == sizeof(theirs));
		connect_to(&e, &theirs);
		CHECK("pipe", write(to_writer[1], "!", 1) == 1);
		pause();
	}
	char ready, *buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct end e = make_end(open_device(argv[1]), buf, size);

	memset(buf, 0x55, size);
	mine = address_of(&e);
	CHECK("pipe", read(to_writer[0], &theirs, sizeof(theirs)) == sizeof(theirs));
	CHECK("pipe", write(to_target[1], &mine, sizeof(mine)) == sizeof(mine));
	CHECK("pipe", read(to_writer[0], &ready, 1) == 1);
	connect_to(&e, &theirs);
	printf("stalled\n");
	fflush(stdout);
	CHECK("ibv_post_send", !post_write(&e, &theirs, size));
	pause();
}

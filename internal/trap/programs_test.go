package trap

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// runProgram is one of the programs that the tests put behind the filter; each
// writes what it finds, and returns its exit status.
func runProgram(role string, args []string) int {
	f, ok := programs[role]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such program:", role)
		return 2
	}
	if err := f(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		return 1
	}
	return 0
}

const device = "/dev/infiniband/uverbs0"

var programs = map[string]func(args []string) error{
	"files":          files,
	"opens":          opens,
	"fds":            descriptors,
	"signals":        signals,
	"hold":           hold,
	"give":           give,
	"lend":           lend,
	"lend-child":     lendChild,
	"nested":         nested,
	"threads":        manyThreads,
	"stall":          stall,
	"stalls":         stalls,
	"doorbell":       ringOnce,
	"exec":           execLoop,
	"bench":          bench,
	"forks":          forks,
	"ring":           ring,
	"until":          until,
	"calls-until":    callsUntil,
	"serve":          serveProgram,
	"serveQueue":     serveQueue,
	"storm":          storm,
	"doorbells":      doorbellsAndCalls,
	"paced":          pacedProgram,
	"doorbell-until": doorbellUntil,
	"several":        several,
	"netlink":        netlinkCalls,
	"netlink-flood":  netlinkFlood,
	"netlink-hold":   netlinkHold,
	"ring-both":      ringBoth,
	"ring-when-told": ringWhenTold,
	"mapper":         mapper,
	"two-pipes":      twoPipes,
	"kept-by-exec":   keptByExec,
	"pipe-until":     pipeUntil,
	"serve-pipes":    servePipes,
	"listeners":      manyListeners,
	"where":          whereProgram,
	"maps":           manyMapsProgram,
}

// check collects what differs from what was expected.
type checks struct{ errs []error }

func (c *checks) eq(what string, got, want any) {
	if got != want {
		c.errs = append(c.errs, fmt.Errorf("%s: %v, want %v", what, got, want))
	}
}

func (c *checks) err() error { return errors.Join(c.errs...) }

// errOf is the errno of a raw call, for those that x/sys does not pass through.
func errOf(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

// files makes every call that takes a path.
func files([]string) error {
	var c checks
	var st unix.Stat_t
	c.eq("stat", unix.Stat(device, &st), nil)
	c.eq("stat: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFCHR))
	c.eq("stat: number", uint64(st.Rdev), unix.Mkdev(231, 192))
	c.eq("lstat", unix.Lstat("/sys/class/infiniband/rxe0", &st), nil)
	c.eq("lstat: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFLNK))
	c.eq("stat of a link", unix.Stat("/sys/class/infiniband/rxe0", &st), nil)
	c.eq("stat of a link: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFDIR))
	c.eq("stat of nothing", unix.Stat("/dev/infiniband/uverbs7", &st), unix.ENOENT)
	c.eq("stat below a file", unix.Stat(device+"/x", &st), unix.ENOTDIR)
	c.eq("stat elsewhere", unix.Stat("/etc/passwd", &st), nil)
	c.eq("stat to nowhere", errOf(filter.Fstatat, at(unix.AT_FDCWD), cstring(device), 8, 0), unix.EFAULT)
	c.eq("stat of nowhere", errOf(filter.Fstatat, at(unix.AT_FDCWD), 8, 8, 0), unix.EFAULT)
	var stx unix.Statx_t
	c.eq("statx", unix.Statx(unix.AT_FDCWD, device, 0, unix.STATX_BASIC_STATS, &stx), nil)
	c.eq("statx: number", [2]uint32{stx.Rdev_major, stx.Rdev_minor}, [2]uint32{231, 192})
	var sfs unix.Statfs_t
	c.eq("statfs", unix.Statfs("/sys/class/infiniband", &sfs), nil)
	c.eq("statfs: type", int64(sfs.Type), int64(unix.SYSFS_MAGIC))

	c.eq("access", unix.Access(device, unix.R_OK|unix.W_OK), nil)
	c.eq("access to run", unix.Access(device, unix.X_OK), unix.EACCES)
	c.eq("faccessat2", unix.Faccessat(unix.AT_FDCWD, device, unix.R_OK, unix.AT_EACCESS), nil)
	link, err := os.Readlink("/sys/class/infiniband/rxe0")
	c.eq("readlink", link, "../../devices/platform/rxe0.gorxe/infiniband/rxe0")
	c.eq("readlink", err, nil)
	var short [5]byte
	n, err := unix.Readlink("/sys/class/infiniband/rxe0", short[:])
	c.eq("short readlink", string(short[:max(n, 0)]), "../..")
	c.eq("short readlink", err, nil)
	_, err = unix.Readlink(device, short[:])
	c.eq("readlink of a device", err, unix.EINVAL)
	_, err = unix.Getxattr(device, "system.posix_acl_access", nil)
	c.eq("getxattr", err, unix.EOPNOTSUPP)
	c.eq("chdir", unix.Chdir("/sys/class/infiniband"), unix.EACCES)
	c.eq("chdir elsewhere", unix.Chdir("/sys/class"), nil)
	_, err = os.ReadFile("infiniband/rxe0/node_type") // relative to it
	c.eq("relative open", err, nil)

	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA)
	c.eq("netlink", err, unix.EPROTONOSUPPORT)
	c.openings()
	c.counter()
	c.directories()
	return c.err()
}

func at(fd int) uintptr { return uintptr(fd) }

func cstring(s string) uintptr {
	b, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	keep = append(keep, b)
	return uintptr(unsafe.Pointer(b))
}

var keep []*byte

// openings opens with all kinds of flags.
func (c *checks) openings() {
	for _, o := range []struct {
		path  string
		flags int
		err   error
	}{
		{"/sys/class/infiniband/rxe0/node_type", unix.O_RDONLY, nil},
		{"/sys/class/infiniband/rxe0/node_type", unix.O_RDWR, unix.EACCES},
		{"/sys/class/infiniband/rxe0/node_desc", unix.O_WRONLY, unix.EACCES},
		{"/sys/class/infiniband/rxe0/node_type", unix.O_DIRECTORY, unix.ENOTDIR},
		{"/sys/class/infiniband", unix.O_DIRECTORY, nil},
		{"/sys/class/infiniband", unix.O_WRONLY, unix.EISDIR},
		{"/sys/class/infiniband/rxe0", unix.O_NOFOLLOW, unix.ELOOP},
		{device, unix.O_CREAT | unix.O_EXCL | unix.O_RDWR, unix.EEXIST},
		{device, unix.O_DIRECTORY, unix.ENOTDIR},
		{device, unix.O_RDWR | unix.O_CLOEXEC, nil},
		{"/dev/infiniband/rdma_cm", unix.O_RDWR, unix.ENOENT},
	} {
		fd, err := unix.Open(o.path, o.flags, 0)
		c.eq(fmt.Sprintf("open %s with %#x", o.path, o.flags), err, o.err)
		if err == nil {
			unix.Close(fd)
		}
		fd, err = unix.Openat2(unix.AT_FDCWD, o.path, &unix.OpenHow{Flags: uint64(o.flags)})
		c.eq(fmt.Sprintf("openat2 %s with %#x", o.path, o.flags), err, o.err)
		if err == nil {
			unix.Close(fd)
		}
	}
	content, err := os.ReadFile("/sys/class/infiniband/rxe0/node_type")
	c.eq("content", string(content), "1: CA\n")
	c.eq("content", err, nil)
	_, err = os.ReadFile("/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/5")
	c.eq("file that cannot be read", errors.Is(err, unix.EINVAL), true)
	fd, _ := unix.Open("/sys/class/infiniband/rxe0/node_type", unix.O_RDONLY, 0)
	var byPath, byFD unix.Stat_t
	c.eq("file: stat", unix.Stat("/sys/class/infiniband/rxe0/node_type", &byPath), nil)
	c.eq("file: fstat", unix.Fstat(fd, &byFD), nil)
	c.eq("file: fstat is what stat is", byFD, byPath)
	c.eq("file: fstatat", unix.Fstatat(fd, "", &byFD, unix.AT_EMPTY_PATH), nil)
	c.eq("file: fstatat is what stat is", byFD, byPath)
	var stx unix.Statx_t
	c.eq("file: statx", unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &stx), nil)
	c.eq("file: statx is what stat is", [2]uint64{unix.Mkdev(stx.Dev_major, stx.Dev_minor), stx.Ino}, [2]uint64{byPath.Dev, byPath.Ino})
	_, err = unix.Write(fd, []byte("x"))
	c.eq("file: write", err, unix.EBADF)
	unix.Close(fd)
}

// counter reads a file that is new at every read from its start.
func (c *checks) counter() {
	fd, err := unix.Open("/sys/class/infiniband/rxe0/ports/1/hw_counters/reads", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	c.eq("counter: open", err, nil)
	defer unix.Close(fd)
	var buf [32]byte
	number := func(what string, n int, err error) int {
		c.eq(what, err, nil)
		v, err := strconv.Atoi(strings.TrimSuffix(string(buf[:max(n, 0)]), "\n"))
		c.eq(what+": a number", err, nil)
		return v
	}
	n, err := unix.Read(fd, buf[:])
	first := number("counter: read", n, err)
	n, err = unix.Read(fd, buf[:])
	c.eq("counter: read at the end", n, 0)
	c.eq("counter: read at the end", err, nil)
	at, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	c.eq("counter: position", at, int64(len(strconv.Itoa(first))+1))
	c.eq("counter: position", err, nil)
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	c.eq("counter: rewind", err, nil)
	n, err = unix.Read(fd, buf[:])
	c.eq("counter: read again", number("counter: read again", n, err), first+1)
	n, err = unix.Pread(fd, buf[:], 0)
	c.eq("counter: pread", number("counter: pread", n, err), first+2)
	n, err = unix.Pread(fd, buf[:], 1000)
	c.eq("counter: pread beyond", n, 0)
	c.eq("counter: pread beyond", err, nil)
	_, err = unix.Pread(fd, buf[:], -1)
	c.eq("counter: pread before", err, unix.EINVAL)
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	c.eq("counter: rewind", err, nil)
	n, err = unix.Readv(fd, [][]byte{buf[:1], buf[1:]})
	c.eq("counter: readv", n, 1)
	c.eq("counter: readv", err, nil)
	rest, err := unix.Read(fd, buf[1:])
	c.eq("counter: one number in pieces", number("counter: the rest", n+rest, err), first+3)
	c.eq("counter: read to nowhere", errOf(unix.SYS_PREAD64, uintptr(fd), 8, 4, 0), unix.EFAULT)
	_, err = unix.Getdents(fd, buf[:])
	c.eq("counter: getdents", err, unix.ENOTDIR)
	var st unix.Stat_t
	c.eq("counter: fstat", unix.Fstat(fd, &st), nil)
	c.eq("counter: type", st.Mode, uint32(unix.S_IFREG|0o444))
}

// directories reads directories, and from them.
func (c *checks) directories() {
	fd, err := unix.Open("/sys/class/infiniband_verbs", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	c.eq("opendir", err, nil)
	defer unix.Close(fd)
	var st unix.Stat_t
	c.eq("fstat", unix.Fstat(fd, &st), nil)
	c.eq("fstat: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFDIR))
	st = unix.Stat_t{}
	c.eq("fstatat", unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH), nil)
	c.eq("fstatat: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFDIR))
	st = unix.Stat_t{}
	c.eq("fstatat without a path", errOf(filter.Fstatat, at(fd), 0, uintptr(unsafe.Pointer(&st)), unix.AT_EMPTY_PATH), nil)
	c.eq("fstatat without a path: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFDIR))
	buf := make([]byte, 40)
	total := 0
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			c.eq("getdents", err, nil)
			break
		}
		total++
	}
	c.eq("getdents in small pieces", total, 4) // . .. abi_version uverbs0
	_, err = unix.Getdents(fd, buf[:10])
	c.eq("getdents at the end", err, nil)
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	c.eq("rewind", err, nil)
	_, err = unix.Getdents(fd, buf[:10])
	c.eq("getdents in too small a buffer", err, unix.EINVAL)
	_, err = unix.Read(fd, buf)
	c.eq("read", err, unix.EISDIR)
	c.eq("fchdir", unix.Fchdir(fd), unix.EACCES)
	c.eq("openat", func() error {
		sub, err := unix.Openat(fd, "uverbs0", unix.O_DIRECTORY|unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		f, err := unix.Openat(sub, "ibdev", unix.O_RDONLY, 0)
		if err == nil {
			unix.Close(f)
		}
		return err
	}(), nil)
	c.eq("ioctl", errOf(unix.SYS_IOCTL, at(fd), unix.TCGETS, 0), unix.ENOTTY)
	names := func(path string) string {
		entries, err := os.ReadDir(path)
		c.eq("ReadDir "+path, err, nil)
		var s []string
		for _, e := range entries {
			s = append(s, e.Name())
		}
		return strings.Join(s, " ")
	}
	c.eq("list", names("/sys/class/infiniband_verbs"), "abi_version uverbs0")
	c.eq("list", names("/dev/infiniband"), "umad0 uverbs0")
}

// descriptors makes copies of a device, and closes them in all ways. What the
// device sees is for the test to say; "x" as a write ends a stage.
func descriptors([]string) error {
	var c checks
	c.eq("close what was inherited", unix.CloseRange(100, 1023, 0), nil)
	open := func() int {
		fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
		c.eq("open", err, nil)
		return fd
	}
	ring := func(what string, fd int) {
		n, err := unix.Write(fd, make([]byte, 16))
		c.eq(what+": write", err, nil)
		c.eq(what+": write", n, 16)
	}
	fd := open()
	ring("device", fd)
	var st unix.Stat_t
	c.eq("fstat", unix.Fstat(fd, &st), nil)
	c.eq("fstat: type", st.Mode&unix.S_IFMT, uint32(unix.S_IFCHR))
	_, err := unix.Read(fd, make([]byte, 8))
	c.eq("read", err, unix.EINVAL)
	_, err = unix.Seek(fd, 0, 0)
	c.eq("lseek", err, unix.ESPIPE)
	_, err = unix.Getdents(fd, make([]byte, 100))
	c.eq("getdents", err, unix.ENOTDIR)
	_, err = unix.Pread(fd, make([]byte, 8), 0)
	c.eq("pread", err, unix.ESPIPE)
	_, err = unix.Pwrite(fd, make([]byte, 8), 0)
	c.eq("pwrite", err, unix.ESPIPE)
	c.eq("ftruncate", unix.Ftruncate(fd, 0), unix.EINVAL)
	c.eq("fallocate", unix.Fallocate(fd, 0, 0, 4096), unix.ENODEV)
	c.eq("fsync", unix.Fsync(fd), unix.EINVAL)
	reader, err := unix.Open(device, unix.O_RDONLY, 0)
	c.eq("open for reading", err, nil)
	_, err = unix.Write(reader, make([]byte, 16))
	c.eq("write to what is open for reading", err, unix.EBADF)
	_, err = unix.Mmap(reader, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	c.eq("map what is open for reading", err, unix.EACCES)
	unix.Close(reader)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	c.eq("close-on-exec", flags, unix.FD_CLOEXEC)
	c.eq("close-on-exec", err, nil)
	_, err = unix.Openat(fd, "x", 0, 0)
	c.eq("openat", err, unix.ENOTDIR)

	two, err := unix.Dup(fd)
	c.eq("dup", err, nil)
	ring("dup", two)
	three, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	c.eq("F_DUPFD_CLOEXEC", err, nil)
	ring("F_DUPFD_CLOEXEC", three)
	flags, _ = unix.FcntlInt(uintptr(three), unix.F_GETFD, 0)
	c.eq("F_DUPFD_CLOEXEC: close-on-exec", flags, unix.FD_CLOEXEC)
	c.eq("dup3 within the range", unix.Dup3(fd, three+1, 0), nil)
	ring("dup3", three+1)

	// A device that is replaced by a file is a file.
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	c.eq("open null", err, nil)
	c.eq("dup3 over a device", unix.Dup3(null, two, 0), nil)
	n, err := unix.Write(two, make([]byte, 99))
	c.eq("write to null", n, 99)
	c.eq("write to null", err, nil)
	var nullStat unix.Stat_t
	c.eq("fstat of null", unix.Fstat(two, &nullStat), nil)
	c.eq("fstat of null", uint64(nullStat.Rdev), unix.Mkdev(1, 3))

	unix.Close(fd)
	ring("after a close", three)
	c.eq("close_range", unix.CloseRange(uint(three), uint(three+1), 0), nil)
	_, err = unix.Write(three, make([]byte, 16))
	c.eq("closed", err, unix.EBADF)

	// As many as there are, and one more.
	var all []int
	for {
		fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			c.eq("full", err, unix.EMFILE)
			break
		}
		all = append(all, fd)
	}
	fmt.Println("opened", len(all))
	for _, fd := range all {
		unix.Close(fd)
	}
	fd = open()
	ring("after all were closed", fd)
	return c.err()
}

package trap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/uffd"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// signals rings while a timer fires every 700 µs, and counts what was lost.
func signals(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fired := make(chan os.Signal, 1)
	signal.Notify(fired, unix.SIGALRM)
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	it := unix.Itimerval{Interval: unix.Timeval{Usec: 700}, Value: unix.Timeval{Usec: 700}}
	if _, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval(it)); err != nil {
		return err
	}
	for range n {
		if k, err := unix.Write(fd, make([]byte, 32)); err != nil || k != 32 {
			return fmt.Errorf("write: %d, %w", k, err)
		}
		if f, err := unix.Open("/sys/class/infiniband/rxe0/node_type", 0, 0); err != nil {
			return fmt.Errorf("open: %w", err)
		} else {
			unix.Close(f)
		}
	}
	<-fired
	return nil
}

// hold opens the device, says so, and waits for its end.
func hold([]string) error {
	if _, err := unix.Open(device, unix.O_RDWR, 0); err != nil {
		return err
	}
	fmt.Println("open")
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// nested tries to be behind two listeners.
func nested([]string) error {
	runtime.LockOSThread()
	_, err := filter.Install(filter.Range{Base: 864, Count: 160}, doorbellSize)
	if !errors.Is(err, filter.ErrListenerExists) {
		return fmt.Errorf("a second listener: %w", err)
	}
	return nil
}

// manyThreads opens and rings from many threads at once.
func manyThreads([]string) error {
	var all sync.WaitGroup
	errs := make(chan error, 100)
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			for range 50 {
				fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
				if err != nil {
					errs <- err
					return
				}
				if n, err := unix.Write(fd, make([]byte, 16)); n != 16 {
					errs <- fmt.Errorf("write: %w", err)
				}
				unix.Close(fd)
			}
		})
	}
	all.Wait()
	close(errs)
	return errors.Join(<-errs)
}

// storm opens, rings, copies and closes from several threads until it is killed.
func storm([]string) error {
	for range 4 {
		go func() {
			for {
				fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
				if err != nil {
					panic(err)
				}
				_, _ = unix.Write(fd, make([]byte, 16))
				if two, err := unix.Dup(fd); err == nil {
					_, _ = unix.Write(two, make([]byte, 16))
					unix.Close(two)
				}
				_, _ = os.ReadDir("/sys/class/infiniband_verbs")
				_, _ = os.ReadFile("/sys/class/infiniband/rxe0/node_type")
				unix.Close(fd)
			}
		}()
	}
	select {}
}

// forks has children that use the inherited device, under the number that it has.
func forks([]string) error {
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], strconv.Itoa(fd))
		cmd.Env = append(os.Environ(), roleEnv+"=ring")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// ring writes to an inherited device.
func ring(args []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, make([]byte, 16))
	return err
}

// until rings until that fails, and says how.
func until([]string) error {
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	fmt.Println("open")
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 16))
	}
	_, ioctl := unix.IoctlGetInt(fd, 0)
	_, open := unix.Open(device, unix.O_RDWR, 0)
	_, other := os.ReadFile("/etc/passwd")
	fmt.Println(err, ioctl, open, other, unix.Close(fd))
	return nil
}

// callsUntil makes a call of a kind again and again, until it ends otherwise than before or there
// are no devices, and says how it ended.
func callsUntil(args []string) error {
	path, own := device, int(filterRange().Pollable().Base)
	switch args[0] {
	case "event", "read", "own":
		path = "/dev/infiniband/gorxe-test"
	}
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	zero, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := unix.Dup3(zero, own, 0); err != nil {
		return err
	}
	buf := make([]byte, 16)
	call := map[string]func() error{
		"write":   func() error { _, err := unix.Write(fd, buf); return err },
		"event":   func() error { _, err := unix.Write(fd, buf); return err },
		"ioctl":   func() error { _, err := unix.IoctlGetInt(fd, 0); return err },
		"read":    func() error { _, err := unix.Read(fd, buf); return err },
		"own":     func() error { _, err := unix.Read(own, buf); return err },
		"netlink": func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA); return err },
		"path": func() error {
			fd, err := unix.Open("/dev/infiniband", unix.O_RDONLY, 0)
			unix.Close(fd)
			return err
		},
	}[args[0]]
	before := call()
	fmt.Println("open")
	for {
		if err := call(); err != before || unix.Access(path, unix.F_OK) != nil {
			fmt.Println(err)
			return nil
		}
	}
}

// filterRange is the range of this process's filter.
func filterRange() filter.Range {
	r, err := filter.Own()
	if err != nil {
		panic(err)
	}
	return r
}

// stallN has n threads whose calls never return, and others that must not notice.
func stallN(n int) error {
	blocked, _, err := uffd.Map(1 << 20)
	if err != nil {
		fmt.Println("skip:", err)
		return nil
	}
	mem := uintptr(unsafe.Pointer(&blocked[0]))
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	for i := range n {
		go func() {
			if i%2 == 0 {
				_ = errOf(unix.SYS_OPENAT, at(unix.AT_FDCWD), mem+uintptr(i)*4096, 0, 0)
			} else {
				_ = errOf(unix.SYS_WRITE, at(fd), mem+uintptr(i)*4096, 32)
			}
		}()
	}
	if n < maxBlocked {
		for range 20 {
			if _, err := os.ReadFile("/etc/passwd"); err != nil {
				return err
			}
		}
		_, err = unix.Write(fd, make([]byte, 16))
	} else {
		for err == nil {
			_, err = unix.Write(fd, make([]byte, 16))
		}
		// Other files are not the worse for it.
		if _, err := os.ReadFile("/etc/passwd"); err != nil {
			return err
		}
	}
	fmt.Println("write:", err)
	return nil
}

func stall([]string) error  { return stallN(3) }
func stalls([]string) error { return stallN(maxBlocked + 8) }

// ringOnce writes one doorbell.
func ringOnce([]string) error {
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	req := make([]byte, doorbellSize)
	binary.NativeEndian.PutUint32(req, 28)
	n, err := unix.Write(fd, req)
	fmt.Println("wrote", n, err)
	// The next call does not block either.
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		return err
	}
	return nil
}

// canaryAddr is where execLoop has memory in each of its lives.
const (
	canaryAddr = 0x5a0000000000
	canarySize = 1 << 16
)

// execLoop registers memory with the device, and becomes another program with
// memory at the same place, which must stay as it is.
func execLoop(args []string) error {
	lives, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	mem, _, errno := unix.Syscall6(unix.SYS_MMAP, canaryAddr, canarySize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
		for _, w := range unsafe.Slice((*uint64)(ptr(mem)), canarySize/8) {
			if w != 0 {
				return fmt.Errorf("%#x was written to the new program", w)
			}
		}
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, make([]byte, 16)); err != nil { // the test begins to write
		return err
	}
	time.Sleep(2 * time.Millisecond)
	if lives == 0 {
		return nil
	}
	// One that fails changes nothing.
	if err := syscall.Exec("/nonexistent", nil, nil); err != unix.ENOENT {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], strconv.Itoa(lives - 1)}, os.Environ())
}

//go:nocheckptr
func ptr(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// bench times calls, n of each kind.
func bench(args []string) error {
	runtime.LockOSThread()
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	req := make([]byte, doorbellSize)
	binary.NativeEndian.PutUint32(req, 28)
	var st unix.Stat_t
	// Two descriptors of one file of the program's own: below the range of pollable files, and
	// in it.
	own, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	fds, err := filter.Own()
	if err != nil {
		return err
	}
	in := int(fds.Pollable().Base)
	if err := unix.Dup2(own, in); err != nil {
		return err
	}
	one := make([]byte, 1)
	for _, b := range []struct {
		name string
		f    func()
	}{
		{"getppid, not trapped", func() { unix.Getppid() }},
		{"stat of another file", func() { _ = unix.Stat("/etc/passwd", &st) }},
		{"stat of the device", func() { _ = unix.Stat(device, &st) }},
		{"read of an own file", func() { _, _ = unix.Read(own, one) }},
		{"read in the pollable range", func() { _, _ = unix.Read(in, one) }},
		{"write in the pollable range", func() { _, _ = unix.Write(in, one) }},
		{"ioctl in the pollable range", func() { _, _ = unix.IoctlGetInt(in, unix.TIOCINQ) }},
		{"fstat of an own file", func() { _ = unix.Fstat(own, &st) }},
		{"fstat in the pollable range", func() { _ = unix.Fstat(in, &st) }},
		{"doorbell", func() { _, _ = unix.Write(fd, req) }},
	} {
		for range n / 10 {
			b.f()
		}
		start := time.Now()
		for range n {
			b.f()
		}
		fmt.Printf("%s\t%d\n", b.name, time.Since(start).Nanoseconds()/int64(n))
	}
	return nil
}

package trap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openModern opens a device as libibverbs does, which first asks for netlink.
func openModern(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != unix.EPROTONOSUPPORT {
		return -1, fmt.Errorf("a socket for NETLINK_RDMA: %d, %w", fd, err)
	}
	return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// openTwo opens a device twice.
func openTwo() (fds [2]int, err error) {
	for i := range fds {
		if fds[i], err = openModern(device); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

// doorbellsAndCalls rings and then makes a call that is trapped, args[0] times.
func doorbellsAndCalls(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	for range n {
		if _, err := unix.Write(fd, make([]byte, doorbellSize)); err != nil {
			return err
		}
		if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
			return err
		}
	}
	// A duplicate works as well, and any other write is trapped.
	two, err := unix.Dup(fd)
	if err != nil {
		return err
	}
	_, err = unix.Write(two, make([]byte, doorbellSize))
	fmt.Println(err)
	return nil
}

// doorbellUntil is ringUntil on a device that it opens.
func doorbellUntil([]string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	return ringUntil(fd)
}

// ringUntil rings until a doorbell fails, and prints the error.
func ringUntil(fd int) (err error) {
	fmt.Println("open")
	for err == nil {
		_, err = unix.Write(fd, make([]byte, doorbellSize))
	}
	_, trapped := unix.Write(fd, make([]byte, doorbellSize/2))
	_, netlink := openModern(device)
	_, other := os.ReadFile("/etc/passwd")
	fmt.Println(err, trapped, netlink, other)
	return nil
}

// pipeUntil is doorbellUntil with a pipe.
func pipeUntil([]string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
		return err
	}
	if !isPipe(fd) {
		return fmt.Errorf("no pipe")
	}
	return ringUntil(fd)
}

// keptByExec makes a call on a device that stays open when another program is executed.
func keptByExec([]string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return err
	}
	if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
		return err
	}
	if isPipe(fd) {
		return errors.New("there is a pipe, which exec closes")
	}
	return nil
}

// isPipe reports whether a pipe is at the descriptor, which is empty then, or soon. The device's
// file can always be read.
func isPipe(fd int) bool {
	for range 50 {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n == 0 && err == nil {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// mapper makes queues in args[0] threads, args[1] in each. It maps each of them, makes another
// call, and rings.
func mapper(args []string) error {
	var threads, rounds int
	if _, err := fmt.Sscan(strings.Join(args, " "), &threads, &rounds); err != nil {
		return err
	}
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	errs := make(chan error, threads)
	for range threads {
		go func() {
			runtime.LockOSThread()
			errs <- makeAndMap(fd, rounds)
		}()
	}
	for range threads {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	first := isPipe(fd)
	runtime.LockOSThread()
	if _, err := unix.Write(fd, make([]byte, makeQueue)); err != nil {
		return err
	}
	second := isPipe(fd)
	if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
		return err
	}
	name := map[bool]string{false: "a file", true: "a pipe"}
	fmt.Printf("%s, then %s, then %s\n", name[first], name[second], name[isPipe(fd)])
	return nil
}

func makeAndMap(fd, rounds int) error {
	for i := range rounds {
		if _, err := unix.Write(fd, make([]byte, makeQueue)); err != nil {
			return err
		}
		m, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
		if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
			return err
		}
		for range i % 4 {
			if _, err := unix.Write(fd, make([]byte, doorbellSize)); err != nil {
				return err
			}
		}
		if err := unix.Munmap(m); err != nil {
			return err
		}
	}
	return nil
}

// twoPipes makes a queue on each of two devices in turn, and prints which device answers a call on
// each. Before the call it duplicates the descriptor, after which the daemon no longer remembers
// what that was.
func twoPipes([]string) error {
	runtime.LockOSThread()
	fds, err := openTwo()
	if err != nil {
		return err
	}
	pipes := 0
	for round := range 20 {
		fd := fds[round%2]
		if _, err := unix.Write(fd, make([]byte, makeQueue)); err != nil {
			return err
		}
		if isPipe(fd) {
			return fmt.Errorf("round %d: a pipe before the queue is mapped", round)
		}
		if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
			return err
		}
		// the daemon may see the end of the other pipe first, or not
		time.Sleep(time.Duration(round%4) * time.Millisecond)
		for _, fd := range fds {
			other, err := unix.Dup(fd)
			if err != nil {
				return err
			}
			unix.Close(other)
			n, err := unix.Write(fd, make([]byte, askDevice))
			if err != nil {
				return err
			}
			fmt.Print(n)
			if isPipe(fd) {
				pipes++
			}
		}
	}
	if pipes == 0 {
		return errors.New("there was no pipe")
	}
	fmt.Println()
	return nil
}

// several starts two programs that ring args[0] times each, one after the other. If
// args[1] is together it has a device open itself meanwhile.
func several(args []string) error {
	if args[1] == "together" {
		fd, err := openModern(device)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		defer unix.Write(fd, make([]byte, doorbellSize)) //nolint:errcheck // the host counts it
	}
	for range 2 {
		cmd := exec.Command(os.Args[0], args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=doorbells")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "<nil>\n" {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// ringBoth opens two devices and rings once on each. When its input ends, it makes a trapped
// call on each.
func ringBoth([]string) error {
	fds, err := openTwo()
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if _, err := unix.Write(fd, make([]byte, doorbellSize)); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	for _, fd := range fds {
		if _, err := unix.Write(fd, make([]byte, doorbellSize/2)); err != nil {
			return err
		}
	}
	return nil
}

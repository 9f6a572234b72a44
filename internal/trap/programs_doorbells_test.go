package trap

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/gorxe/gorxe/internal/trap/filter"
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
		if _, err := unix.Write(fd, make([]byte, filter.DoorbellSize)); err != nil {
			return err
		}
		if _, err := unix.Write(fd, make([]byte, filter.DoorbellSize/2)); err != nil {
			return err
		}
	}
	// A duplicate works as well, and any other write is trapped.
	two, err := unix.Dup(fd)
	if err != nil {
		return err
	}
	_, err = unix.Write(two, make([]byte, filter.DoorbellSize))
	fmt.Println(err)
	return nil
}

// doorbellUntil rings until a doorbell fails, and prints the error.
func doorbellUntil([]string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	fmt.Println("open")
	for err == nil {
		_, err = unix.Write(fd, make([]byte, filter.DoorbellSize))
	}
	_, trapped := unix.Write(fd, make([]byte, filter.DoorbellSize/2))
	_, netlink := openModern(device)
	_, other := os.ReadFile("/etc/passwd")
	fmt.Println(err, trapped, netlink, other)
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
		defer unix.Write(fd, make([]byte, filter.DoorbellSize)) //nolint:errcheck // the host counts it
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
	var fds [2]int
	for i := range fds {
		fd, err := openModern(device)
		if err != nil {
			return err
		}
		fds[i] = fd
	}
	for _, fd := range fds {
		if _, err := unix.Write(fd, make([]byte, filter.DoorbellSize)); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	for _, fd := range fds {
		if _, err := unix.Write(fd, make([]byte, filter.DoorbellSize/2)); err != nil {
			return err
		}
	}
	return nil
}

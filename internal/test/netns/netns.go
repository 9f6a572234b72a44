// Package netns makes hosts of network namespaces, for benchmarks and tests: what
// two machines and a cable between them would be otherwise. It needs
// CAP_SYS_ADMIN and iproute2.
package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is a network namespace. The zero Host is the one that the process is in.
type Host struct {
	ns *os.File // nil: the process's own
}

// New makes a namespace, with the loopback interface up. It lives until it is
// closed and no process is in it.
func New() (*Host, error) {
	h := &Host{}
	err := away(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		h.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making a network namespace (needs root): %w", err)
	}
	if err := h.IP("link set lo up"); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Close gives the namespace up.
func (h *Host) Close() {
	if h.ns != nil {
		h.ns.Close()
	}
}

// Do calls f on a thread that is in the namespace. Sockets that f opens and
// processes that it starts stay there.
func (h *Host) Do(f func() error) error {
	if h.ns == nil {
		return f()
	}
	return away(func() error { return unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET) }, f)
}

// away calls f on a thread that move has taken to another namespace, and takes
// the thread back.
func away(move, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := move(); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, and so ends with its goroutine.
		return errors.Join(err, fmt.Errorf("leaving a network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// IP runs iproute2's ip there.
func (h *Host) IP(args string) error {
	var out []byte
	err := h.Do(func() (err error) {
		out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Link joins two hosts, other than the process's own, by a veth: interface eth0 of
// each, down and without an address.
func Link(a, b *Host, mtu int) error {
	return a.IP(fmt.Sprintf("link add eth0 mtu %d type veth peer name eth0 mtu %d netns /proc/%d/fd/%d",
		mtu, mtu, os.Getpid(), b.ns.Fd()))
}

// Cable links two hosts, with an address each.
func Cable(a, b *Host, mtu int, addrA, addrB netip.Prefix) error {
	if err := Link(a, b, mtu); err != nil {
		return err
	}
	for _, end := range []struct {
		h    *Host
		addr netip.Prefix
	}{{a, addrA}, {b, addrB}} {
		err := errors.Join(end.h.IP("link set eth0 up"), end.h.IP(fmt.Sprintf("addr add %v dev eth0", end.addr)))
		if err != nil {
			return err
		}
	}
	return nil
}

// Listens reports whether something listens on a TCP port in the namespace of
// process pid: programs seldom say when they are ready.
func Listens(pid, port int) bool {
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// "  0: 00000000:4853 00000000:0000 0A ...": address, peer, LISTEN.
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// host is a network namespace, which is all of a host that matters here.
type host struct {
	ns   *os.File // nil: the namespace of the test
	addr string   // its IPv4 address, for what programs say to each other over TCP
	cred *syscall.Credential
	port atomic.Int32
}

// nextPort is a TCP port that no other pair on this host uses.
func (h *host) nextPort() int { return 18000 + int(h.port.Add(1)) }

// as is the same host, with programs run as another user.
func (h *host) as(uid, gid uint32) *host {
	other := &host{ns: h.ns, addr: h.addr, cred: &syscall.Credential{Uid: uid, Gid: gid}}
	other.port.Store(20000 + h.port.Load())
	return other
}

// start starts a command in the namespace: a child inherits the one of the thread
// that forks it.
func (h *host) start(cmd *exec.Cmd) error {
	if h.ns == nil {
		return cmd.Start()
	}
	var err error
	if e := h.enter(func() { err = cmd.Start() }); e != nil {
		return e
	}
	return err
}

// enter calls f on a thread that is in the namespace.
func (h *host) enter(f func()) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("setns: %w", err)
	}
	f()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		// The thread stays locked, and so ends with its goroutine.
		return fmt.Errorf("setns: %w", err)
	}
	runtime.UnlockOSThread()
	return nil
}

// newHost makes a namespace. It is gone when nothing uses it any more.
func newHost(t *testing.T, addr string) *host {
	t.Helper()
	h := &host{addr: addr}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread, which is in the new namespace, ends here.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			h.ns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		missing(t, "cannot make a network namespace: %v", err)
	}
	t.Cleanup(func() { h.ns.Close() })
	h.ip(t, "link set lo up")
	return h
}

// ip runs iproute2 there.
func (h *host) ip(t *testing.T, args string) {
	t.Helper()
	cmd := exec.Command("ip", strings.Fields(args)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := h.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out.String())
	}
}

// The GID indices of a device on such a host: 0 is link-local, 1 IPv4, 2 IPv6.
const (
	gidLinkLocal = 0
	gidIPv4      = 1
	gidIPv6      = 2
)

// twoHosts are joined by a cable: interface eth0 of each.
func twoHosts(t *testing.T, mtu int) (a, b *host) {
	t.Helper()
	need(t, "ip")
	a, b = newHost(t, "10.88.0.1"), newHost(t, "10.88.0.2")
	a.ip(t, fmt.Sprintf("link add eth0 mtu %d type veth peer name eth0 mtu %d netns /proc/%d/fd/%d",
		mtu, mtu, os.Getpid(), b.ns.Fd()))
	for i, h := range []*host{a, b} {
		// Without duplicate address detection addresses can be used at once.
		h.ip(t, fmt.Sprintf("link set eth0 address 02:00:00:00:00:0%d addrgenmode none", i+1))
		h.ip(t, "link set eth0 up")
		h.ip(t, fmt.Sprintf("addr add fe80::%d/64 dev eth0 nodad", i+1))
		h.ip(t, fmt.Sprintf("addr add %s/24 dev eth0", h.addr))
		h.ip(t, fmt.Sprintf("addr add fd88::%d/64 dev eth0 nodad", i+1))
	}
	return a, b
}

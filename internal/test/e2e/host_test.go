package e2e

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// host is a network namespace, which is all of a host that matters here. The zero
// value is that of the test.
type host struct {
	net  netns.Host
	addr string // its IPv4 address, for what programs say to each other over TCP
	cred *syscall.Credential
	port atomic.Int32
}

// nextPort is a TCP port that no other pair on this host uses.
func (h *host) nextPort() int { return 18000 + int(h.port.Add(1)) }

// as is the same host, with programs run as another user.
func (h *host) as(uid, gid uint32) *host {
	other := &host{net: h.net, addr: h.addr, cred: &syscall.Credential{Uid: uid, Gid: gid}}
	other.port.Store(2000 + h.port.Load())
	return other
}

// start starts a command there.
func (h *host) start(cmd *exec.Cmd) error { return h.net.Do(cmd.Start) }

// newHost makes a namespace. It is gone when nothing uses it any more.
func newHost(t *testing.T, addr string) *host {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	t.Cleanup(ns.Close)
	return &host{net: *ns, addr: addr}
}

// ip runs iproute2 there.
func (h *host) ip(t *testing.T, format string, args ...any) {
	t.Helper()
	if err := h.net.IP(fmt.Sprintf(format, args...)); err != nil {
		t.Fatal(err)
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
	if err := netns.Link(&a.net, &b.net, mtu); err != nil {
		t.Fatal(err)
	}
	for i, h := range []*host{a, b} {
		// Without duplicate address detection addresses can be used at once.
		h.ip(t, "link set eth0 address 02:00:00:00:00:0%d addrgenmode none", i+1)
		h.ip(t, "link set eth0 up")
		h.ip(t, "addr add fe80::%d/64 dev eth0 nodad", i+1)
		h.ip(t, "addr add %s/24 dev eth0", h.addr)
		h.ip(t, "addr add fd88::%d/64 dev eth0 nodad", i+1)
	}
	return a, b
}

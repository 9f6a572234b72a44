package route

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// timeout only ends a test that would otherwise hang.
const timeout = time.Minute

// TestMain fails the run if a test leaves a goroutine behind.
func TestMain(m *testing.M) { leak.Main(m, leak.Goroutines("route.(*Resolver)")) }

// hosts returns two hosts with a cable: 10.7.0.1 and fe80::1, 10.7.0.2 and fe80::2.
func hosts(t *testing.T) (a, b *netns.Host) {
	t.Helper()
	host := func() *netns.Host {
		h, err := netns.New()
		if err != nil {
			testenv.Missing(t, "%v", err)
		}
		t.Cleanup(h.Close)
		return h
	}
	a, b = host(), host()
	if err := netns.Link(a, b, 1500); err != nil {
		t.Fatal(err)
	}
	for i, h := range []*netns.Host{a, b} {
		run(t, h, "link set eth0 addrgenmode none", "link set eth0 up",
			fmt.Sprintf("addr add 10.7.0.%d/24 dev eth0", i+1),
			fmt.Sprintf("addr add fe80::%d/64 dev eth0 nodad", i+1),
			fmt.Sprintf("addr add 2001:db8::%d/64 dev eth0 nodad", i+1))
	}
	return a, b
}

// run runs ip on a host.
func run(t *testing.T, h *netns.Host, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if err := h.IP(c); err != nil {
			t.Fatal(err)
		}
	}
}

func resolverOn(t *testing.T, h *netns.Host) *Resolver {
	t.Helper()
	var r *Resolver
	if err := h.Do(func() (err error) { r, err = New(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// index returns the number of interface eth0 of a host.
func index(t *testing.T, r *Resolver) int {
	t.Helper()
	link, err := r.handle.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Index
}

func ip(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func TestRoute(t *testing.T) {
	a, _ := hosts(t)
	run(t, a, "route add 10.8.0.0/16 via 10.7.0.9 hoplimit 7", "route add prohibit 10.9.0.0/16", "route add unreachable 10.10.0.0/16",
		"route add 10.11.0.0/16 via inet6 fe80::9 dev eth0")
	r := resolverOn(t, a)
	eth0 := index(t, r)
	scoped := func(s string) netip.Addr { return ip(s).WithZone(fmt.Sprint(eth0)) }
	for _, c := range []struct {
		name string
		q    Query
		want Route
		err  unix.Errno
	}{
		{name: "on the link", q: Query{Dst: ip("10.7.0.2")}, want: Route{Src: ip("10.7.0.1"), NextHop: ip("10.7.0.2"), Interface: eth0}},
		{name: "with a source", q: Query{Src: ip("10.7.0.1"), Dst: ip("10.7.0.2"), Interface: eth0},
			want: Route{Src: ip("10.7.0.1"), NextHop: ip("10.7.0.2"), Interface: eth0}},
		{name: "gateway", q: Query{Dst: ip("10.8.1.1")}, want: Route{Src: ip("10.7.0.1"), NextHop: ip("10.7.0.9"), Interface: eth0, HopLimit: 7}},
		{name: "IPv6 gateway", q: Query{Dst: ip("10.11.1.1")}, want: Route{Src: ip("10.7.0.1"), NextHop: ip("fe80::9"), Interface: eth0}},
		{name: "own address", q: Query{Dst: ip("10.7.0.1")}, want: Route{Src: ip("10.7.0.1"), NextHop: ip("10.7.0.1"), Interface: 1, Local: true, Direct: true}},
		{name: "loopback", q: Query{Dst: ip("127.0.0.1")}, want: Route{Src: ip("127.0.0.1"), NextHop: ip("127.0.0.1"), Interface: 1, Local: true, Direct: true}},
		{name: "group", q: Query{Src: ip("10.7.0.1"), Dst: ip("239.1.1.1"), Interface: eth0},
			want: Route{Src: ip("10.7.0.1"), NextHop: ip("239.1.1.1"), Interface: eth0, Direct: true}},
		{name: "IPv6", q: Query{Dst: ip("2001:db8::2")}, want: Route{Src: ip("2001:db8::1"), NextHop: ip("2001:db8::2"), Interface: eth0}},
		{name: "link-local", q: Query{Dst: scoped("fe80::2"), Interface: eth0}, want: Route{Src: scoped("fe80::1"), NextHop: ip("fe80::2"), Interface: eth0}},
		{name: "no route", q: Query{Dst: ip("10.99.0.1")}, err: unix.ENETUNREACH},
		{name: "no IPv6 route", q: Query{Dst: ip("2001:db9::1")}, err: unix.ENETUNREACH},
		{name: "prohibited", q: Query{Dst: ip("10.9.0.1")}, err: unix.EACCES},
		{name: "unreachable", q: Query{Dst: ip("10.10.0.1")}, err: unix.EHOSTUNREACH},
		{name: "no such interface", q: Query{Dst: ip("10.7.0.2"), Interface: 99}, err: unix.ENODEV},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.Route(c.q)
			if c.err != 0 {
				if !errors.Is(err, c.err) {
					t.Errorf("error is %v, want %v", err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("route is %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	// The kernel makes the routes of new IPv6 addresses later (addrconf_dad_work).
	must.Eventually(t, "IPv6 addresses are local", func() bool { return r.Local(ip("2001:db8::1")) && r.Local(scoped("fe80::1")) })
	// Which errno it is depends on the kernel.
	if got, err := r.Route(Query{Src: ip("10.7.0.3"), Dst: ip("10.7.0.2")}); err == nil {
		t.Errorf("the route from another host's address is %+v", got)
	}
	for addr, want := range map[netip.Addr]bool{
		ip("10.7.0.1"): true, ip("10.7.0.2"): false, ip("127.0.0.1"): true, ip("2001:db8::1"): true, scoped("fe80::1"): true,
		scoped("fe80::2"): false, ip("10.99.0.1"): false,
	} {
		if got := r.Local(addr); got != want {
			t.Errorf("%v is local: %v, want %v", addr, got, want)
		}
	}
}

// A neighbor that is there answers, one that is not does not, and the kernel remembers.
func TestNeighbor(t *testing.T) {
	a, _ := hosts(t)
	r := resolverOn(t, a)
	for _, dst := range []string{"10.7.0.2", "2001:db8::2", "fe80::2"} {
		q := Query{Dst: ip(dst)}
		if q.Dst.IsLinkLocalUnicast() {
			q.Interface = index(t, r)
		}
		way, err := r.Route(q)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		if known, _ := r.Neighbor(way, func() { close(answered) }); !known {
			select {
			case <-answered:
			case <-time.After(timeout):
				t.Fatalf("%s does not answer", dst)
			}
		}
		if known, _ := r.Neighbor(way, func() { t.Error("done was called for a neighbor that is known") }); !known {
			t.Errorf("%s is not known after its answer", dst)
		}
	}
	absent, err := r.Route(Query{Dst: ip("10.7.0.77")})
	if err != nil {
		t.Fatal(err)
	}
	known, cancel := r.Neighbor(absent, func() { t.Error("a host that does not exist answers") })
	if known {
		t.Error("a host that does not exist is known")
	}
	cancel()
	cancel()
	if len(r.waiting) != 0 {
		t.Errorf("after cancel, %d neighbors are waited for", len(r.waiting))
	}
	if known, _ := r.Neighbor(Route{Direct: true}, nil); !known {
		t.Error("a direct route waits for a neighbor")
	}
}

// A neighbor that comes up late is found: the kernel has given up on it in between.
func TestLateNeighbor(t *testing.T) {
	a, b := hosts(t)
	r := resolverOn(t, a)
	way, err := r.Route(Query{Dst: ip("10.7.0.5")})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{}, 1)
	r.mu.Lock()
	r.onProbe = func(hop) {
		select {
		case failed <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	answered := make(chan struct{})
	if known, _ := r.Neighbor(way, func() { close(answered) }); known {
		t.Fatal("a host that does not exist is known")
	}
	<-failed // the first probe
	<-failed // the kernel has given up, and is asked again
	run(t, b, "addr add 10.7.0.5/24 dev eth0")
	select {
	case <-answered:
	case <-time.After(timeout):
		t.Fatal("no answer")
	}
}

// Membership of a group lasts until it is closed.
func TestJoin(t *testing.T) {
	a, _ := hosts(t)
	r := resolverOn(t, a)
	member := func(group string) bool {
		// /proc/net/igmp has the address as a number of the host's byte order.
		want := map[string]string{"239.1.2.3": "030201EF"}[group]
		var found bool
		err := a.Do(func() error {
			text, err := os.ReadFile("/proc/thread-self/net/igmp")
			found = strings.Contains(string(text), want)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	var c interface{ Close() error }
	if err := a.Do(func() (err error) { c, err = r.Join(index(t, r), ip("239.1.2.3")); return err }); err != nil {
		t.Fatal(err)
	}
	if !member("239.1.2.3") {
		t.Error("the host is not a member")
	}
	c.Close()
	if member("239.1.2.3") {
		t.Error("the host is still a member")
	}
	err := a.Do(func() error { _, err := r.Join(index(t, r), ip("10.1.2.3")); return err })
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("joining an address that is not a group: %v", err)
	}
}

// The ports that are chosen automatically are those of the namespace.
func TestSettings(t *testing.T) {
	a, _ := hosts(t)
	if err := a.Do(func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("5000 5999"), 0),
			os.WriteFile("/proc/sys/net/ipv6/bindv6only", []byte("1"), 0))
	}); err != nil {
		t.Fatal(err)
	}
	r := resolverOn(t, a)
	if low, high := r.PortRange(); low != 5000 || high != 5999 || !r.IPv6Only() {
		t.Errorf("ports %d to %d, IPv6 only: %v", low, high, r.IPv6Only())
	}
}

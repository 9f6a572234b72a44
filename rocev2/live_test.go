package rocev2

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/wire"
	"github.com/vishvananda/netlink"
)

func gid(addr string) wire.GID { return wire.GIDFromAddr(netip.MustParseAddr(addr)) }

// Changes of the interface arrive as port events, and the sockets follow.
func TestLiveChanges(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t, "10.9.0.1/24")
	events := make(chan PortInfo, 64)
	s := newSink(t)
	p := open(t, Config{Interface: "v0", Receiver: s.receive, OnPort: func(i PortInfo) { events <- i }})
	until := func(what string, ok func(PortInfo) bool) PortInfo {
		t.Helper()
		t.Log("waiting for", what)
		for i := range events {
			if ok(i) {
				return i
			}
		}
		return PortInfo{}
	}

	must.OK(t, netlink.LinkSetMTU(c.near, 1500))
	if i := until("MTU 1500", func(i PortInfo) bool { return i.MTU == 1500 }); i.ActiveMTU != 1024 || i.Name != "v0" || len(i.MAC) != 6 {
		t.Errorf("got %+v", i)
	}
	must.OK(t, netlink.LinkSetDown(c.near))
	until("the link to go down", func(i PortInfo) bool { return i.State == PortDown })
	must.OK(t, netlink.LinkSetUp(c.near))
	until("the link to come up", func(i PortInfo) bool { return i.State == PortActive })
	must.OK(t, netlink.LinkSetDown(c.far))
	until("the carrier to go", func(i PortInfo) bool { return i.State == PortDown })
	must.OK(t, netlink.LinkSetUp(c.far))
	until("the carrier to come", func(i PortInfo) bool { return i.State == PortActive })

	for _, a := range []string{"10.9.0.7", "fd09::7"} {
		prefix, mapped := a+"/24", gid(a)
		c.addAddr(prefix)
		i := until(a, func(i PortInfo) bool { return slices.Contains(i.GIDs, mapped) })
		at := slices.Index(i.GIDs, mapped)
		addr := netip.MustParseAddr(a)
		must.OK(t, p.Send([]wire.Burst{burst(&wire.Route{Src: addr, Dst: addr}, 2, 64, 0)}))
		s.wait(2)
		c.delAddr(prefix)
		until(a+" to go", func(i PortInfo) bool { return !slices.Contains(i.GIDs, mapped) })
		if p.Send([]wire.Burst{burst(&wire.Route{Src: addr, Dst: addr}, 1, 64, 0)}) == nil {
			t.Error("sends from an address that is gone")
		}
		c.addAddr(prefix)
		i = until(a+" to come back", func(i PortInfo) bool { return slices.Contains(i.GIDs, mapped) })
		if got := slices.Index(i.GIDs, mapped); got != at {
			t.Errorf("GID index of %s was %d, is now %d", a, at, got)
		}
	}

	must.OK(t, netlink.LinkDel(c.near))
	until("the interface to vanish", func(i PortInfo) bool { return i.State == PortDown })
}

// logLines is a log that goroutines of the port write.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// An interface that is deleted and made again takes up the port. Tunnels and container
// networks do that. The port finds it by name, or by its address if it has only that.
func TestInterfaceAgain(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	const address = "10.9.0.1"
	for _, found := range []struct {
		Config
		next []string // names of the interfaces that follow the first
	}{
		{Config{Interface: "v0"}, []string{"v0", "v0"}},
		// by address, whatever its name
		{Config{Address: netip.MustParseAddr(address)}, []string{"v0", "w0"}},
	} {
		cfg := found.Config
		c := newCable(t, address+"/24", "fd09::1/64")
		events := make(chan PortInfo, 64)
		s := newSink(t)
		var log logLines
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Receiver = s.receive
		cfg.OnPort = func(i PortInfo) { events <- i }
		p := open(t, cfg)
		group := netip.MustParseAddr("239.9.9.9")
		must.OK(t, p.JoinGroup(group))
		before := p.Info()
		addr := netip.MustParseAddr(address)
		at := slices.Index(before.GIDs, gid(address))
		last := "v0"
		for _, next := range found.next {
			gone := c.near.Attrs().Index
			must.OK(t, netlink.LinkDel(c.near))
			for i := range events {
				if i.State == PortDown && i.Index == 0 {
					break
				}
			}
			if p.Send([]wire.Burst{burst(&wire.Route{Src: addr, Dst: addr}, 1, 64, 0)}) == nil {
				t.Error("sends without an interface")
			}
			other := netip.MustParseAddr("239.9.9.10")
			must.OK(t, p.JoinGroup(other))
			must.OK(t, p.LeaveGroup(other))
			c = newNamedCable(t, next, address+"/24", "fd09::1/64")
			for i := range events {
				if i.State == PortActive && slices.Contains(i.GIDs, gid(address)) {
					break
				}
			}
			now := p.Info()
			if now.Name != next || now.Index == before.Index || now.Index != c.near.Attrs().Index || slices.Index(now.GIDs, gid(address)) != at {
				t.Errorf("before %+v, now %+v", before, now)
			}
			must.OK(t, p.Send([]wire.Burst{burst(&wire.Route{Src: addr, Dst: addr}, 2, 64, 0)}))
			s.wait(2)
			for _, want := range []string{
				fmt.Sprintf("the interface was deleted: the port is down until there is one again\" interface=%s index=%d\n", last, gone),
				fmt.Sprintf("there is an interface again\" interface=%s index=%d\n", next, now.Index),
			} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, log.String())
				}
			}
			last = next
		}
		maddrs, err := os.ReadFile("/proc/net/igmp")
		must.OK(t, err)
		if !strings.Contains(string(maddrs), "090909EF") {
			t.Errorf("the group is not joined on the new interface:\n%s", maddrs)
		}
		must.OK(t, p.LeaveGroup(group))
		must.OK(t, p.Close())
		must.OK(t, netlink.LinkDel(c.near))
	}
}

// Opening and closing a port leaks no goroutine and no descriptor.
func TestNoLeak(t *testing.T) {
	addr, group := netip.MustParseAddr("127.0.14.1"), netip.MustParseAddr("239.9.9.9")
	cycle := func() {
		p, err := Open(Config{Address: addr, Receiver: discard})
		must.OK(t, err)
		must.OK(t, p.JoinGroup(group))
		must.OK(t, p.Send([]wire.Burst{burst(&wire.Route{Src: addr, Dst: addr}, 3, 64, 0)}))
		must.OK(t, p.Close())
		must.OK(t, p.Close())
		if _, err := Open(Config{Address: addr, Interface: "nosuch0", Receiver: discard}); err == nil {
			t.Fatal("opened an interface that does not exist")
		}
	}
	cycle()
	const own = "gorxe/rocev2"
	files, goroutines := leak.OpenFiles(), leak.Running(own)
	for range 10 {
		cycle()
	}
	if now := leak.OpenFiles(); len(now) != len(files) {
		t.Errorf("open are %v, before %v", now, files)
	}
	// A goroutine that has called Done may need a moment to end.
	must.Eventually(t, "the goroutines of closed ports end", func() bool { return leak.Running(own) <= goroutines })
}

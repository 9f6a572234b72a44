package rocev2

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/wire"
)

// addrList parses addresses; "" is the zero Addr.
func addrList(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		if a == "" {
			out = append(out, netip.Addr{})
		} else {
			out = append(out, netip.MustParseAddr(a))
		}
	}
	return out
}

// listed returns the addresses of a table, and the zero Addr for its holes.
func listed(t *gidTable) []netip.Addr {
	var out []netip.Addr
	for _, g := range t.gids() {
		if g.IsZero() {
			out = append(out, netip.Addr{})
		} else {
			out = append(out, g.Addr())
		}
	}
	return out
}

func TestGIDTable(t *testing.T) {
	for _, tt := range []struct {
		name, def   string
		addrs, want []netip.Addr
	}{
		{"IPv4 only", "", addrList("10.0.0.1"), addrList("10.0.0.1", "10.0.0.1")},
		{"the usual", "fe80::1", addrList("10.0.0.1", "2001:db8::1", "fe80::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
		{"the default GID is not assigned", "fe80::1", addrList("10.0.0.1", "2001:db8::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
		{"a second link-local", "fe80::1", addrList("10.0.0.1", "fe80::2"), addrList("fe80::1", "10.0.0.1", "fe80::2")},
		{"no IPv4", "fe80::1", addrList("2001:db8::1", "fe80::1"), addrList("fe80::1", "2001:db8::1")},
		{"link-local only", "fe80::1", addrList("fe80::1"), addrList("fe80::1")},
		{"the device's one address is link-local", "", addrList("fe80::1"), addrList("fe80::1", "fe80::1")},
		{"one global", "", addrList("::1"), addrList("::1", "::1")},
		{"loopback interface", "", addrList("127.0.0.1", "::1"), addrList("127.0.0.1", "127.0.0.1", "::1")},
		{"loopback interface with a link-local", "", addrList("127.0.0.1", "::1", "fe80::1"), addrList("fe80::1", "127.0.0.1", "::1")},
		{"two IPv4", "fe80::1", addrList("10.0.0.1", "10.0.0.2", "fe80::1"), addrList("fe80::1", "10.0.0.1", "10.0.0.2")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var def netip.Addr
			if tt.def != "" {
				def = netip.MustParseAddr(tt.def)
			}
			if got := listed(newGIDTable(def, tt.addrs)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// An address keeps its index, and a new one does not take an index that was in use.
func TestGIDTableChanges(t *testing.T) {
	type step struct{ addrs, want []netip.Addr }
	for _, tt := range []struct {
		name, def string
		steps     []step
	}{
		{"address detection ends", "fe80::1", []step{
			{addrList("10.0.0.1"), addrList("fe80::1", "10.0.0.1")},
			{addrList("10.0.0.1", "2001:db8::1", "fe80::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
		}},
		{"the link goes down and up", "fe80::1", []step{
			{addrList("10.0.0.1", "2001:db8::1", "fe80::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
			{addrList("10.0.0.1"), addrList("fe80::1", "10.0.0.1")},
			{addrList("10.0.0.1", "2001:db8::2", "fe80::2"), addrList("fe80::1", "10.0.0.1", "", "2001:db8::2", "fe80::2")},
			{addrList("10.0.0.1", "2001:db8::1", "fe80::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
		}},
		{"an unexpected link-local address", "", []step{
			{addrList("10.0.0.1"), addrList("10.0.0.1", "10.0.0.1")},
			{addrList("10.0.0.1", "fe80::1"), addrList("10.0.0.1", "10.0.0.1", "fe80::1")},
		}},
		{"a hole stays", "fe80::1", []step{
			{addrList("10.0.0.1", "10.0.0.2", "10.0.0.3"), addrList("fe80::1", "10.0.0.1", "10.0.0.2", "10.0.0.3")},
			{addrList("10.0.0.1", "10.0.0.3"), addrList("fe80::1", "10.0.0.1", "", "10.0.0.3")},
			{addrList("10.0.0.1", "10.0.0.3", "10.0.0.4"), addrList("fe80::1", "10.0.0.1", "", "10.0.0.3", "10.0.0.4")},
			{addrList("10.0.0.1", "10.0.0.2"), addrList("fe80::1", "10.0.0.1", "10.0.0.2")},
		}},
		{"IPv4 comes late", "fe80::1", []step{
			{addrList("fe80::1"), addrList("fe80::1")},
			{addrList("2001:db8::1", "fe80::1"), addrList("fe80::1", "", "2001:db8::1")},
			{addrList("10.0.0.1", "2001:db8::1", "fe80::1"), addrList("fe80::1", "10.0.0.1", "2001:db8::1")},
		}},
		{"IPv4 comes after index 1 was given to IPv6", "fe80::1", []step{
			{addrList("2001:db8::1"), addrList("fe80::1", "2001:db8::1")},
			{addrList("10.0.0.1", "2001:db8::1"), addrList("fe80::1", "2001:db8::1", "10.0.0.1")},
		}},
		{"index 1 keeps its address", "fe80::1", []step{
			{addrList("10.0.0.2"), addrList("fe80::1", "10.0.0.2")},
			{addrList("10.0.0.1", "10.0.0.2"), addrList("fe80::1", "10.0.0.2", "10.0.0.1")},
			{addrList("10.0.0.1"), addrList("fe80::1", "", "10.0.0.1")},
		}},
		{"the IPv4 address changes", "fe80::1", []step{
			{addrList("10.0.0.1"), addrList("fe80::1", "10.0.0.1")},
			{addrList("10.0.0.9"), addrList("fe80::1", "10.0.0.9")},
		}},
		{"the only address changes", "", []step{
			{addrList("10.0.0.1"), addrList("10.0.0.1", "10.0.0.1")},
			{nil, nil},
			{addrList("10.0.0.9"), addrList("10.0.0.9", "10.0.0.9")},
		}},
		{"the device's address goes and comes back", "", []step{
			{addrList("127.0.0.7"), addrList("127.0.0.7", "127.0.0.7")},
			{nil, nil},
			{addrList("127.0.0.7"), addrList("127.0.0.7", "127.0.0.7")},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var def netip.Addr
			if tt.def != "" {
				def = netip.MustParseAddr(tt.def)
			}
			table := newGIDTable(def, tt.steps[0].addrs)
			for i, s := range tt.steps {
				table.update(s.addrs)
				if got := listed(table); !slices.Equal(got, s.want) {
					t.Errorf("step %d: got %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

// A full table takes no more addresses, and then reuses an index that was given up.
func TestGIDTableFull(t *testing.T) {
	var many []netip.Addr
	for a := netip.MustParseAddr("10.0.0.1"); len(many) < 100; a = a.Next() {
		many = append(many, a)
	}
	table := newGIDTable(netip.Addr{}, many)
	before := listed(table)
	if len(before) != maxGIDs {
		t.Fatalf("%d entries for 100 addresses", len(before))
	}
	// Of the addresses that are in the table, the one at index 9 goes.
	now := slices.DeleteFunc(slices.Clone(before), func(a netip.Addr) bool { return a == before[9] })
	late := netip.MustParseAddr("2001:db8::1")
	table.update(append(now, late))
	want := slices.Clone(before)
	want[9] = late
	if got := listed(table); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLinkLocalFromMAC(t *testing.T) {
	for mac, want := range map[string]string{
		"52:54:00:12:34:56":       "fe80::5054:ff:fe12:3456", // RFC 4291: the U/L bit is inverted
		"02:00:00:00:00:01":       "fe80::ff:fe00:1",
		"00:00:5e:00:53:01:02:03": "invalid IP", // not a 48-bit MAC
	} {
		hw, err := net.ParseMAC(mac)
		must.OK(t, err)
		if got := linkLocalFrom(hw); got.String() != want {
			t.Errorf("%s: got %v, want %s", mac, got, want)
		}
	}
}

// The default GID is at index 0 from the start: before the interface has a link-local
// address, during duplicate address detection, afterwards, and while the link is down.
func TestDefaultGID(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	// Detection sends a probe a second. So it does not end during the test.
	setIPv6(t, "default", "dad_transmits", 3600)
	must.OK(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}))
	c := &cable{t: t}
	var err error
	c.near, err = netlink.LinkByName("v0")
	must.OK(t, err)
	c.far, err = netlink.LinkByName("v1")
	must.OK(t, err)
	must.OK(t, netlink.LinkSetUp(c.near))
	c.addAddr("10.9.0.1/24")
	def := linkLocalFrom(c.near.Attrs().HardwareAddr)
	want := []wire.GID{wire.GIDFromAddr(def), gid("10.9.0.1")}

	events := make(chan PortInfo, 64)
	p := open(t, Config{Interface: "v0", Receiver: discard, OnPort: func(i PortInfo) { events <- i }})
	check := func(when string) {
		t.Helper()
		if got := p.Info().GIDs; !slices.Equal(got, want) {
			t.Errorf("%s: GIDs %v, want %v", when, got, want)
		}
	}
	// follow adds an IPv4 address, and waits until the port has it. The port then has
	// seen all earlier changes too.
	host := 1
	follow := func(when string) {
		t.Helper()
		host++
		addr := fmt.Sprint("10.9.0.", host)
		c.addAddr(addr + "/24")
		want = append(want, gid(addr))
		for i := range events {
			if slices.Contains(i.GIDs, gid(addr)) {
				break
			}
		}
		check(when)
	}
	if got := c.linkLocals(0); len(got) != 0 {
		t.Fatalf("without a carrier v0 has %v", got)
	}
	check("without a carrier")
	route := &wire.Route{Src: def, Dst: def}
	checkError(t, p.Send([]wire.Burst{burst(route, 1, 64, 0)}), ErrNoAddress, []string{def.String()})

	must.OK(t, netlink.LinkSetUp(c.far))
	for len(c.linkLocals(unix.IFA_F_TENTATIVE)) == 0 { // a worker thread of the kernel adds it
	}
	follow("during detection")
	second := open(t, Config{Interface: "v0", Port: 4792, Receiver: discard})
	if got := second.Info().GIDs; !slices.Equal(got, want) {
		t.Errorf("opened during detection: GIDs %v, want %v", got, want)
	}

	c.delAddr(def.String() + "/64")
	c.addAddr(def.String() + "/64")
	follow("after detection")
	must.OK(t, p.Send([]wire.Burst{burst(route, 1, 64, 0)}))

	must.OK(t, netlink.LinkSetDown(c.near)) // takes the IPv6 addresses away
	follow("with the link down")
	if got := c.linkLocals(0); len(got) != 0 {
		t.Errorf("with the link down v0 has %v", got)
	}
}

// An interface on which the kernel makes no link-local address has no default GID, or
// the link-local address that somebody gave it.
func TestNoDefaultGID(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	setIPv6(t, "default", "addr_gen_mode", 1) // IN6_ADDR_GEN_MODE_NONE
	c := newCable(t, "10.9.0.1/24")
	p := open(t, Config{Interface: "v0", Receiver: discard})
	if got, want := p.Info().GIDs, []wire.GID{gid("10.9.0.1"), gid("10.9.0.1")}; !slices.Equal(got, want) {
		t.Errorf("GIDs %v, want %v", got, want)
	}
	c.addAddr("fe80::9/64")
	want := []wire.GID{gid("fe80::9"), gid("10.9.0.1")}
	if got := open(t, Config{Interface: "v0", Port: 4792, Receiver: discard}).Info().GIDs; !slices.Equal(got, want) {
		t.Errorf("GIDs %v, want %v", got, want)
	}
	infos, err := Interfaces()
	must.OK(t, err)
	for _, i := range infos {
		if i.Name == "v0" && !slices.Equal(i.GIDs, want) {
			t.Errorf("listed GIDs %v, want %v", i.GIDs, want)
		}
	}
}

// linkLocals returns v0's link-local addresses that have all of the flags.
func (c *cable) linkLocals(flags int) []netlink.Addr {
	c.t.Helper()
	list, err := netlink.AddrList(c.near, netlink.FAMILY_V6)
	must.OK(c.t, err)
	return slices.DeleteFunc(list, func(a netlink.Addr) bool { return !a.IP.IsLinkLocalUnicast() || a.Flags&flags != flags })
}

// setIPv6 sets net.ipv6.conf.NAME.KEY in the test's network namespace.
func setIPv6(t *testing.T, name, key string, value int) {
	t.Helper()
	must.OK(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+key, []byte(strconv.Itoa(value)), 0))
}

package engine

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

func TestGUID(t *testing.T) {
	seen := make(map[uint64]Config)
	for _, c := range []Config{
		{Interface: "lo"}, {Interface: "eth0"}, {Interface: "lo", Port: 4792},
		{Address: netip.MustParseAddr("127.0.0.1")}, {Address: netip.MustParseAddr("::1")},
		{Interface: "lo", Address: netip.MustParseAddr("127.0.0.1")},
	} {
		g := c.GUID()
		if g != c.GUID() {
			t.Errorf("%+v has two GUIDs", c)
		}
		if g>>56&3 != 2 {
			t.Errorf("%+v: %#x is not a locally administered EUI-64 of one node", c, g)
		}
		if other, ok := seen[g]; ok {
			t.Errorf("%+v and %+v have the same GUID", c, other)
		}
		seen[g] = c
	}
}

// Hosts with an interface of one name have different GUIDs, by the interface's hardware
// address or by its address. An address that comes later changes nothing if there is a
// hardware address.
func TestGUIDOfHosts(t *testing.T) {
	host := func(setup ...string) *netns.Host {
		h, err := netns.New()
		if err != nil {
			testenv.Missing(t, "%v", err)
		}
		t.Cleanup(h.Close)
		for _, s := range setup {
			must.OK(t, h.IP(s))
		}
		return h
	}
	guid := func(h *netns.Host, c Config) (g uint64) {
		must.OK(t, h.Do(func() error { g = c.GUID(); return nil }))
		return g
	}
	wired := host("link add eth0 address 02:00:00:00:00:01 type veth peer name eth1")
	hosts := []*netns.Host{
		wired,
		host("link add eth0 address 02:00:00:00:00:02 type veth peer name eth1"),
		host("tuntap add eth0 mode tun", "addr add 10.1.1.1/24 dev eth0"),
		host("tuntap add eth0 mode tun", "addr add 10.1.1.2/24 dev eth0"),
	}
	seen := make(map[uint64]int)
	for i, h := range hosts {
		for _, c := range []Config{{Interface: "eth0"}, {Interface: "eth0", Address: netip.MustParseAddr("10.1.1.3")}} {
			g := guid(h, c)
			if j, ok := seen[g]; ok {
				t.Errorf("hosts %d and %d have the same GUID", i, j)
			}
			seen[g] = i
		}
	}
	before := guid(wired, Config{Interface: "eth0"})
	must.OK(t, wired.IP("addr add 10.1.1.9/24 dev eth0"))
	if after := guid(wired, Config{Interface: "eth0"}); after != before {
		t.Errorf("the GUID changed from %#x to %#x", before, after)
	}
}

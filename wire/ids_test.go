package wire

import (
	"net/netip"
	"testing"
)

func TestPKeyMatch(t *testing.T) {
	for _, c := range []struct {
		a, b PKey
		want bool
	}{
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},
		{0x7fff, 0xffff, true},
		{0x7fff, 0x7fff, false}, // two limited members
		{0x8001, 0x0001, true},
		{0x8001, 0x8002, false},
		{0x8000, 0x8000, false}, // partition 0 is invalid
		{0x8000, 0x0000, false},
		{0x0000, 0x0000, false},
	} {
		if got := PKeyMatch(c.a, c.b); got != c.want {
			t.Errorf("PKeyMatch(%#04x, %#04x) = %v", c.a, c.b, got)
		}
	}
}

func TestGID(t *testing.T) {
	for _, c := range []struct {
		addr, gid string
		back      string
		multicast bool
	}{
		{"192.0.2.1", "0000:0000:0000:0000:0000:ffff:c000:0201", "192.0.2.1", false},
		{"::ffff:192.0.2.1", "0000:0000:0000:0000:0000:ffff:c000:0201", "192.0.2.1", false},
		{"fe80::1%eth0", "fe80:0000:0000:0000:0000:0000:0000:0001", "fe80::1", false},
		{"ff02::1", "ff02:0000:0000:0000:0000:0000:0000:0001", "ff02::1", true},
		{"239.1.2.3", "0000:0000:0000:0000:0000:ffff:ef01:0203", "239.1.2.3", true},
	} {
		g := GIDFromAddr(netip.MustParseAddr(c.addr))
		if got := g.String(); got != c.gid {
			t.Errorf("%s: String = %s, want %s", c.addr, got, c.gid)
		}
		if got := g.Addr(); got != netip.MustParseAddr(c.back) {
			t.Errorf("%s: Addr = %s, want %s", c.addr, got, c.back)
		}
		if g.IsMulticast() != c.multicast || g.IsZero() {
			t.Errorf("%s: IsMulticast = %v, IsZero = %v", c.addr, g.IsMulticast(), g.IsZero())
		}
	}
	if g := GIDFromAddr(netip.Addr{}); !g.IsZero() {
		t.Errorf("GID of no address is %s", g)
	}
}

package rocev2

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// dialFrom is a plain UDP socket towards the RoCEv2 port of dst.
func dialFrom(t testing.TB, src, dst netip.Addr) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, wire.UDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

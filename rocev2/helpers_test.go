package rocev2

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"
	rocelayers "github.com/gorxe/gorxe/rocev2/layers"
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

// captured returns the packets of a capture.
func captured(t testing.TB, name string) (packets []gopacket.Packet) {
	t.Helper()
	rocelayers.Register()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return packets
		}
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, gopacket.NewPacket(frame, r.LinkType(), gopacket.Default))
	}
}

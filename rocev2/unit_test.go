package rocev2

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// The figures are what Linux rdma_rxe shows for the same interface MTU.
func TestActiveMTU(t *testing.T) {
	for _, tt := range []struct{ link, want int }{
		{0, 256}, {68, 256}, {336, 256}, {591, 256}, {592, 512}, {1103, 512}, {1104, 1024}, {1500, 1024}, {2128, 2048},
		{4175, 2048}, {4176, 4096}, {4200, 4096}, {9000, 4096}, {65536, 4096},
	} {
		if got := activeMTU(tt.link); got != tt.want {
			t.Errorf("interface MTU %d: got %d, want %d", tt.link, got, tt.want)
		}
	}
}

func TestLinkState(t *testing.T) {
	for _, tt := range []struct {
		flags uint32
		want  PortState
	}{{0, PortDown}, {unix.IFF_UP, PortDown}, {unix.IFF_LOWER_UP, PortDown}, {unix.IFF_UP | unix.IFF_LOWER_UP, PortActive}} {
		if got := linkState(tt.flags); got != tt.want {
			t.Errorf("flags %#x: %v, want %v", tt.flags, got, tt.want)
		}
	}
	if PortDown != 1 || PortInit != 2 || PortActive != 4 {
		t.Error("not enum ibv_port_state")
	}
}

func TestParseControl(t *testing.T) {
	full := func() []byte {
		b := make([]byte, 0, 6*cmsgSpace)
		b = appendCmsg(b, unix.IPPROTO_IP, unix.IP_TTL, 63, 4)
		b = appendCmsg(b, unix.IPPROTO_IP, unix.IP_TOS, 0x6a, 4)
		return appendCmsg(b, unix.SOL_UDP, unix.UDP_GRO, 1040, 4)
	}()
	want := rxMeta{segment: 1040, trafficClass: 0x6a, hopLimit: 63}
	if got := parseControl(full); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for n := range full {
		parseControl(full[:n:n]) // any prefix: no panic
	}
	v6 := make([]byte, 0, 6*cmsgSpace)
	v6 = appendCmsg(v6, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, 255, 4)
	v6 = appendCmsg(v6, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 3, 4)
	if got := parseControl(v6); got != (rxMeta{trafficClass: 3, hopLimit: 255}) {
		t.Errorf("got %+v", got)
	}
}

// FuzzSplit: for any control messages, splitting ends and loses nothing, and every
// packet except the last has the size that they give.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("0123456789"), 4, []byte{})
	f.Add([]byte{}, 0, make([]byte, 24))
	f.Add(make([]byte, 100), -1, appendCmsg(make([]byte, 0, cmsgSpace), unix.SOL_UDP, unix.UDP_GRO, 10, 4))
	f.Fuzz(func(t *testing.T, data []byte, size int, control []byte) {
		for _, size := range []int{size, parseControl(control).segment} {
			total := 0
			for pkt, rest := nextPacket(data, size); ; pkt, rest = nextPacket(rest, size) {
				total += len(pkt)
				if len(rest) > 0 && len(pkt) != size {
					t.Fatalf("a packet of %d bytes before the last, size %d", len(pkt), size)
				}
				if len(rest) == 0 {
					break
				}
			}
			if total != len(data) {
				t.Fatalf("%d bytes of %d", total, len(data))
			}
		}
	})
}

// FuzzReceive passes datagrams to a reader, as the kernel could.
func FuzzReceive(f *testing.F) {
	f.Add(make([]byte, 16), 0, uint16(0xc000))
	f.Add(make([]byte, 200), 50, uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, size int, srcPort uint16) {
		p := &Port{cfg: Config{Port: 4791}}
		p.own.Store(new([]netip.Addr))
		for _, a := range addrList("10.0.0.1", "fe80::1") {
			r := newReader(&receiver{port: p, addr: a})
			r.accept(data, rxMeta{segment: size}, a.Next(), srcPort)
			packets := uint64(1)
			if size > 0 && len(data) > 0 {
				packets = uint64((len(data)-1)/size + 1)
			}
			c := &p.counters
			if got := c.ReceivedPackets.Swap(0) + c.ICRCErrors.Swap(0) + c.Malformed.Swap(0); got != packets {
				t.Fatalf("%d packets counted, want %d", got, packets)
			}
		}
	})
}

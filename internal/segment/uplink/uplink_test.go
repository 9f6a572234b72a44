package uplink

import (
	"bytes"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

var (
	ourMAC, hostMAC = [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	ourIP, hostIP   = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
)

// veth makes the interfaces here and host. The host's sockets have the addresses of host, and know
// that ourIP is behind it, at ourMAC.
func veth(t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"link add here mtu 1500 type veth peer name host mtu 1500",
		"link set host address 02:00:00:00:00:02",
		"link set here up", "link set host up", "addr add 10.9.0.2/24 dev host",
		"neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev host",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}

// openHere opens the uplink, and returns what arrives for ourMAC.
func openHere(t *testing.T) (*Uplink, <-chan []byte) {
	t.Helper()
	u := must.Get[*Uplink](t)(Open("here"))
	t.Cleanup(u.Close)
	got := make(chan []byte, 64)
	u.Receive(func(b []byte) {
		if [6]byte(b[:6]) == ourMAC && len(got) < cap(got) {
			got <- bytes.Clone(b)
		}
	})
	return u, got
}

// frame makes a UDP packet from ourIP to hostIP.
func frame(payload string, port uint16) []byte {
	b := append(append(append([]byte(nil), hostMAC[:]...), ourMAC[:]...), 8, 0)
	src, dst := ourIP.As4(), hostIP.As4()
	b = append(b, 0x45, 0, 0, byte(28+len(payload)), 0, 0, 0x40, 0, 64, ether.ProtoUDP, 0, 0)
	b = append(append(b, src[:]...), dst[:]...)
	b = append(b, 0x12, 0x34, byte(port>>8), byte(port), 0, byte(8+len(payload)), 0, 0)
	b = append(b, payload...)
	f := ether.Parse(b)
	f.SetSums(true, true)
	return b
}

// TestHostSocket: a frame reaches an ordinary socket at the other end of a veth. The answer comes
// back as the wire would have it, with its checksums, and with its VLAN tag.
func TestHostSocket(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	veth(t)
	u, got := openHere(t)
	c := must.Get[*net.UDPConn](t)(net.ListenUDP("udp4", &net.UDPAddr{}))
	defer c.Close()
	// An interface that is up may lose packets for a moment, so all are sent until they arrive.
	buf := make([]byte, 2048)
	var from netip.AddrPort
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port)
	must.Eventually(t, "the socket has the frame", func() bool {
		u.Send([][]byte{frame("from a raw frame", port)})
		must.OK(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		n, who, err := c.ReadFromUDPAddrPort(buf)
		from = who
		return err == nil && string(buf[:n]) == "from a raw frame"
	})
	if from != netip.AddrPortFrom(ourIP, 0x1234) {
		t.Errorf("from %v", from)
	}
	answers := func(send func(), tagged bool, vlan uint16) {
		t.Helper()
		must.Eventually(t, "the answer is right", func() bool {
			send()
			select {
			case b := <-got:
				f := ether.Parse(b)
				ip, l4 := f.Sums()
				return ip && l4 && f.Tagged == tagged && f.VLAN == vlan && bytes.HasSuffix(f.Data[:f.End], []byte("from a socket"))
			default:
				return false
			}
		})
	}
	socket := func() { c.WriteToUDPAddrPort([]byte("from a socket"), from) } //nolint:errcheck // the next one may arrive
	answers(socket, false, 0)
	back := must.Get[*Uplink](t)(Open("host"))
	defer back.Close()
	tagged := frame("from a socket", 9)
	copy(tagged, ourMAC[:])
	answers(func() { back.Send([][]byte{ether.AppendVLAN(nil, tagged, 0xe007)}) }, true, 0xe007)
	must.OK(t, exec.Command("ip", "link", "set", "here", "down").Run())
	if u.Send([][]byte{frame("lost", 9)}) != 0 {
		t.Error("a frame was sent over an interface that is down")
	}
	must.OK(t, exec.Command("ip", "link", "set", "here", "up").Run())
	answers(socket, false, 0)
}

// TestOpen: a loopback has no uplink, and a missing interface none.
func TestOpen(t *testing.T) {
	if _, err := Open("lo"); err != unix.EOPNOTSUPP {
		t.Errorf("lo: %v", err)
	}
	if _, err := Open("no such one"); err == nil {
		t.Error("an interface that does not exist")
	}
}

// TestFinish: the receiver does what the kernel leaves to an interface.
func TestFinish(t *testing.T) {
	var got [][]byte
	r := receiver{u: new(Uplink), arrive: func(b []byte) { got = append(got, bytes.Clone(b)) }}
	b := frame("abcd", 9)
	b[14+20+6]++
	r.finish(b, head{})
	r.finish(b, head{needsSum: true})
	for i, want := range []bool{false, true} {
		f := ether.Parse(got[i])
		if _, l4 := f.Sums(); l4 != want {
			t.Errorf("frame %d: checksum %v", i, l4)
		}
	}
	got = nil
	long := append(append(append([]byte(nil), hostMAC[:]...), ourMAC[:]...), 8, 0,
		0x45, 0, 0, 0, 0, 0, 0, 0, 64, ether.ProtoTCP, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2,
		0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 1, 0, 0, 0, 0)
	long = append(long, make([]byte, 2500)...)
	r.finish(long, head{gso: unix.VIRTIO_NET_HDR_GSO_TCPV4, size: 1000})
	if len(got) != 3 || len(got[2]) != 14+20+20+500 {
		t.Errorf("%d segments", len(got))
	}
	r.finish(b, head{gso: unix.VIRTIO_NET_HDR_GSO_UDP, size: 1000})
	r.finish(long, head{gso: unix.VIRTIO_NET_HDR_GSO_TCPV4})
	if r.u.ReceiveDrops.Load() != 2 {
		t.Error("what cannot be cut was not counted")
	}
}

// FuzzFinish: nothing that a host of the network sends makes the receiver panic.
func FuzzFinish(f *testing.F) {
	f.Add(append(make([]byte, headSize), frame("abcd", 9)...), []byte(nil))
	f.Add(append([]byte{1, 1, 0, 0, 10}, frame("abcd", 9)...), make([]byte, 36))
	f.Fuzz(func(_ *testing.T, b, aux []byte) {
		if len(b) > headSize+frameRoom {
			return
		}
		r := receiver{u: new(Uplink), arrive: func([]byte) {}}
		r.take(append(make([]byte, 0, len(b)+vlanSize), b...), aux, true)
	})
}

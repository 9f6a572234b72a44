package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
)

// sink is a receiver that keeps what it gets.
type sink struct {
	frames [][]byte
	infos  []rxe.FrameInfo
}

func (s *sink) ReceiveFrame(b []byte, i rxe.FrameInfo) {
	s.frames, s.infos = append(s.frames, bytes.Clone(b)), append(s.infos, i)
}

// took returns how many frames came since the last call.
func (s *sink) took() int {
	n := len(s.frames)
	s.frames, s.infos = nil, nil
	return n
}

// node is a station with a sink for its own address, and one that gets everything.
type node struct {
	*Station
	own, all sink
	wakes    int
}

const testMTU = 1500

// SendFrame sends one frame.
func (n *node) SendFrame(q *rxe.QP, b []byte, as rxe.FrameSend) {
	n.SendFrames(q, []rxe.FrameOut{{Data: b, As: as}})
}

func newNode(t *testing.T, s *Segment, last byte) *node {
	t.Helper()
	n := &node{}
	n.Station = s.Join(Config{MAC: [6]byte{2, 0, 0, 0, 0, last}, MTU: func() int { return testMTU }, Wake: func() { n.wakes++ }})
	own := &ether.Rule{To: &n.own, Priority: 1}
	own.Match.Eth(ether.Eth{Dst: n.mac}, ether.Eth{Dst: [6]byte{255, 255, 255, 255, 255, 255}})
	must.OK(t, n.AddFlow(own))
	return n
}

func (n *node) promiscuous(t *testing.T) {
	t.Helper()
	must.OK(t, n.AddFlow(&ether.Rule{Type: ether.AllDefault, To: &n.all}))
}

func frameOf(dst, src [6]byte, rest ...byte) []byte {
	return append(append(append([]byte(nil), dst[:]...), src[:]...), rest...)
}

var plain = []byte{0x88, 0xb5, 1, 2, 3}

// TestSwitch: a frame goes to the station with its destination. One to an address that nobody is
// known to have goes to all, until a frame comes from there. So does a multicast.
func TestSwitch(t *testing.T) {
	var s Segment
	a, b, c := newNode(t, &s, 1), newNode(t, &s, 2), newNode(t, &s, 3)
	for _, n := range []*node{a, b, c} {
		n.promiscuous(t)
	}
	made := [6]byte{2, 9, 9, 9, 9, 9}
	counts := func() string {
		return fmt.Sprint(a.own.took(), a.all.took(), b.own.took(), b.all.took(), c.own.took(), c.all.took())
	}
	for _, step := range []struct {
		name     string
		from     *node
		dst, src [6]byte
		want     string
	}{
		{"to a station", a, b.mac, a.mac, "0 0 1 0 0 0"},
		{"to nobody known", a, made, a.mac, "0 1 0 1 0 1"},
		{"from the address, at c", c, b.mac, made, "0 0 1 0 0 0"},
		{"to the address", a, made, a.mac, "0 0 0 0 0 1"},
		{"multicast", b, [6]byte{1, 0, 0x5e, 0, 0, 1}, b.mac, "0 1 0 1 0 1"},
		{"the address moves", b, a.mac, made, "1 0 0 0 0 0"},
		{"to where it is now", a, made, a.mac, "0 0 0 1 0 0"},
		{"a station to itself", a, a.mac, a.mac, "1 0 0 0 0 0"},
		{"a multicast source is not learned", b, a.mac, [6]byte{3}, "1 0 0 0 0 0"},
	} {
		step.from.SendFrame(nil, frameOf(step.dst, step.src, plain...), rxe.FrameSend{})
		if got := counts(); got != step.want {
			t.Errorf("%s: %s frames, want %s", step.name, got, step.want)
		}
	}
	if a.wakes == 0 || b.wakes == 0 || c.wakes == 0 {
		t.Error("a device was not woken")
	}
	before := a.wakes
	a.SendFrame(nil, frameOf(a.mac, a.mac, plain...), rxe.FrameSend{})
	if a.own.took() != 1 || a.wakes != before {
		t.Error("the device that sends was woken")
	}
	c.Leave()
	a.SendFrame(nil, frameOf(c.mac, a.mac, plain...), rxe.FrameSend{})
	if got := counts(); got != "0 1 0 1 0 0" {
		t.Errorf("after c has left: %s", got)
	}
}

// TestLearnPerVLAN: the same address in two VLANs may be two stations.
func TestLearnPerVLAN(t *testing.T) {
	var s Segment
	a, b, c := newNode(t, &s, 1), newNode(t, &s, 2), newNode(t, &s, 3)
	b.promiscuous(t)
	c.promiscuous(t)
	made := [6]byte{2, 9, 9, 9, 9, 9}
	tagged := func(vlan byte) rxe.FrameSend {
		return rxe.FrameSend{Flags: rxe.FrameInsertVLAN, VLAN: 0xe000 | uint16(vlan)}
	}
	b.SendFrame(nil, frameOf(a.mac, made, plain...), tagged(5))
	c.SendFrame(nil, frameOf(a.mac, made, plain...), tagged(6))
	a.SendFrame(nil, frameOf(made, a.mac, plain...), tagged(5))
	if b.all.took() != 1 || c.all.took() != 0 {
		t.Error("VLAN 5 is not at b alone")
	}
	a.SendFrame(nil, frameOf(made, a.mac, plain...), tagged(6))
	if i := c.all.infos; b.all.took() != 0 || len(i) != 1 || i[0].Flags&rxe.FrameVLAN == 0 || i[0].VLAN != 0xe006 {
		t.Errorf("VLAN 6 is not at c alone: %+v", i)
	}
}

// TestLearnBounded: made-up addresses do not fill the memory.
func TestLearnBounded(t *testing.T) {
	var s Segment
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	for i := range uint32(3 * maxLearned) {
		src := [6]byte{2, 9}
		binary.BigEndian.PutUint32(src[2:], i)
		a.SendFrame(nil, frameOf(b.mac, src, plain...), rxe.FrameSend{})
	}
	if n := len(s.learned); n > maxLearned || n == 0 {
		t.Errorf("learned %d addresses", n)
	}
}

// TestLengths: a frame that is longer than the MTU with two VLAN tags is not sent, and counted.
func TestLengths(t *testing.T) {
	var s Segment
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	longest := make([]byte, testMTU+HeaderSpace)
	copy(longest, frameOf(b.mac, a.mac, plain...))
	a.SendFrame(nil, longest, rxe.FrameSend{})
	a.SendFrame(nil, append(longest, 0), rxe.FrameSend{})
	if b.own.took() != 1 || a.Counters.TooLong.Load() != 1 || a.Counters.Sent.Load() != 1 {
		t.Errorf("%v", a.Counters.List())
	}
	a.SendFrame(nil, frameOf([6]byte{2, 7}, a.mac, plain...), rxe.FrameSend{})
	if b.Counters.NoFlow.Load() != 1 {
		t.Errorf("nobody wants it: %v", b.Counters.List())
	}
}

// udp makes a UDP packet over IPv4, with wrong checksums.
func udp(dst, src [6]byte) []byte {
	b := frameOf(dst, src, 8, 0)
	b = append(b, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 9, 9, 10, 0, 0, 1, 10, 0, 0, 2)
	return append(b, 0, 7, 0, 9, 0, 12, 9, 9, 'a', 'b', 'c', 'd')
}

// TestOffloads: checksums are computed if the sender asks for it, and the receiver is told whether
// they are right.
func TestOffloads(t *testing.T) {
	var s Segment
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	for _, as := range []struct {
		flags rxe.FrameSendFlags
		want  rxe.FrameFlags
	}{
		{0, 0}, {rxe.FrameL3Sum, rxe.FrameL3OK}, {rxe.FrameL4Sum, rxe.FrameL4OK},
		{rxe.FrameL3Sum | rxe.FrameL4Sum, rxe.FrameL3OK | rxe.FrameL4OK},
	} {
		a.SendFrame(nil, udp(b.mac, a.mac), rxe.FrameSend{Flags: as.flags})
		if i := b.own.infos; len(i) != 1 || i[0] != (rxe.FrameInfo{Flags: as.want, L3: L3IPv4, L4: L4UDP}) {
			t.Errorf("%b: %+v", as.flags, i)
		}
		b.own.took()
	}
}

// tcp makes a TCP packet over IPv4 with a payload. Its checksums are wrong.
func tcp(dst, src [6]byte, payload []byte) []byte {
	b := frameOf(dst, src, 8, 0)
	b = append(b, 0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	b = append(b, 0, 7, 0, 9, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0)
	return append(b, payload...)
}

const tcpHead = 14 + 20 + 20

// TestCut: a long TCP frame arrives as segments with right checksums.
func TestCut(t *testing.T) {
	var s Segment
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	payload := bytes.Repeat([]byte("0123456789"), 500)
	as := rxe.FrameSend{MSS: 1400, Header: tcpHead}
	a.SendFrame(nil, tcp(b.mac, a.mac, payload), as)
	var got []byte
	for i, f := range b.own.frames {
		if b.own.infos[i].Flags != rxe.FrameL3OK|rxe.FrameL4OK {
			t.Errorf("segment %d: %+v", i, b.own.infos[i])
		}
		if seq := binary.BigEndian.Uint32(f[14+20+4:]); int(seq) != 100+len(got) {
			t.Errorf("segment %d has sequence number %d", i, seq)
		}
		got = append(got, f[tcpHead:]...)
	}
	if !bytes.Equal(got, payload) || len(b.own.frames) != 4 {
		t.Errorf("%d bytes in %d segments", len(got), len(b.own.frames))
	}
	b.own.took()
	as.Flags, as.VLAN = rxe.FrameInsertVLAN, 3
	a.SendFrame(nil, tcp(b.mac, a.mac, payload), as)
	if i := b.own.infos; len(i) != 4 || i[3].VLAN != 3 || i[3].Flags != rxe.FrameL3OK|rxe.FrameL4OK|rxe.FrameVLAN {
		t.Errorf("with a tag: %+v", i)
	}
	b.own.took()
	a.SendFrame(nil, udp(b.mac, a.mac), rxe.FrameSend{MSS: 4, Header: 42})
	if b.own.took() != 0 || a.Counters.BadSegments.Load() != 1 {
		t.Errorf("UDP was cut: %v", a.Counters.List())
	}
	a.SendFrame(nil, tcp(b.mac, a.mac, payload), rxe.FrameSend{MSS: 4, Header: tcpHead})
	if b.own.took() != 0 || a.Counters.BadSegments.Load() != 2 {
		t.Errorf("a thousand segments of one request: %v", a.Counters.List())
	}
}

// TestSenderAndSniffer: a queue pair does not receive what it sends, but a sniffer of its device
// does.
func TestSenderAndSniffer(t *testing.T) {
	var s Segment
	a := newNode(t, &s, 1)
	must.OK(t, a.AddFlow(&ether.Rule{Type: ether.Sniffer, To: &a.all}))
	a.SendFrame(nil, frameOf([6]byte{2, 5}, a.mac, plain...), rxe.FrameSend{})
	if a.all.took() == 0 {
		t.Error("the sniffer sees nothing that its station sends")
	}
	f := ether.Parse(frameOf(a.mac, a.mac, plain...))
	s.forward(&f, a.Station, &sending{from: a.Station, queue: &a.own})
	if a.own.took() != 0 {
		t.Error("the sender got its own frame")
	}
}

// TestUsers: users have segments of their own, which end with the last queue pair.
func TestUsers(t *testing.T) {
	var u Users
	station := func(user string, device byte) *Station {
		return must.Get[*Station](t)(u.Station(user, device, func() (Config, error) {
			return Config{MAC: [6]byte{2, 0, 0, 0, 0, device}, MTU: func() int { return testMTU }, Wake: func() {}}, nil
		}))
	}
	a, b := station("ann", 1), station("bob", 1)
	var ann, bob sink
	must.OK(t, a.AddFlow(&ether.Rule{Type: ether.AllDefault, To: &ann}))
	must.OK(t, b.AddFlow(&ether.Rule{Type: ether.AllDefault, To: &bob}))
	other := station("ann", 2)
	other.SendFrames(nil, []rxe.FrameOut{{Data: frameOf([6]byte{255, 255, 255, 255, 255, 255}, other.mac, plain...)}})
	if ann.took() != 1 || bob.took() != 0 {
		t.Error("a frame reached another user, or not its own")
	}
	if station("ann", 1) != a {
		t.Error("a device has two stations")
	}
	a.Release()
	if len(u.of["ann"].byDevice) != 2 {
		t.Error("gone while it is used")
	}
	a.Release()
	other.Release()
	b.Release()
	refused := errors.New("no station")
	if _, err := u.Station("eve", 1, func() (Config, error) { return Config{}, refused }); err != refused {
		t.Errorf("%v", err)
	}
	if len(u.of) != 0 {
		t.Errorf("left: %v", u.of)
	}
}

type tap [][]byte

func (t *tap) Frame(b []byte) { *t = append(*t, bytes.Clone(b)) }

// TestCapture: a tap sees each frame once, as it is on the wire.
func TestCapture(t *testing.T) {
	var s Segment
	var seen tap
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	b.promiscuous(t)
	s.Capture(&seen)
	a.SendFrame(nil, frameOf(b.mac, a.mac, plain...), rxe.FrameSend{Flags: rxe.FrameInsertVLAN, VLAN: 7})
	s.Capture(nil)
	a.SendFrame(nil, frameOf(b.mac, a.mac, plain...), rxe.FrameSend{})
	if len(seen) != 1 || !bytes.Equal(seen[0], b.own.frames[0]) {
		t.Errorf("% x", seen)
	}
}

// TestCaptureUsers: a tap sees the segments that exist already, and those of later users, until
// another one or none replaces it.
func TestCaptureUsers(t *testing.T) {
	var u Users
	send := func(user string) *Station {
		st := must.Get[*Station](t)(u.Station(user, 1, func() (Config, error) {
			return Config{MAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: func() int { return testMTU }, Wake: func() {}}, nil
		}))
		st.SendFrames(nil, []rxe.FrameOut{{Data: frameOf([6]byte{2, 0, 0, 0, 0, 2}, st.mac, plain...)}})
		return st
	}
	defer send("ann").Release()
	var seen tap
	u.Capture(&seen)
	defer send("ann").Release()
	defer send("bob").Release()
	u.Capture(nil)
	defer send("ann").Release()
	if len(seen) != 2 {
		t.Errorf("the tap has %d frames", len(seen))
	}
}

// FuzzSend: whatever a work request says, nothing panics, and what arrives is no longer than the
// segment takes.
func FuzzSend(f *testing.F) {
	f.Add(udp([6]byte{2, 0, 0, 0, 0, 2}, [6]byte{2}), uint64(0))
	f.Add(tcp([6]byte{2, 0, 0, 0, 0, 2}, [6]byte{2}, make([]byte, 3000)), rxe.FrameSend{Flags: 7, VLAN: 1, MSS: 100, Header: tcpHead}.Word())
	f.Add(make([]byte, 14), rxe.FrameSend{Flags: 7, MSS: 1, Header: 14}.Word())
	f.Fuzz(func(t *testing.T, b []byte, word uint64) {
		if len(b) < rxe.MinFrame || len(b) > rxe.MaxFrame {
			return
		}
		var s Segment
		a, to := newNode(t, &s, 1), newNode(t, &s, 2)
		to.promiscuous(t)
		a.SendFrame(nil, b, rxe.FrameSendOf(word))
		for _, got := range append(to.own.frames, to.all.frames...) {
			if len(got) > testMTU+HeaderSpace || len(got) < rxe.MinFrame {
				t.Errorf("%d bytes", len(got))
			}
		}
	})
}

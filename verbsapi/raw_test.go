package verbsapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	testmust "github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// rawEnd is a queue pair for raw packets that receives what is sent to its device.
type rawEnd struct {
	*end
	mac [6]byte
}

func newRawEnd(t *testing.T, c *Context, init QPInitAttr) *rawEnd {
	t.Helper()
	e := &end{t: t, ctx: c, buf: make([]byte, 64<<10)}
	e.pd = must(c.AllocPD())(t)
	e.mr = must(e.pd.RegMR(e.buf, testAccess))(t)
	e.cq = must(c.CreateCQ(256, nil))(t)
	init.Type, init.SendCQ, init.RecvCQ = QPRaw, e.cq, e.cq
	init.Cap = QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	e.qp = must(e.pd.CreateQP(init))(t)
	if err := e.qp.Activate(); err != nil {
		t.Fatal(err)
	}
	return &rawEnd{e, c.MAC()}
}

func (e *rawEnd) flow(attr FlowAttr) *Flow {
	e.t.Helper()
	return must(e.qp.CreateFlow(attr))(e.t)
}

// frame makes a frame of a type that nothing knows, with a payload.
func frame(to, from [6]byte, payload string) []byte {
	b := append(append([]byte(nil), to[:]...), from[:]...)
	// IEEE 802: local experiments
	return append(binary.BigEndian.AppendUint16(b, 0x88b5), payload...)
}

// send posts a frame from the second half of the buffer.
func (e *rawEnd) send(f []byte, as FrameSend) {
	e.t.Helper()
	copy(e.buf[32<<10:], f)
	e.post(SendWR{ID: 99, Op: WRSend, SGL: []SGE{e.mr.SGE(32<<10, len(f))}, Frame: as})
}

// TestRaw: two devices of a process exchange frames over their segment, in both directions. A flow
// decides who gets a frame.
func TestRaw(t *testing.T) {
	ctx := testContext(t)
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	if a.mac == b.mac {
		t.Fatal("two devices with one address")
	}
	for _, e := range []*rawEnd{a, b} {
		e.flow(FlowAttr{Specs: []FlowSpec{FlowTo(e.mac)}})
		e.recv(1, 0, 2048)
	}
	for _, way := range [][2]*rawEnd{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		f := frame(to.mac, from.mac, "across the segment")
		from.send(f, FrameSend{})
		from.expect(ctx, 99, WCSuccess)
		wc := to.expect(ctx, 1, WCSuccess)
		if !bytes.Equal(to.buf[:wc.ByteLen], f) || wc.QPN != to.qp.Num() || wc.Opcode != WCRecv {
			t.Errorf("%+v: % x", wc, to.buf[:wc.ByteLen])
		}
	}
}

// ipv4UDP makes a UDP packet over IPv4, without checksums.
func ipv4UDP(to, from [6]byte, port uint16, payload string) []byte {
	b := frame(to, from, "")
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	b = append(b, 0x45, 0, 0, byte(28+len(payload)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2)
	b = append(b, 0x12, 0x34, byte(port>>8), byte(port), 0, byte(8+len(payload)), 0, 0)
	return append(b, payload...)
}

// TestRawOffloads: the device computes checksums and inserts a tag. The receiver is told that the
// checksums are right, and what the tag and the flow's tag were. Its queue pair has the tag
// removed, and the check sequence behind the frame.
func TestRawOffloads(t *testing.T) {
	ctx := testContext(t)
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{StripVLAN: true, ScatterFCS: true})
	b.flow(FlowAttr{Specs: []FlowSpec{FlowTo(b.mac)}, Tag: 77})
	b.recv(1, 0, 2048)
	f := ipv4UDP(b.mac, a.mac, 9, "offloaded")
	a.send(f, FrameSend{Flags: FrameL3Sum | FrameL4Sum | FrameInsertVLAN, VLAN: 0x2005})
	a.expect(ctx, 99, WCSuccess)
	wc := b.expect(ctx, 1, WCSuccess)
	info := wc.Frame()
	if info.Flags != FrameL3OK|FrameL4OK|FrameVLAN|FrameTag || info.VLAN != 0x2005 || info.Tag != 77 || wc.Flags != WCIPCsumOK {
		t.Errorf("%+v, %v", info, wc.Flags)
	}
	got := b.buf[:wc.ByteLen-4]
	if !bytes.Equal(got[:24], f[:24]) || !bytes.HasSuffix(got, []byte("offloaded")) || len(got) != len(f) {
		t.Errorf("% x", got)
	}
	tagged := append(append(append([]byte(nil), got[:12]...), 0x81, 0, 0x20, 5), got[12:]...)
	if sum := crc32.ChecksumIEEE(tagged); binary.LittleEndian.Uint32(b.buf[len(got):]) != sum {
		t.Error("the check sequence is not that of the frame on the wire")
	}
}

// TestRawFlows: flows of two queue pairs of a device divide its frames; what no flow takes is
// dropped, and so is all after a flow's end.
func TestRawFlows(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	a, x, y := newRawEnd(t, openTest(t, Config{}), QPInitAttr{}), newRawEnd(t, c, QPInitAttr{}), newRawEnd(t, c, QPInitAttr{})
	port := func(n byte) FlowUDP {
		return FlowUDP{PortHeader{Dst: [2]byte{0, n}}, PortHeader{Dst: [2]byte{255, 255}}}
	}
	seven := x.flow(FlowAttr{Specs: []FlowSpec{FlowTo(c.MAC()), port(7)}})
	y.flow(FlowAttr{Specs: []FlowSpec{FlowTo(c.MAC()), port(8)}})
	x.recv(1, 0, 256)
	x.recv(2, 0, 256)
	y.recv(3, 0, 256)
	for _, p := range []uint16{9, 7, 8} {
		a.send(ipv4UDP(c.MAC(), a.mac, p, "x"), FrameSend{})
		a.expect(ctx, 99, WCSuccess)
	}
	x.expect(ctx, 1, WCSuccess)
	y.expect(ctx, 3, WCSuccess)
	if err := seven.Destroy(); err != nil {
		t.Fatal(err)
	}
	y.recv(4, 0, 256)
	for _, p := range []uint16{7, 8} {
		a.send(ipv4UDP(c.MAC(), a.mac, p, "x"), FrameSend{})
		a.expect(ctx, 99, WCSuccess)
	}
	y.expect(ctx, 4, WCSuccess)
	if n := must(x.cq.Poll(make([]WC, 1)))(t); n != 0 {
		t.Error("a flow that was destroyed takes frames")
	}
	drops := map[string]uint64{}
	for _, n := range c.RawCounters() {
		drops[n.Name] = n.Value
	}
	if drops["raw_drop_no_flow"] != 2 {
		t.Errorf("%v", drops)
	}
	if _, err := y.qp.CreateFlow(FlowAttr{Type: 99}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a type that does not exist: %v", err)
	}
	rc := newEnd(t, c, endConfig{typ: QPRC, bufSize: 8, depth: 1})
	if _, err := rc.qp.CreateFlow(FlowAttr{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a flow to RC: %v", err)
	}
}

// TestRawRefused: PostSend refuses a request without a whole frame.
func TestRawRefused(t *testing.T) {
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	for name, wr := range map[string]SendWR{
		"shorter than a header":     {Op: WRSend, SGL: []SGE{a.mr.SGE(0, 13)}},
		"longer than a frame":       {Op: WRSend, SGL: []SGE{a.mr.SGE(0, 64<<10), a.mr.SGE(0, 257)}},
		"a WRITE":                   {Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 64)}},
		"headers without a payload": {Op: WRSend, SGL: []SGE{a.mr.SGE(0, 64)}, Frame: FrameSend{MSS: 10, Header: 64}},
	} {
		if _, err := a.qp.PostSend([]SendWR{wr}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRawDrops: without a receive, or with one that is too short, a frame is dropped and counted.
// The queue pair goes on.
func TestRawDrops(t *testing.T) {
	ctx := testContext(t)
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b.flow(FlowAttr{Type: FlowAllDefault})
	dropped := func(n uint64) {
		t.Helper()
		testmust.Eventually(t, "the frame is dropped", func() bool { return b.counter("dropped") == n })
	}
	a.send(frame(b.mac, a.mac, "nobody waits"), FrameSend{})
	a.expect(ctx, 99, WCSuccess)
	dropped(1)
	b.recv(1, 0, 20)
	a.send(frame(b.mac, a.mac, "too long for this"), FrameSend{})
	a.expect(ctx, 99, WCSuccess)
	dropped(2)
	a.send(frame(b.mac, a.mac, "short"), FrameSend{})
	b.expect(ctx, 1, WCSuccess)
	a.expect(ctx, 99, WCSuccess)
	// bad memory of the sender fails its request, and the queue pair stops sending
	a.post(SendWR{ID: 5, Op: WRSend, SGL: []SGE{{Addr: 1, Length: 100, LKey: 12345}}})
	a.expect(ctx, 5, WCLocProtErr)
	if s := a.qp.State(); s != QPSQE {
		t.Errorf("state %v", s)
	}
}

// TestRawCQEx: the fields of raw packets are those of a CQEx.
func TestRawCQEx(t *testing.T) {
	c := openTest(t, Config{})
	q := must(c.CreateCQEx(CQInitAttrEx{Entries: 4, WCFlags: CQStandardFlags | CQWithCVLAN | CQWithFlowTag}))(t)
	e := &end{t: t, ctx: c, buf: make([]byte, 64<<10), cq: q.AsCQ()}
	e.pd = must(c.AllocPD())(t)
	e.mr = must(e.pd.RegMR(e.buf, testAccess))(t)
	e.qp = must(e.pd.CreateQP(QPInitAttr{Type: QPRaw, SendCQ: e.cq, RecvCQ: e.cq, Cap: QPCap{MaxRecvWR: 1, MaxRecvSGE: 1}}))(t)
	if err := e.qp.Activate(); err != nil {
		t.Fatal(err)
	}
	r := &rawEnd{e, c.MAC()}
	r.flow(FlowAttr{Type: FlowAllDefault, Tag: 0x1234})
	r.recv(1, 0, 256)
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	a.send(frame(r.mac, a.mac, "x"), FrameSend{Flags: FrameInsertVLAN, VLAN: 9})
	testmust.Eventually(t, "the frame arrives", func() bool { return must(q.StartPoll())(t) })
	if q.ReadFlowTag() != 0x1234 || q.ReadCVLAN() != 9 {
		t.Errorf("tag %#x, VLAN %d", q.ReadFlowTag(), q.ReadCVLAN())
	}
	q.EndPoll()
}

// TestRawNetwork: a frame of a queue pair reaches an ordinary socket at the other end of a veth,
// and the answer comes back.
func TestRawNetwork(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	ctx := testContext(t)
	for _, line := range []string{
		"link add here type veth peer name there", "link set here address 02:00:00:00:00:01", "link set there address 02:00:00:00:00:02",
		"link set here up", "link set there up", "addr add 10.9.0.2/24 dev there", "addr add 10.9.1.1/24 dev here",
		"neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev there",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	if _, err := Open(Config{Address: testAddr(), RawNetwork: true}); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("on a loopback: %v", err)
	}
	a := newRawEnd(t, openTest(t, Config{Interface: "here", Address: netip.MustParseAddr("10.9.1.1"), RawNetwork: true}), QPInitAttr{})
	a.flow(FlowAttr{Specs: []FlowSpec{FlowTo(a.mac)}})
	s := must(net.ListenUDP("udp4", nil))(t)
	defer s.Close()
	f := ipv4UDP([6]byte{2, 0, 0, 0, 0, 2}, a.mac, uint16(s.LocalAddr().(*net.UDPAddr).Port), "ping")
	b := make([]byte, 100)
	var from netip.AddrPort
	// An interface that is up may lose packets for a moment, so they are sent until they arrive.
	testmust.Eventually(t, "the socket has the frame", func() bool {
		a.send(f, FrameSend{Flags: FrameL3Sum | FrameL4Sum})
		a.expect(ctx, 99, WCSuccess)
		testmust.OK(t, s.SetReadDeadline(time.Now().Add(time.Millisecond)))
		n, who, err := s.ReadFromUDPAddrPort(b)
		from = who
		return err == nil && string(b[:n]) == "ping"
	})
	a.recv(1, 0, 2048)
	wcs := make([]WC, 1)
	testmust.Eventually(t, "the answer arrives", func() bool {
		s.WriteToUDPAddrPort([]byte("pong"), from) //nolint:errcheck // the next one may arrive
		return must(a.cq.Poll(wcs))(t) == 1
	})
	if wc := wcs[0]; wc.ID != 1 || wc.Flags != WCIPCsumOK || !bytes.Contains(a.buf[:wc.ByteLen], []byte("pong")) {
		t.Errorf("%+v: % x", wc, a.buf[:wc.ByteLen])
	}
}

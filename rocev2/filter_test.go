package rocev2

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/net/bpf"
)

// numbers returns the numbers that m marks for connected and for UD queue pairs, and one
// that it does not mark.
func numbers(m wire.QPNMark) (connected, datagram, other wire.QPN) {
	for n := wire.QPN(2); connected == 0 || datagram == 0 || other == 0; n++ {
		switch {
		case m.Connected(n):
			connected = n
		case m.Datagram(n):
			datagram = n
		case m.Unlisted(n):
		default:
			other = n
		}
	}
	return connected, datagram, other
}

// to makes a packet for a queue pair.
func to(r *wire.Route, n wire.QPN) []byte {
	b := burst(r, 1, 16, 0)
	pkt := b.Packet(0)
	binary.BigEndian.PutUint32(pkt[4:], uint32(n))
	return b.Buf
}

// sendTo sends one packet by a plain socket, as any host can.
func sendTo(t testing.TB, c *net.UDPConn, dst netip.Addr, n wire.QPN) {
	t.Helper()
	local := c.LocalAddr().(*net.UDPAddr).AddrPort()
	r := &wire.Route{Src: local.Addr().Unmap(), Dst: dst, SrcPort: local.Port(), HopLimit: 64}
	pkt := to(r, n)
	wire.NewICRC(r, wire.UDPPort).Put(pkt, 0)
	if _, err := c.Write(pkt); err != nil {
		t.Fatal(err)
	}
}

var (
	peerHost     = netip.MustParseAddr("127.0.9.1")
	strangerHost = netip.MustParseAddr("127.0.9.2")
	ownHost      = netip.MustParseAddr("127.0.9.3")
)

// A flood of packets that no queue pair takes leaves room for those of a connected one.
func TestFilterKeepsRoom(t *testing.T) {
	if !testenv.OwnNetwork(t) { // whose counters count no packets of other tests
		return
	}
	m := wire.NewQPNMark(8)
	connected, datagram, other := numbers(m)
	blocked, release := make(chan struct{}), make(chan struct{})
	s := newSink(t)
	first := true
	p := open(t, Config{Address: ownHost, Mark: m, SocketBuffer: 16 << 10, Receiver: func(b []wire.Datagram) {
		if first { // the queue fills meanwhile
			first = false
			close(blocked)
			<-release
		}
		s.receive(b)
	}})
	p.AddPeer(peerHost)
	peer, stranger := dialFrom(t, peerHost, ownHost), dialFrom(t, strangerHost, ownHost)
	sendTo(t, peer, ownHost, connected)
	<-blocked
	const flood = 2000 // the queue has room for some hundred
	for range flood {
		sendTo(t, stranger, ownHost, other)
		sendTo(t, stranger, ownHost, connected)
		sendTo(t, peer, ownHost, other)
	}
	sendTo(t, stranger, ownHost, datagram)
	sendTo(t, peer, ownHost, connected)
	close(release)
	got := make(map[wire.QPN]int)
	for _, d := range s.wait(3) {
		got[destination(d.Data)]++
	}
	if got[connected] != 2 || got[datagram] != 1 {
		t.Errorf("received packets for %v, want 2 for %#x and 1 for %#x", got, connected, datagram)
	}
	c := p.Counters()
	if lost, dropped := c.ReceiveQueueDrop.Load(), c.ReceiveFilterDrop.Load(); lost+dropped != 3*flood || lost > flood/10 {
		t.Errorf("receive_queue_drop %d, receive_filter_drop %d", lost, dropped)
	}
}

func destination(pkt []byte) wire.QPN {
	return wire.QPN(binary.BigEndian.Uint32(pkt[4:]) & wire.QPNMask)
}

// Each kind of packet passes or not, as the filter knows more and fewer peers.
func TestFilterPeers(t *testing.T) {
	m := wire.NewQPNMark(8)
	connected, datagram, other := numbers(m)
	unlisted := wire.QPN(2)
	for !m.Unlisted(unlisted) {
		unlisted++
	}
	p := &Port{cfg: Config{Mark: m}}
	p.filter.init(p)
	f := &p.filter
	v4, v6 := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fe80::1:2:3")
	pass := func(own, src netip.Addr, n wire.QPN) bool {
		t.Helper()
		return passes(t, newMachine(t, f.program(own, f.peers)), own, src, n)
	}
	for _, own := range []netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fe80::9")} {
		src, near := v4, v4.Next()
		if own.Is6() {
			src, near = v6, v6.Next()
		}
		clear(f.peers)
		if pass(own, src, connected) || !pass(own, src, unlisted) || !pass(own, src, datagram) || pass(own, src, other) || !pass(own, src, 1) {
			t.Errorf("%v: without peers", own)
		}
		p.AddPeer(near.Next())
		p.AddPeer(src)
		if !pass(own, src, connected) || pass(own, near, connected) || pass(own, src, other) || !pass(own, near.Next(), connected) {
			t.Errorf("%v: with two peers", own)
		}
		for a := near.Next(); len(f.peers) < maxFilterPeers; a = a.Next() {
			p.AddPeer(a)
		}
		all := newMachine(t, f.program(own, f.peers))
		for a := range f.peers {
			if a.Is4() == own.Is4() && !passes(t, all, own, a, connected) {
				t.Errorf("%v: with %d peers, %v", own, len(f.peers), a)
			}
		}
		if pass(own, near, connected) {
			t.Errorf("%v: with %d peers", own, len(f.peers))
		}
		if n := len(f.program(own, f.peers)); n > 4096 { // linux/bpf_common.h: BPF_MAXINSNS
			t.Errorf("%v: %d instructions", own, n)
		}
		p.AddPeer(near)
		p.AddPeer(near.Prev().Prev())
		if !pass(own, netip.MustParseAddr(map[bool]string{true: "1.1.1.1", false: "::1"}[own.Is4()]), connected) || pass(own, src, other) {
			t.Errorf("%v: with %d peers", own, len(f.peers))
		}
	}
	group := netip.MustParseAddr("ff0e::1")
	if !pass(group, v6, wire.MulticastQPN) || pass(group, v6, datagram) {
		t.Error("to a group")
	}
}

// packetLen is how long the packets are that a machine runs on.
const packetLen = 8 + 16

// newMachine makes a machine that runs a program as the kernel does.
func newMachine(t *testing.T, prog []bpf.Instruction) *bpf.VM {
	t.Helper()
	moved := make([]bpf.Instruction, len(prog))
	for i, in := range prog {
		switch load := in.(type) {
		case bpf.LoadAbsolute:
			// The machine has no negative offsets: the IP header follows the packet.
			if load.Off >= bpfNetOff {
				load.Off = load.Off - bpfNetOff + packetLen
			}
			in = load
		case bpf.LoadExtension: // the machine has no random numbers either
			in = bpf.LoadConstant{Dst: bpf.RegA, Val: 0}
		}
		moved[i] = in
	}
	vm, err := bpf.NewVM(moved)
	must.OK(t, err)
	return vm
}

// passes reports whether the machine's program lets a packet pass.
func passes(t *testing.T, vm *bpf.VM, own, src netip.Addr, n wire.QPN) bool {
	t.Helper()
	buf := make([]byte, packetLen, packetLen+40)
	binary.BigEndian.PutUint32(buf[12:], uint32(n)|0xff00_0000)
	at := 12
	if !own.Is4() {
		at = 8
	}
	buf = append(buf, make([]byte, at)...)
	buf = append(buf, src.AsSlice()...)
	passed, err := vm.Run(buf)
	must.OK(t, err)
	return passed != 0
}

// The kernel takes the programs, of both families and with all peers, and drops what they
// drop.
func TestFilterInKernel(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	newCable(t, "fd00:9::1/64", "10.99.0.1/24")
	m := wire.NewQPNMark(8)
	connected, _, other := numbers(m)
	for _, own := range []netip.Addr{netip.MustParseAddr("fd00:9::1"), netip.MustParseAddr("10.99.0.1")} {
		s := newSink(t)
		p := open(t, Config{Address: own, Mark: m, Receiver: s.receive})
		c := dialFrom(t, own, own)
		p.AddPeer(own)
		// All but the last without a program for each.
		p.filter.mu.Lock()
		a := own.Next()
		for ; len(p.filter.peers) < maxFilterPeers-1; a = a.Next() {
			p.filter.peers[a] = 1
		}
		p.filter.mu.Unlock()
		p.AddPeer(a)
		if p.filter.refused {
			t.Fatalf("%v: the kernel refused the program", own)
		}
		send := func(qpn ...wire.QPN) {
			for _, n := range qpn {
				sendTo(t, c, own, n)
			}
		}
		send(other, connected, 1)
		if got := s.wait(2); destination(got[0].Data) != connected || destination(got[1].Data) != 1 {
			t.Errorf("%v: packets for %#x and %#x", own, destination(got[0].Data), destination(got[1].Data))
		}
		p.AddPeer(own) // counted twice
		p.RemovePeer(own)
		send(connected)
		s.wait(1)
		p.RemovePeer(own)
		send(connected, 1)
		if got := s.wait(1); destination(got[0].Data) != 1 {
			t.Errorf("%v: a packet of a peer that left is for %#x", own, destination(got[0].Data))
		}
		if n := p.Counters().ReceiveFilterDrop.Load(); n != 2 {
			t.Errorf("%v: receive_filter_drop %d, want 2", own, n)
		}
	}
}

func TestThinning(t *testing.T) {
	var th thinning
	crowded := false
	count := func(n int, now time.Time) bool { return th.count(n, now, func() bool { return crowded }) }
	now := time.Unix(1000, 0)
	slow := time.Second * managementBatch / managementRate
	if count(managementBatch, now) {
		t.Error("the first batch is too fast")
	}
	if now = now.Add(slow); count(managementBatch, now) || th.thinned != 0 {
		t.Error("the rate that is allowed is too fast")
	}
	if now = now.Add(slow / 2); count(managementBatch/2, now) || !count(managementBatch/2, now) || th.thinned != thinningStep {
		t.Error("twice the rate that is allowed is not too fast")
	}
	crowded = true
	for range 100 {
		now = now.Add(slow)
		count(managementBatch, now)
	}
	if th.thinned != maxThinning {
		t.Errorf("one in 2^%d passes while the queue is crowded, want 2^%d", th.thinned, maxThinning)
	}
}

// The kernel thins out packets to QP 1 only, by chance.
func TestThinningInKernel(t *testing.T) {
	if !testenv.OwnNetwork(t) { // whose counters count no packets of other tests
		return
	}
	m := wire.NewQPNMark(8)
	_, datagram, _ := numbers(m)
	s := newSink(t)
	p := open(t, Config{Address: ownHost, Mark: m, Receiver: s.receive})
	if p.filter.refused {
		t.Fatal("the kernel refused the program")
	}
	const thinned, sent, others = 6, 6400, 50
	p.filter.change(func() bool {
		p.filter.thinned = thinned
		return true
	})
	c := dialFrom(t, strangerHost, ownHost)
	for i := range sent {
		sendTo(t, c, ownHost, managementQPN)
		if i%(sent/others) == 0 {
			sendTo(t, c, ownHost, datagram)
		}
	}
	c.Close()
	got := make(map[wire.QPN]int)
	for got[datagram] < others {
		for _, d := range s.wait(1) {
			got[destination(d.Data)]++
		}
	}
	dropped := int(p.Counters().ReceiveFilterDrop.Load())
	// 100 of 6,400 are expected, with a deviation of 10. The last ones may still be in the queue.
	passed := sent - dropped
	if passed < 30 || passed > 250 {
		t.Errorf("%d of %d packets to QP 1 passed, want about %d", passed, sent, sent>>thinned)
	}
	if got[managementQPN] > passed {
		t.Errorf("%d packets to QP 1 came, and %d passed", got[managementQPN], passed)
	}
}

// Of very many packets to QP 1 few pass, and later all again.
func TestThinningEnds(t *testing.T) {
	s := newSink(t)
	p := open(t, Config{Address: ownHost, Mark: wire.NewQPNMark(8), Receiver: s.receive})
	f := &p.filter
	f.mu.Lock()
	f.thinned = 1
	f.mu.Unlock()
	f.mu.Lock()
	f.relax = time.AfterFunc(time.Hour, func() {})
	f.mu.Unlock()
	f.thinLess()
	c := dialFrom(t, strangerHost, ownHost)
	for range 100 {
		sendTo(t, c, ownHost, 1)
	}
	s.wait(100)
	if f.relax != nil || f.thinned != 0 {
		t.Error("the thinning did not end")
	}
}

func TestSumBufferErrors(t *testing.T) {
	const snmp = "Tcp: A RcvbufErrors\nTcp: 1 100\nUdp: InDatagrams NoPorts InErrors RcvbufErrors MemErrors\nUdp: 5 6 7 8 9\nUdpLite: RcvbufErrors\nUdpLite: 50\n"
	const snmp6 = "Udp6InErrors \t3\nUdp6RcvbufErrors \t4\nUdp6MemErrors 2\nUdpLite6RcvbufErrors 99\n"
	for text, want := range map[string]uint64{snmp: 17, snmp6: 6, "": 0, "Udp:\n": 0, "Udp: RcvbufErrors\nUdp:\n": 0} {
		if got := sumBufferErrors(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

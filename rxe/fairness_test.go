package rxe

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// oneCPU is a host whose only processor takes time for each packet, and whose socket
// has little room. It is the device's link and clock.
type oneCPU struct {
	dev    *Device
	now    Time
	armed  Time // 0: no deadline
	socket []wire.Datagram
	peer   wire.GID // its packets are kept in sent; other packets go nowhere
	sent   []timedPacket
}

type timedPacket struct {
	at Time
	dg wire.Datagram
}

const (
	cpuPerPacket = Time(200 * time.Nanosecond)
	cpuPerKiB    = Time(300 * time.Nanosecond)
	socketRoom   = 1024 // packets
)

func (c *oneCPU) Now() Time            { return c.now }
func (c *oneCPU) Arm(at Time)          { c.armed = at }
func (c *oneCPU) Join(wire.GID) error  { return nil }
func (c *oneCPU) Leave(wire.GID) error { return nil }

func (c *oneCPU) spend(packets, bytes int) {
	c.now += Time(packets)*cpuPerPacket + Time(bytes)*cpuPerKiB/1024
}

func (c *oneCPU) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		c.spend(1, len(b.Buf)) // one call for the burst
		if wire.GIDFromAddr(b.Route.Dst) == c.peer {
			for j := range b.N() {
				c.sent = append(c.sent, timedPacket{c.now, datagram(b, j)})
			}
		}
	}
}

// datagram copies a packet of a burst.
func datagram(b *wire.Burst, i int) wire.Datagram {
	raw := b.Packet(i)
	return wire.Datagram{Data: append([]byte(nil), raw[:len(raw)-wire.ICRCLen]...),
		Src: b.Route.Src, Dst: b.Route.Dst, HopLimit: b.Route.HopLimit}
}

// arrive puts a packet into the socket's queue, if there is room.
func (c *oneCPU) arrive(dg *wire.Datagram) {
	if len(c.socket) < socketRoom {
		c.socket = append(c.socket, *dg)
	}
}

// step lets the processor do one thing, or pass the time until next.
func (c *oneCPU) step(next Time) {
	switch n := min(len(c.socket), 64); {
	case n > 0:
		for i := range n {
			c.spend(1, len(c.socket[i].Data))
		}
		c.dev.Receive(c.socket[:n])
		c.socket = append(c.socket[:0], c.socket[n:]...)
	case c.armed == 0 || c.armed > c.now:
		if c.armed != 0 {
			next = min(next, c.armed)
		}
		c.now = max(c.now, next)
	}
	if c.armed != 0 && c.armed <= c.now {
		c.armed = 0
		c.spend(1, 0)
		c.dev.Expire()
	}
}

// toSocket is the link of an honest peer.
type toSocket struct {
	captureLink
	host *oneCPU
}

func (l *toSocket) Send(bursts []wire.Burst) {
	for i := range bursts {
		for j := range bursts[i].N() {
			dg := datagram(&bursts[i], j)
			l.host.arrive(&dg)
		}
	}
}

// lazyMem is memory of any size that holds nothing.
type lazyMem struct{ *sliceMem }

func (lazyMem) ReadV([]Span) error { return nil }

// honestBytes returns how much an honest peer writes to the host's device within a
// time, beside n queue pairs whose peers each ask for size bytes and send a SEND. The
// peer fails the test if its connection ends.
func honestBytes(t *testing.T, n int, size uint64, during Time) (bytes int) {
	t.Helper()
	const honestSize = 64 << 10
	host := &oneCPU{now: 1}
	near := newPairEnd(t, host, "10.0.0.1", honestSize)
	near.dev.cfg.Link, host.dev = host, near.dev
	clock := &armRecorder{now: 1}
	far := newPairEnd(t, clock, "10.0.0.2", honestSize)
	far.dev.cfg.Link, host.peer = &toSocket{host: host}, far.gid

	var qps [2]*QP
	for i, e := range []*pairEnd{far, near} {
		q, err := e.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must.OK(t, err)
		qps[i] = q
	}
	for i, q := range qps {
		connectRC(t, q, QPAttr{DestQPN: qps[1-i].Num(), AH: AHAttr{DGID: []*pairEnd{near, far}[i].gid, PortNum: 1}})
	}
	attack(t, near, host, n, size)

	write := SendWR{Op: WRWrite, Flags: SendSignaled, RKey: near.mr.RKey(), SGL: []SGE{{Length: honestSize, LKey: far.mr.LKey()}}}
	post := func(n int) {
		for range n {
			_, err := qps[0].PostSend([]SendWR{write})
			must.OK(t, err)
		}
	}
	post(16)
	var wcs [16]WC
	for host.now < during {
		host.step(clock.armed)
		for len(host.sent) > 0 || clock.armed <= host.now {
			if len(host.sent) > 0 && host.sent[0].at <= clock.armed {
				p := host.sent[0]
				host.sent = host.sent[1:]
				clock.now = max(clock.now, p.at)
				far.dev.Receive([]wire.Datagram{p.dg})
			} else {
				clock.now, clock.armed = max(clock.now, clock.armed), during
				far.dev.Expire()
			}
			done, err := far.cq.Poll(wcs[:])
			must.OK(t, err)
			for _, wc := range wcs[:done] {
				if wc.Status != WCSuccess {
					t.Fatalf("after %v, %d bytes: %v", time.Duration(host.now), bytes, wc.Status)
				}
				bytes += honestSize
			}
			post(done)
		}
	}
	return bytes
}

// attack connects n queue pairs to a peer that asks each for size bytes and then sends
// a SEND.
func attack(t *testing.T, e *pairEnd, host *oneCPU, n int, size uint64) {
	t.Helper()
	mr, err := e.pd.RegMR(lazyMem{newSliceMem()}, 0, max(size, 1), 0, AccessRemoteRead)
	must.OK(t, err)
	var batch []wire.Datagram
	for range n {
		q, err := e.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must.OK(t, err)
		connectRC(t, q, QPAttr{DestQPN: benchPeerQP, AH: AHAttr{DGID: wire.GIDFromAddr(benchThere3), PortNum: 1}})
		for _, h := range []wire.Headers{
			{Opcode: wire.RCReadRequest, PSN: benchPSN, RKey: mr.RKey(), DMALen: uint32(size)},
			{Opcode: wire.RCSendOnly, PSN: wire.PSN(benchPSN).Add(readPackets(uint32(size), 4096)), AckReq: true},
		} {
			h.PKey, h.DestQP = wire.DefaultPKey, q.qpn
			batch = append(batch, wire.Datagram{Data: h.Append(nil), Src: benchThere3, Dst: benchHere, HopLimit: 64})
		}
	}
	for i := range batch {
		host.arrive(&batch[i])
	}
}

// connectRC takes a QP to RTS.
func connectRC(t *testing.T, q *QP, a QPAttr) {
	t.Helper()
	a.PortNum, a.Access, a.PathMTU, a.MaxDestRdAtomic, a.MaxRdAtomic = 1, allRemote, 4096, 4, 4
	a.RQPSN, a.SQPSN, a.Timeout, a.RetryCnt, a.RNRRetry, a.MinRNRTimer = benchPSN, benchPSN, 12, 7, 7, 1
	for from := range QPRTS {
		a.State = from + 1
		must.OK(t, q.Modify(&a, RequiredMask(QPRC, from, a.State)))
	}
}

// A connection keeps its share of the processor beside queue pairs whose peers ask for
// gigabytes, and does not end. The share is half, less what answering costs.
func TestHonestBesideReads(t *testing.T) {
	const during = Time(80 * time.Millisecond)
	alone := honestBytes(t, 0, 0, during)
	beside := honestBytes(t, 8, 256<<20, during)
	t.Logf("%d MiB alone, %d MiB beside the attack", alone>>20, beside>>20)
	if alone == 0 || beside < alone/4 {
		t.Errorf("%d bytes alone, %d beside the attack", alone, beside)
	}
}

package rxe

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// readChecks are the responses to a READ of n bytes at off, from psn on.
func (b *bench) readChecks(psn wire.PSN, off uint64, n int) []check {
	var out []check
	for done := 0; done == 0 || done < n; done += benchMTU {
		end := min(done+benchMTU, n)
		op := wire.RCReadResponseMiddle
		switch {
		case done == 0 && end == n:
			op = wire.RCReadResponseOnly
		case done == 0:
			op = wire.RCReadResponseFirst
		case end == n:
			op = wire.RCReadResponseLast
		}
		data := bytes.Clone(b.bytes(remoteVA+off+uint64(done), end-done))
		out = append(out, readData(op, psn, data))
		psn = psn.Next()
	}
	return out
}

func (b *bench) fill() { copy(b.bytes(remoteVA, remoteLen), pattern(remoteLen)) }

func TestResponderRead(t *testing.T) {
	const start = wire.PSNMask - 2
	b := newBench(t, QPRC, func(a *QPAttr) { a.RQPSN = start })
	b.fill()
	psn := wire.PSN(start)
	for _, n := range []int{0, 1, 3, benchMTU, benchMTU + 1, 10*benchMTU + 7, remoteLen} {
		b.send(req(wire.RCReadRequest, psn, nil, b.at(0, n)))
		b.want(b.readChecks(psn, 0, n)...)
		psn = psn.Add(readPackets(uint32(n), benchMTU))
	}
	if b.qp.resp.psn != psn {
		t.Errorf("PSN %d is expected next, want %d", b.qp.resp.psn, psn)
	}
}

// A READ returns data from before a later WRITE and from after an earlier one, even
// if all arrive in one batch.
func TestResponderReadOrder(t *testing.T) {
	b := newBench(t, QPRC, nil)
	one, two := bytes.Repeat([]byte{1}, 8), bytes.Repeat([]byte{2}, 8)
	b.send(req(wire.RCWriteOnly, 100, one, b.at(0, 8)),
		req(wire.RCReadRequest, 101, nil, b.at(0, 8)),
		req(wire.RCWriteOnly, 102, two, b.at(0, 8)),
		req(wire.RCReadRequest, 103, nil, b.at(0, 8)),
		req(wire.RCSendOnly, 104, two)) // not ready
	b.want(readData(wire.RCReadResponseOnly, 101, one),
		readData(wire.RCReadResponseOnly, 103, two),
		answerOf(wire.RCAck, wire.SyndromeRNR(12), 104))
}

// A READ is answered again in whole, or from any packet on as a request of its own.
// The repeated request must lie inside the first one.
func TestResponderReadReplay(t *testing.T) {
	const n = 4*benchMTU + 5
	skip := func(packets uint64) uint64 { return packets * benchMTU }
	for _, tc := range []struct {
		name  string
		psn   wire.PSN
		off   uint64
		n     int
		edit  func(*wire.Headers)
		stale bool
	}{
		{name: "whole", psn: 100, n: n},
		{name: "rest", psn: 102, off: skip(2), n: n - 2*benchMTU},
		{name: "last packet", psn: 104, off: skip(4), n: 5},
		{name: "part of the rest", psn: 101, off: skip(1), n: benchMTU},
		{name: "too long", psn: 101, off: skip(1), n: n, stale: true},
		{name: "other address", psn: 101, off: skip(2), n: 8, stale: true},
		{name: "other key", psn: 100, n: n, edit: func(h *wire.Headers) { h.RKey++ }, stale: true},
		{name: "nothing", psn: 100, n: 0, stale: true},
		{name: "never asked for", psn: 99, n: 8, stale: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, QPRC, nil)
			b.fill()
			b.send(req(wire.RCReadRequest, 100, nil, b.at(16, n)))
			b.take()
			p := req(wire.RCReadRequest, tc.psn, nil, b.at(16+tc.off, tc.n))
			if tc.edit != nil {
				tc.edit(&p.h)
			}
			b.send(p)
			if tc.stale {
				b.want()
			} else {
				b.want(b.readChecks(tc.psn, 16+tc.off, tc.n)...)
			}
			b.wantState(QPRTR)
		})
	}
}

// A replay does not accept a revoked key either. A packet that the network delayed
// for that long does not end the connection.
func TestResponderReadReplayRevoked(t *testing.T) {
	b := newBench(t, QPRC, nil)
	r := req(wire.RCReadRequest, 100, nil, b.at(0, 8))
	b.send(r)
	b.take()
	b.must(b.remote.Dereg())
	b.send(r)
	b.want()
	b.wantState(QPRTR)
	if n := b.dev.counters.StaleRequest.Load(); n != 1 {
		t.Errorf("%d stale requests counted, want 1", n)
	}
}

// Only so many READs may wait for their answers. There is some slack, because
// rdma_rxe rounds the number up. READs that were answered no longer count.
func TestResponderReadDepth(t *testing.T) {
	b := newBench(t, QPRC, nil) // MaxDestRdAtomic 2: four resources
	for i := range 20 {
		b.send(req(wire.RCReadRequest, wire.PSN(100+i), nil, b.at(0, 8)))
		if n := len(b.take()); n != 1 {
			t.Fatalf("%d responses", n)
		}
	}
	var batch []pkt
	for i := range 9 {
		batch = append(batch, req(wire.RCReadRequest, wire.PSN(120+i), nil, b.at(0, 8)))
	}
	b.send(batch...)
	got := b.take()
	if last := got[len(got)-1]; len(got) != 9 || last.Syndrome() != wire.SyndromeNAK(wire.NAKInvalidRequest) {
		t.Errorf("%d packets, the last %v", len(got), last.Syndrome())
	}
	b.wantState(QPErr)
}

// bigRead is a bench with a region of n bytes to read from.
func bigRead(t *testing.T, n int) (*bench, func(off uint64, n int) func(*wire.Headers)) {
	b := newBench(t, QPRC, nil)
	mem := &sliceMem{b: make([]byte, n)}
	mr, err := b.pd.RegMR(mem, benchBase, uint64(n), benchBase, AccessRemoteRead)
	b.must(err)
	return b, func(off uint64, n int) func(*wire.Headers) {
		return func(h *wire.Headers) { h.VA, h.RKey, h.DMALen = benchBase+off, mr.RKey(), uint32(n) }
	}
}

// psns are the PSNs sent, in order.
func (b *bench) psns() (out []wire.PSN) {
	for _, pkt := range b.take() {
		out = append(out, pkt.PSN())
	}
	return out
}

func wantRun(t *testing.T, got []wire.PSN, first, last wire.PSN) {
	t.Helper()
	if len(got) == 0 || got[0] != first || got[len(got)-1] != last || int(last-first)+1 != len(got) {
		t.Errorf("%d packets %v, want PSN %d to %d", len(got), got[:min(len(got), 4)], first, last)
	}
}

// Long READs are sent in quanta. A peer that asks again is sent the rest from
// there, more slowly, and in PSN order.
func TestResponderReadPacing(t *testing.T) {
	const quantum = readQuantumBytes / benchMTU
	const n = 3 * readQuantumBytes
	b, at := bigRead(t, 2*n)
	b.qp.resp.pace.slower(0, 0) // as if the peer had lost something
	b.send(req(wire.RCReadRequest, 100, nil, at(0, n)), req(wire.RCReadRequest, 100+3*quantum, nil, at(n, 8)))
	got := b.psns()
	if len(got) == 0 || len(got) > quantum || got[0] != 100 {
		t.Fatalf("%d packets at once", len(got))
	}
	sent := got[len(got)-1]
	if b.clock.armed <= b.clock.now {
		t.Fatal("no deadline for the rest")
	}
	// What is still to be sent changes nothing.
	b.send(req(wire.RCReadRequest, sent+1, nil, at(uint64(sent-99)*benchMTU, n-int(sent-99)*benchMTU)))
	if extra := b.psns(); len(extra) != 0 {
		t.Errorf("%d packets before the time", len(extra))
	}
	// The peer lost what follows PSN 109.
	gap := b.qp.resp.pace.pause
	b.send(req(wire.RCReadRequest, 110, nil, at(10*benchMTU, n-10*benchMTU)))
	if b.qp.resp.pace.pause <= gap {
		t.Error("a loss does not slow the responses down")
	}
	var all []wire.PSN
	for i := 0; len(b.qp.resp.queue) > 0 && i < 100; i++ {
		b.clock.now = b.clock.armed
		b.dev.Expire()
		all = append(all, b.psns()...)
	}
	wantRun(t, all, 110, 100+3*quantum)
}

// A peer may receive more slowly than it is sent to, and ask again a while after it
// lost something. It is not sent everything many times.
func TestResponderReadSlowPeer(t *testing.T) {
	const (
		n      = 1 << 20
		end    = wire.PSN(100 + n/benchMTU)
		room   = 256                         // packets that the peer has room for
		each   = Time(50 * time.Microsecond) // it takes for one
		answer = Time(10 * time.Millisecond) // until it asks again
		never  = Time(1 << 62)
	)
	b, at := bigRead(t, n)
	ask := func(from wire.PSN) {
		done := int(from-100) * benchMTU
		b.send(req(wire.RCReadRequest, from, nil, at(uint64(done), n-done)))
	}
	ask(100)
	expected, again, free, sent := wire.PSN(100), never, b.clock.now, 0
	for expected != end {
		for _, psn := range b.psns() {
			sent++
			if free = max(free, b.clock.now); free > b.clock.now+room*each {
				continue // lost
			}
			free += each
			switch {
			case psn == expected:
				expected++
			case psn > expected:
				again = min(again, b.clock.now+answer)
			}
		}
		if len(b.qp.resp.queue) > 0 && b.clock.armed < again {
			b.clock.now = max(b.clock.now, b.clock.armed)
			b.dev.Expire()
			continue
		}
		b.clock.now = max(b.clock.now, min(again, b.clock.now+answer))
		again = never
		ask(expected)
	}
	// All of it is sent before the first loss is known, and the rate is learned.
	if most := 3 * n / benchMTU; sent > most {
		t.Errorf("%d packets for a READ of %d", sent, n/benchMTU)
	}
}

// A WRITE behind a READ waits for all of it, whatever the pace.
func TestResponderWriteBehindRead(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	b.qp.resp.pace.slower(0, 0)
	b.send(req(wire.RCReadRequest, 100, nil, at(0, n)))
	first := b.psns()
	b.send(req(wire.RCWriteOnly, 100+n/benchMTU, pattern(8), b.at(0, 8)))
	b.want()
	for _, pkt := range b.runReads() {
		first = append(first, pkt.PSN())
	}
	wantRun(t, first, 100, 100+n/benchMTU)
}

// A sequence NAK does not overtake READ responses. It is not sent if the missing
// packet comes first.
func TestResponderNAKBehindRead(t *testing.T) {
	const n = 2 * readQuantumBytes
	const end = 100 + n/benchMTU
	for _, heal := range []bool{false, true} {
		b, at := bigRead(t, n)
		b.qp.resp.pace.slower(0, 0)
		b.send(req(wire.RCReadRequest, 100, nil, at(0, n)))
		b.psns()
		b.send(req(wire.RCReadRequest, end+1, nil, at(0, 8)))
		if early := b.psns(); len(early) != 0 {
			t.Errorf("%d packets overtake the READ", len(early))
		}
		if heal {
			b.send(req(wire.RCReadRequest, end, nil, at(0, 8)))
		}
		var last wire.Packet
		for i := 0; len(b.qp.resp.queue) > 0 && i < 100; i++ {
			b.clock.now = b.clock.armed
			b.dev.Expire()
			if got := b.take(); len(got) > 0 {
				last = got[len(got)-1]
			}
		}
		if isNAK := last.Syndrome().IsNAK(); isNAK == heal || last.PSN() != end {
			t.Errorf("healed %v: the last packet is PSN %d %v", heal, last.PSN(), last.Syndrome())
		}
	}
}

// A replay that overtakes responses still to be sent makes those start again.
func TestResponderReplayOvertakes(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	b.send(req(wire.RCReadRequest, 100, nil, at(0, 8)))
	b.take()
	b.qp.resp.pace.slower(0, 0)
	b.send(req(wire.RCReadRequest, 101, nil, at(0, n)))
	b.take()
	b.send(req(wire.RCReadRequest, 100, nil, at(0, 8)))
	var all []wire.PSN
	for i := 0; len(b.qp.resp.queue) > 0 && i < 100; i++ {
		b.clock.now = b.clock.armed
		b.dev.Expire()
		all = append(all, b.psns()...)
	}
	wantRun(t, all, 100, 100+n/benchMTU)
}

// A responder that goes to RESET forgets READs that are under way.
func TestResponderResetDuringRead(t *testing.T) {
	b, at := bigRead(t, 2*readQuantumBytes)
	b.qp.resp.pace.slower(0, 0)
	b.send(req(wire.RCReadRequest, 100, nil, at(0, 2*readQuantumBytes)))
	b.take()
	b.must(b.qp.Modify(&QPAttr{State: QPReset}, QPAttrState))
	b.clock.now = b.clock.armed + 1
	b.dev.Expire()
	b.want()
}

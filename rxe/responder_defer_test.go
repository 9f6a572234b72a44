package rxe

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// runReads runs deadlines until no READ waits for its responses, and returns all that is sent.
func (b *bench) runReads() (out []wire.Packet) {
	b.t.Helper()
	for i := 0; len(b.qp.resp.queue) > 0; i++ {
		if i == 10_000 {
			b.t.Fatal("the responses do not end")
		}
		b.clock.now = max(b.clock.now, b.clock.armed)
		b.dev.Expire()
		out = append(out, b.take()...)
	}
	return out
}

// wantNothingDeferred checks that all memory of deferred requests was given back.
func (b *bench) wantNothingDeferred() {
	b.t.Helper()
	if n := b.dev.pools.deferred.used.Load(); n != 0 || !b.qp.resp.deferred.empty() || b.qp.resp.deferred.list.bytes != 0 {
		b.t.Errorf("%d bytes are deferred", n)
	}
}

// slowRead sends a READ of n bytes whose responses pause after the first quantum, and
// returns the PSN behind it.
func slowRead(b *bench, n int, at func(uint64, int) func(*wire.Headers)) wire.PSN {
	b.t.Helper()
	b.qp.resp.pace.slower(0, 0)
	b.send(req(wire.RCReadRequest, 100, nil, at(0, n)))
	b.take()
	if b.qp.resp.pace.until == 0 {
		b.t.Fatal("the responses do not pause")
	}
	return wire.PSN(100 + n/benchMTU)
}

// However long a READ is, and whatever follows it, the thread that received it sends
// no more than its step allows. The SEND behind it waits.
func TestReceiveSendsOneStep(t *testing.T) {
	const n = 16 * readStepBytes
	b, at := bigRead(t, n)
	b.post(1, 0, 8)
	end := wire.PSN(100 + n/benchMTU)
	b.send(req(wire.RCReadRequest, 100, nil, at(0, n)), req(wire.RCSendOnly, end, pattern(8)))
	if sent := len(b.take()) * benchMTU; sent == 0 || sent > readStepBytes+readQuantumBytes {
		t.Fatalf("%d bytes sent within Receive", sent)
	}
	b.wantWC()
	for b.qp.resp.readsWait() {
		b.wantWC()
		b.clock.now = max(b.clock.now, b.clock.armed)
		b.dev.Expire()
		if !b.qp.resp.readsWait() {
			break
		}
		if sent := len(b.take()) * benchMTU; sent == 0 || sent > expireReadBytes+readQuantumBytes {
			t.Fatalf("%d bytes sent within Expire", sent)
		}
	}
	got := b.take()
	if last := got[len(got)-1]; last.Opcode() != wire.RCAck || last.PSN() != end || got[len(got)-2].Opcode() != wire.RCReadResponseLast {
		t.Errorf("the last packets are %v, %v PSN %d", got[len(got)-2].Opcode(), last.Opcode(), last.PSN())
	}
	b.wantWC(WC{ID: 1})
	b.wantNothingDeferred()
}

// Many small READs, each with a SEND behind it, do not get around the step's bound.
func TestReceiveSendsOneStepPairs(t *testing.T) {
	const n, pairs = readStepBytes / 4, 40
	b, at := bigRead(t, n)
	var batch []pkt
	psn := wire.PSN(100)
	for range pairs {
		batch = append(batch, req(wire.RCReadRequest, psn, nil, at(0, n)), req(wire.RCWriteOnly, psn.Add(n/benchMTU), pattern(8), b.at(0, 8)))
		psn = psn.Add(n/benchMTU + 1)
	}
	b.send(batch...)
	if sent := len(b.take()) * benchMTU; sent == 0 || sent > readStepBytes+readQuantumBytes {
		t.Fatalf("%d bytes sent within Receive", sent)
	}
	b.runReads()
	if b.qp.resp.psn != psn {
		t.Errorf("PSN %d is expected next, want %d", b.qp.resp.psn, psn)
	}
	b.wantNothingDeferred()
}

// Requests that waited for a READ are executed once each, in order, and answered in
// order.
func TestDeferredOrder(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	end := slowRead(b, n, at)
	one := bytes.Repeat([]byte{1}, 8)
	copy(b.bytes(remoteVA, 8), make([]byte, 8))
	add := func(psn wire.PSN) pkt {
		return req(wire.RCFetchAdd, psn, nil, b.at(0, 0), func(h *wire.Headers) { h.SwapAdd = 1 })
	}
	requests := []pkt{
		add(end),
		req(wire.RCReadRequest, end+1, nil, b.at(0, 8)),
		req(wire.RCWriteOnly, end+2, one, b.at(0, 8)),
		req(wire.RCReadRequest, end+3, nil, b.at(0, 8)),
		add(end + 4),
	}
	b.send(requests...)
	b.send(requests...) // again
	b.want()
	if v := hostWord(b.bytes(remoteVA, 8)); v != 0 {
		t.Fatalf("memory holds %d before the READ is answered", v)
	}
	got := b.runReads()
	tail := got[len(got)-4:]
	two := hostWord(one)
	for i, want := range []struct {
		op   wire.Opcode
		psn  wire.PSN
		word uint64
	}{{wire.RCAtomicAck, end, 0}, {wire.RCReadResponseOnly, end + 1, 1}, {wire.RCReadResponseOnly, end + 3, two}, {wire.RCAtomicAck, end + 4, two}} {
		word := tail[i].AtomicOrig
		if want.op == wire.RCReadResponseOnly {
			word = func() uint64 { return hostWord(tail[i].Payload()) }
		}
		if tail[i].Opcode() != want.op || tail[i].PSN() != want.psn || word() != want.word {
			t.Errorf("answer %d is %v PSN %d with %#x", i, tail[i].Opcode(), tail[i].PSN(), word())
		}
	}
	if v := hostWord(b.bytes(remoteVA, 8)); v != two+1 {
		t.Errorf("memory holds %#x", v)
	}
	b.wantNothingDeferred()
}

// A request that came again while it waited is executed once, and acknowledged though
// it did not ask for it at first.
func TestDeferredAgain(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	end := slowRead(b, n, at)
	b.post(1, 0, 8)
	b.post(2, 8, 8)
	for range 3 {
		b.send(req(wire.RCSendOnly, end, pattern(8), func(h *wire.Headers) { h.AckReq = false }))
	}
	got := b.runReads()
	if last := got[len(got)-1]; last.Opcode() != wire.RCAck || last.PSN() != end || !last.Syndrome().IsACK() {
		t.Errorf("the last packet is %v PSN %d %v", last.Opcode(), last.PSN(), last.Syndrome())
	}
	b.wantWC(WC{ID: 1})
}

// A packet that is missing between deferred requests is asked for once, when its turn
// comes. It is not asked for if it came meanwhile.
func TestDeferredGap(t *testing.T) {
	const n = 2 * readQuantumBytes
	for _, heal := range []bool{false, true} {
		b, at := bigRead(t, n)
		end := slowRead(b, n, at)
		write := func(psn wire.PSN) pkt { return req(wire.RCWriteOnly, psn, pattern(8), b.at(0, 8)) }
		b.send(write(end), write(end+2), write(end+3))
		if heal {
			b.send(write(end+1), write(end+2))
		}
		got := b.runReads()
		last, want := got[len(got)-1], wire.SyndromeNAK(wire.NAKPSNSequence)
		psn := end + 1
		if heal {
			want, psn = wire.SyndromeACK, end+2
		}
		if last.PSN() != psn || last.Syndrome() != want {
			t.Errorf("healed %v: the last packet is PSN %d %v", heal, last.PSN(), last.Syndrome())
		}
		b.wantNothingDeferred()
	}
}

// What does not fit is dropped and counted, and the peer is told where to continue.
func TestDeferredLimit(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	end := slowRead(b, n, at)
	psn := end
	for b.dev.counters.InboxFull.Load() == 0 {
		b.send(req(wire.RCWriteOnly, psn, pattern(benchMTU), b.at(0, benchMTU)))
		if psn++; b.qp.resp.deferred.list.bytes > deferredLimit {
			t.Fatalf("%d bytes are deferred", b.qp.resp.deferred.list.bytes)
		}
	}
	b.send(req(wire.RCWriteOnly, psn, pattern(benchMTU), b.at(0, benchMTU)))
	got := b.runReads()
	if last := got[len(got)-1]; last.PSN() != psn-1 || last.Syndrome() != wire.SyndromeNAK(wire.NAKPSNSequence) {
		t.Errorf("the last packet is PSN %d %v, want a NAK of PSN %d", last.PSN(), last.Syndrome(), psn-1)
	}
	b.send(req(wire.RCWriteOnly, psn-1, pattern(benchMTU), b.at(0, benchMTU)))
	b.want(answerOf(wire.RCAck, wire.SyndromeACK, psn-1))
	b.wantNothingDeferred()
}

// A QP that many others leave no room for defers little, and recovers as well.
func TestDeferredScarce(t *testing.T) {
	const n = 2 * readQuantumBytes
	for _, others := range []int64{deferredScarceAbove, deferredLimitAll} {
		b, at := bigRead(t, n)
		end := slowRead(b, n, at)
		b.dev.pools.deferred.used.Add(others)
		var batch []pkt
		for i := range 2 * deferredLimitScarce / benchMTU {
			batch = append(batch, req(wire.RCWriteOnly, end+wire.PSN(i), pattern(benchMTU), b.at(0, benchMTU)))
		}
		b.send(batch...)
		if have := b.qp.resp.deferred.list.bytes; have > deferredLimitScarce || others == deferredLimitAll && have > 0 {
			t.Errorf("%d bytes are deferred beside %d", have, others)
		}
		b.runReads()
		b.dev.pools.deferred.used.Add(-others)
		b.wantNothingDeferred()
	}
}

// A request at fault is refused after the READ before it is answered, and what follows
// it is not executed.
func TestDeferredFault(t *testing.T) {
	const n = 2 * readQuantumBytes
	for name, bad := range map[string]func(b *bench, psn wire.PSN) pkt{
		"deferred": func(b *bench, psn wire.PSN) pkt {
			return req(wire.RCWriteOnly, psn, pattern(8), b.at(remoteLen, 8))
		},
		"at once": func(b *bench, psn wire.PSN) pkt {
			return req(wire.RCReadRequest, psn, nil, b.at(remoteLen, 8))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, at := bigRead(t, n)
			end := slowRead(b, n, at)
			before := bytes.Clone(b.bytes(remoteVA, 8))
			b.send(bad(b, end), req(wire.RCWriteOnly, end+1, bytes.Repeat([]byte{0xee}, 8), b.at(0, 8)))
			b.want()
			b.wantState(QPRTR)
			got := b.runReads()
			last := got[len(got)-1]
			if last.PSN() != end || last.Syndrome() != wire.SyndromeNAK(wire.NAKRemoteAccess) || got[len(got)-2].Opcode() != wire.RCReadResponseLast {
				t.Errorf("the last packet is PSN %d %v", last.PSN(), last.Syndrome())
			}
			b.wantState(QPErr)
			equal(t, "memory", b.bytes(remoteVA, 8), before)
			b.wantNothingDeferred()
		})
	}
}

// Without a receive work request, a SEND behind a READ gets an RNR NAK after the READ,
// and the rest waits for the peer.
func TestDeferredNotReady(t *testing.T) {
	const n = 2 * readQuantumBytes
	b, at := bigRead(t, n)
	end := slowRead(b, n, at)
	b.send(req(wire.RCSendOnly, end, pattern(8)), req(wire.RCSendOnly, end+1, pattern(8)))
	got := b.runReads()
	if last := got[len(got)-1]; last.PSN() != end || last.Syndrome() != wire.SyndromeRNR(12) {
		t.Errorf("the last packet is PSN %d %v", last.PSN(), last.Syndrome())
	}
	b.post(1, 0, 8)
	b.send(req(wire.RCSendOnly, end, pattern(8)))
	b.want(answerOf(wire.RCAck, wire.SyndromeACK, end))
	b.wantWC(WC{ID: 1})
	b.wantNothingDeferred()
}

// A QP that goes to RESET or ERR, or is destroyed, forgets what it deferred.
func TestDeferredForgotten(t *testing.T) {
	const n = 2 * readQuantumBytes
	for name, do := range map[string]func(b *bench) error{
		"RESET":   func(b *bench) error { return b.qp.Modify(&QPAttr{State: QPReset}, QPAttrState) },
		"ERR":     func(b *bench) error { return b.qp.Modify(&QPAttr{State: QPErr}, QPAttrState) },
		"destroy": func(b *bench) error { return b.qp.Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			b, at := bigRead(t, n)
			end := slowRead(b, n, at)
			b.send(req(wire.RCWriteOnly, end, pattern(8), b.at(0, 8)))
			if b.dev.pools.deferred.used.Load() == 0 {
				t.Fatal("nothing is deferred")
			}
			b.must(do(b))
			b.wantNothingDeferred()
			b.clock.now = max(b.clock.now, b.clock.armed) + 1
			b.dev.Expire()
			b.want()
		})
	}
}

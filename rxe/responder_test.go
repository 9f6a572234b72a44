package rxe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// req returns a request with AckReq at the end of messages, as requesters set it.
func req(op wire.Opcode, psn wire.PSN, data []byte, edit ...func(*wire.Headers)) pkt {
	p := pkt{h: wire.Headers{Opcode: op, PSN: psn, AckReq: op.Info().Has(wire.OpEnd)}, data: data}
	for _, e := range edit {
		e(&p.h)
	}
	return p
}

// at names n bytes of the remote region, off bytes into it.
func (b *bench) at(off uint64, n int) func(*wire.Headers) {
	return func(h *wire.Headers) {
		h.VA, h.RKey, h.DMALen = remoteVA+off, b.remote.RKey(), uint32(n)
	}
}

func ack(psn wire.PSN, msn wire.MSN) check {
	return func(pkt wire.Packet) string {
		if pkt.Opcode() != wire.RCAck || pkt.Syndrome() != wire.SyndromeACK || pkt.PSN() != psn || pkt.MSN() != msn {
			return fmt.Sprintf("MSN %d, want an ACK of PSN %d with MSN %d", pkt.MSN(), psn, msn)
		}
		return ""
	}
}

func answerOf(op wire.Opcode, s wire.Syndrome, psn wire.PSN) check {
	return func(pkt wire.Packet) string {
		if pkt.Opcode() != op || pkt.Syndrome() != s || pkt.PSN() != psn {
			return fmt.Sprintf("want %v of PSN %d with %v", op, psn, s)
		}
		return ""
	}
}

func nak(code wire.NAKCode, psn wire.PSN) check {
	return answerOf(wire.RCAck, wire.SyndromeNAK(code), psn)
}

func atomicAck(psn wire.PSN, orig uint64) check {
	return func(pkt wire.Packet) string {
		if pkt.Opcode() != wire.RCAtomicAck || pkt.PSN() != psn || pkt.AtomicOrig() != orig {
			return fmt.Sprintf("orig 0x%x, want ATOMIC ACK of PSN %d with 0x%x", pkt.AtomicOrig(), psn, orig)
		}
		return ""
	}
}

func readData(op wire.Opcode, psn wire.PSN, data []byte) check {
	return func(pkt wire.Packet) string {
		switch {
		case pkt.Opcode() != op || pkt.PSN() != psn:
			return fmt.Sprintf("want %v PSN %d", op, psn)
		case !bytes.Equal(pkt.Payload(), data):
			return "wrong data"
		case pkt.Info().Has(wire.HasAETH) && pkt.Syndrome() != wire.SyndromeACK:
			return "wrong syndrome"
		}
		return ""
	}
}

// A SEND in three packets fills its gather list in order. It is acknowledged once
// and completes once, as its last packet says.
func TestResponderSend(t *testing.T) {
	for name, tc := range map[string]struct {
		first, middle, last wire.Opcode
		typ                 QPType
	}{
		"RC": {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, QPRC},
		"UC": {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLastImm, QPUC},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.typ, nil)
			b.post(1, 0, 100, 0, 300, 500)
			data := pattern(2*benchMTU + 33)
			b.send(req(tc.first, 100, data[:benchMTU]),
				req(tc.middle, 101, data[benchMTU:2*benchMTU]),
				req(tc.last, 102, data[2*benchMTU:], func(h *wire.Headers) { h.Imm = 0xabcd }))
			if tc.typ == QPRC {
				b.want(ack(102, 1))
			} else {
				b.want()
			}
			wc := b.wantWC(WC{ID: 1})
			want := WC{ID: 1, Opcode: WCRecv, Flags: WCWithImm, Imm: 0xabcd,
				ByteLen: uint32(len(data)), QPN: b.qp.qpn, SrcQP: benchPeerQP}
			if wc != nil && wc[0] != want {
				t.Errorf("completion %+v, want %+v", wc[0], want)
			}
			if !bytes.Equal(b.bytes(localVA, len(data)), data) {
				t.Error("wrong data")
			}
			if b.mem.writes != 1 {
				t.Errorf("%d memory operations for one batch, want 1", b.mem.writes)
			}
			b.wantGuard()
			if len(b.events) != 1 || b.events[0] != EventCommEst {
				t.Errorf("events %v, want communication established", b.events)
			}
		})
	}
}

// Messages of every length around the MTU, over the wrap of the PSN, one
// packet per batch.
func TestResponderWriteLengthsAndPSNWrap(t *testing.T) {
	const start = wire.PSNMask - 3
	b := newBench(t, QPRC, func(a *QPAttr) { a.RQPSN = start })
	psn, msn := wire.PSN(start), wire.MSN(0)
	for _, n := range []int{0, 1, 3, 4, benchMTU - 1, benchMTU, benchMTU + 1, 2 * benchMTU, 2*benchMTU + 5, 16 * benchMTU} {
		data := pattern(n)
		for off := 0; off == 0 || off < n; off += benchMTU {
			end := min(off+benchMTU, n)
			op := wire.RCWriteMiddle
			switch {
			case off == 0 && end == n:
				op = wire.RCWriteOnly
			case off == 0:
				op = wire.RCWriteFirst
			case end == n:
				op = wire.RCWriteLast
			}
			b.send(req(op, psn, data[off:end], b.at(64, n)))
			psn = psn.Next()
		}
		msn++
		b.want(ack(psn.Sub(1), msn))
		if !bytes.Equal(b.bytes(remoteVA+64, n), data) {
			t.Errorf("%d bytes: wrong data", n)
		}
	}
	b.wantGuard()
	b.wantState(QPRTR)
}

// Writes of one batch go to memory together and are acknowledged together.
func TestResponderCoalesces(t *testing.T) {
	b := newBench(t, QPRC, nil)
	var batch []pkt
	for i := range 10 {
		batch = append(batch, req(wire.RCWriteOnly, wire.PSN(100+i), pattern(40), b.at(uint64(100*i), 40)))
	}
	b.send(batch...)
	b.want(ack(109, 10))
	if b.mem.writes != 1 {
		t.Errorf("%d memory operations, want 1", b.mem.writes)
	}
}

// A packet without AckReq is not acknowledged.
func TestResponderAckReq(t *testing.T) {
	b := newBench(t, QPRC, nil)
	quiet := func(h *wire.Headers) { h.AckReq = false }
	b.send(req(wire.RCWriteOnly, 100, pattern(4), b.at(0, 4), quiet))
	b.want()
	b.send(req(wire.RCWriteOnly, 101, pattern(4), b.at(0, 4)))
	b.want(ack(101, 2))
}

func TestResponderWriteImm(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.post(5, 0)
	imm := func(h *wire.Headers) { h.Imm, h.Solicited = 7, true }
	data := pattern(benchMTU + 10)
	b.send(req(wire.RCWriteFirst, 100, data[:benchMTU], b.at(0, len(data))),
		req(wire.RCWriteLastImm, 101, data[benchMTU:], imm))
	b.want(ack(101, 1))
	wc := b.wantWC(WC{ID: 5})
	if wc != nil && (wc[0].Opcode != WCRecvImm || wc[0].ByteLen != uint32(len(data)) || wc[0].Imm != 7) {
		t.Errorf("completion %+v", wc[0])
	}
	if !bytes.Equal(b.bytes(remoteVA, len(data)), data) {
		t.Error("wrong data")
	}
}

// One NAK names the missing packet; then there is silence until it comes.
func TestResponderSequenceNAK(t *testing.T) {
	b := newBench(t, QPRC, nil)
	w := func(psn wire.PSN) pkt { return req(wire.RCWriteOnly, psn, pattern(8), b.at(0, 8)) }
	b.send(w(100), w(102), w(103))
	b.want(nak(wire.NAKPSNSequence, 101))
	b.send(w(104))
	b.send(w(105))
	b.want()
	b.send(w(101), w(102))
	b.want(ack(102, 3))
	b.send(w(104))
	b.want(nak(wire.NAKPSNSequence, 103))
	b.wantState(QPRTR)
	if n := b.qp.tallies.stats.SeqNAKsSent.Load(); n != 2 {
		t.Errorf("%d sequence NAKs counted, want 2", n)
	}
}

// A gap that is closed within the batch needs no NAK.
func TestResponderReorderInBatch(t *testing.T) {
	b := newBench(t, QPRC, nil)
	w := func(psn wire.PSN) pkt { return req(wire.RCWriteOnly, psn, pattern(8), b.at(0, 8)) }
	b.send(w(101), w(100), w(101))
	b.want(ack(101, 2))
}

func TestResponderRNR(t *testing.T) {
	b := newBench(t, QPRC, nil)
	send := func(psn wire.PSN) pkt { return req(wire.RCSendOnly, psn, pattern(8)) }
	b.send(send(100), send(101), send(102))
	b.want(answerOf(wire.RCAck, wire.SyndromeRNR(12), 100))
	b.send(send(101))
	b.want() // in flight behind the one refused
	b.post(1, 0, 8)
	b.send(send(100))
	b.want(ack(100, 1))
	b.wantWC(WC{ID: 1})
	b.send(send(101)) // not ready again
	b.want(answerOf(wire.RCAck, wire.SyndromeRNR(12), 101))
	b.wantState(QPRTR)
}

// Packets that were received before are only acknowledged, with or without AckReq,
// once per batch.
func TestResponderDuplicates(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.post(1, 0, 100)
	first := pattern(16)
	b.send(req(wire.RCSendOnly, 100, first), req(wire.RCWriteOnly, 101, first, b.at(0, 16)))
	b.want(ack(101, 2))
	b.wantWC(WC{ID: 1})
	again := bytes.Repeat([]byte{1}, 16)
	quiet := func(h *wire.Headers) { h.AckReq = false }
	b.send(req(wire.RCSendOnly, 100, again, quiet), req(wire.RCWriteOnly, 101, again, b.at(0, 16), quiet))
	b.want(ack(101, 2))
	b.wantWC()
	if !bytes.Equal(b.bytes(remoteVA, 16), first) {
		t.Error("a duplicate WRITE was executed")
	}
}

// The ACK of a duplicate does not claim that a later READ was answered.
func TestResponderDuplicateBeforeRead(t *testing.T) {
	b := newBench(t, QPRC, nil)
	w := func(psn wire.PSN) pkt { return req(wire.RCWriteOnly, psn, pattern(8), b.at(0, 8)) }
	b.send(w(100), req(wire.RCReadRequest, 101, nil, b.at(0, 8)), w(102))
	b.want(readData(wire.RCReadResponseOnly, 101, pattern(8)), ack(102, 3))
	b.send(w(100))
	b.want(ack(100, 3))
	b.send(w(102))
	b.want(ack(102, 3))
}

func TestResponderAtomics(t *testing.T) {
	b := newBench(t, QPRC, nil)
	word := b.bytes(remoteVA+8, 8)
	binary.NativeEndian.PutUint64(word, 40)
	add := func(h *wire.Headers) { b.at(8, 0)(h); h.SwapAdd = 2 }
	swap := func(h *wire.Headers) { b.at(8, 0)(h); h.Compare, h.SwapAdd = 42, 7 }
	b.send(req(wire.RCFetchAdd, 100, nil, add), req(wire.RCCompareSwap, 101, nil, swap))
	b.want(atomicAck(100, 40), atomicAck(101, 42))
	// replayed with the stored result, executed once
	b.send(req(wire.RCFetchAdd, 100, nil, add), req(wire.RCCompareSwap, 101, nil, swap))
	b.want(atomicAck(100, 40), atomicAck(101, 42))
	if got := binary.NativeEndian.Uint64(word); got != 7 {
		t.Errorf("the word is %d, want 7", got)
	}
	// A duplicate of something else at that PSN gets no answer.
	b.send(req(wire.RCFetchAdd, 101, nil, add))
	b.want()
	if b.dev.counters.StaleRequest.Load() != 1 {
		t.Error("the stale duplicate was not counted")
	}
	b.wantState(QPRTR)
}

func TestResponderAtomicWriteAndFlush(t *testing.T) {
	b := newBench(t, QPRC, nil)
	data := pattern(8)
	flush := func(h *wire.Headers) { b.at(0, 100)(h); h.FlushPlacement = wire.FlushGlobal }
	whole := func(h *wire.Headers) {
		h.RKey, h.FlushPlacement, h.FlushLevel = b.remote.RKey(), wire.FlushPersistent, wire.FlushMR
	}
	empty := func(psn wire.PSN) check { return readData(wire.RCReadResponseOnly, psn, nil) }
	b.send(req(wire.RCAtomicWrite, 100, data, b.at(16, 8)),
		req(wire.RCFlush, 101, nil, flush), req(wire.RCFlush, 102, nil, whole))
	b.want(empty(100), empty(101), empty(102))
	if !bytes.Equal(b.bytes(remoteVA+16, 8), data) {
		t.Error("ATOMIC WRITE stored something else")
	}
	b.send(req(wire.RCAtomicWrite, 100, pattern(16)[8:], b.at(16, 8)), req(wire.RCFlush, 101, nil, flush))
	b.want(empty(100), empty(101))
	if !bytes.Equal(b.bytes(remoteVA+16, 8), data) {
		t.Error("a duplicate ATOMIC WRITE was executed")
	}
}

// A SEND with invalidate gives an event and a completion only if the key could be
// invalidated. Otherwise the QP fails without a NAK.
func TestResponderSendInvalidate(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.post(1, 0, 100)
	b.post(2, 0, 100)
	b.send(req(wire.RCSendOnlyInv, 100, pattern(4), func(h *wire.Headers) { h.InvRKey = 0xdeadbeef }))
	b.want()
	b.wantWC(WC{ID: 1, Status: WCRemInvReqErr}, WC{ID: 2, Status: WCFlushErr})
	b.wantState(QPErr)
}

func TestResponderCQOverflow(t *testing.T) {
	b := newBenchCQ(t, QPRC, 1, nil)
	b.post(1, 0, 100)
	b.post(2, 0, 100)
	b.send(req(wire.RCSendOnly, 100, nil), req(wire.RCSendOnly, 101, nil))
	b.wantState(QPErr)
	b.wantEvents(EventCQErr, EventQPFatal)
}

// reset forgets a message that is half received. The QP can be used again.
func TestResponderReset(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.post(1, 0, 2*benchMTU)
	b.send(req(wire.RCSendFirst, 100, pattern(benchMTU)))
	b.want()
	b.must(b.qp.Modify(&QPAttr{State: QPReset}, QPAttrState))
	b.wantWC()
	b.toRTR(QPRC, nil)
	b.post(2, 0, 100)
	b.send(req(wire.RCSendOnly, 100, pattern(4)))
	b.want(ack(100, 1))
	b.wantWC(WC{ID: 2})
}

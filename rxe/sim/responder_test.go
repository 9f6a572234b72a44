package sim

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The responder's side of the conformance lists: the test asks, and the device
// answers.

func (s *stage) rkey() wire.RKey { return s.mr.RKey() }

func va(off int) uint64 { return uint64(memBase + off) }

func TestResponderSuccess(t *testing.T) {
	s := newStage(t, nil)
	s.postRecv(1, 0x2000, 1000)
	s.postRecv(2, 0x3000, 1000)
	psn := stageRQ
	data := template[5000:][:300]

	s.say(wire.Headers{Opcode: wire.RCSendFirst, PSN: psn}, data[:256])
	s.expect()
	s.say(wire.Headers{Opcode: wire.RCSendLastImm, PSN: psn.Add(1), AckReq: true, Imm: 9}, data[256:])
	if h := s.expectAETH(psn.Add(1), wire.SyndromeACK); h.MSN != 1 {
		t.Errorf("MSN %d", h.MSN)
	}
	wc := s.done(rxe.WC{ID: 1})[0]
	if wc.ByteLen != 300 || wc.Imm != 9 || !bytes.Equal(s.mem.Data[0x2000:0x2000+300], data) {
		t.Errorf("completion %+v", wc)
	}
	s.say(wire.Headers{Opcode: wire.RCWriteOnlyImm, PSN: psn.Add(2), AckReq: true, VA: va(0x100), RKey: s.rkey(),
		DMALen: 9, Imm: 3}, data[:9])
	s.expectAETH(psn.Add(2), wire.SyndromeACK)
	if wc := s.done(rxe.WC{ID: 2})[0]; wc.Opcode != rxe.WCRecvImm || wc.ByteLen != 9 || wc.Imm != 3 {
		t.Errorf("completion %+v", wc)
	}
	s.say(wire.Headers{Opcode: wire.RCReadRequest, PSN: psn.Add(3), AckReq: true, VA: va(0x100), RKey: s.rkey(), DMALen: 257}, nil)
	r := s.expect(wire.RCReadResponseFirst, wire.RCReadResponseLast)
	if r[0].PSN != psn.Add(3) || r[1].MSN != 3 || !bytes.Equal(append(r[0].data, r[1].data...), s.mem.Data[0x100:0x201]) {
		t.Error("READ answered wrongly")
	}
	old := binary.NativeEndian.Uint64(s.mem.Data[0x400:])
	s.say(wire.Headers{Opcode: wire.RCFetchAdd, PSN: psn.Add(5), AckReq: true, VA: va(0x400), RKey: s.rkey(), SwapAdd: 3}, nil)
	if a := s.expect(wire.RCAtomicAck)[0]; a.AtomicOrig != old || a.MSN != 4 {
		t.Errorf("atomic answered %+v", a.Headers)
	}
	// A replay gets the same answer, and changes nothing.
	s.say(wire.Headers{Opcode: wire.RCFetchAdd, PSN: psn.Add(5), AckReq: true, VA: va(0x400), RKey: s.rkey(), SwapAdd: 3}, nil)
	if a := s.expect(wire.RCAtomicAck)[0]; a.AtomicOrig != old || a.PSN != psn.Add(5) {
		t.Errorf("replayed atomic answered %+v", a.Headers)
	}
	if got := binary.NativeEndian.Uint64(s.mem.Data[0x400:]); got != old+3 {
		t.Errorf("memory holds %d, want %d", got, old+3)
	}
	s.state(rxe.QPRTS)
}

// One NAK per gap, with the first missing PSN; then there is silence until that
// comes.
func TestResponderSequenceNAK(t *testing.T) {
	s := newStage(t, nil)
	for i := range uint64(3) {
		s.postRecv(i, 0x2000, 100)
	}
	send := func(i uint32) {
		s.say(wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ.Add(i), AckReq: true}, template[:10])
	}
	nak := wire.SyndromeNAK(wire.NAKPSNSequence)
	send(2)
	s.expectAETH(stageRQ, nak)
	send(1)
	send(2)
	s.expect()
	send(0)
	s.expectAETH(stageRQ, wire.SyndromeACK)
	send(2)
	s.expectAETH(stageRQ.Add(1), nak)
	send(1)
	s.expectAETH(stageRQ.Add(1), wire.SyndromeACK)
	send(2)
	s.expectAETH(stageRQ.Add(2), wire.SyndromeACK)
	s.done(rxe.WC{ID: 0}, rxe.WC{ID: 1}, rxe.WC{ID: 2})
}

// A duplicate is acknowledged again and not executed again.
func TestResponderDuplicate(t *testing.T) {
	s := newStage(t, nil)
	s.postRecv(1, 0x2000, 100)
	s.postRecv(2, 0x3000, 100)
	h := wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ, AckReq: true}
	s.say(h, template[:10])
	s.expectAETH(stageRQ, wire.SyndromeACK)
	s.say(h, template[:10])
	s.expectAETH(stageRQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
}

// A READ asked for again from its middle is answered from there.
func TestResponderPartialRead(t *testing.T) {
	s := newStage(t, nil)
	h := wire.Headers{Opcode: wire.RCReadRequest, PSN: stageRQ, AckReq: true, VA: va(0), RKey: s.rkey(), DMALen: 3 * stageMTU}
	s.say(h, nil)
	s.expect(wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast)
	h.PSN, h.VA, h.DMALen = stageRQ.Add(1), va(stageMTU), 2*stageMTU
	s.say(h, nil)
	r := s.hear()
	if len(r) != 2 || r[0].PSN != stageRQ.Add(1) || r[1].Opcode != wire.RCReadResponseLast ||
		!bytes.Equal(append(r[0].data, r[1].data...), s.mem.Data[stageMTU:3*stageMTU]) {
		t.Fatalf("answered %+v", r)
	}
	// not what was asked for before: no answer
	h.VA += 8
	s.say(h, nil)
	h.VA, h.DMALen = va(stageMTU), 4*stageMTU
	s.say(h, nil)
	s.expect()
	s.state(rxe.QPRTS)
}

func TestResponderRNR(t *testing.T) {
	s := newStage(t, func(a *rxe.QPAttr) { a.MinRNRTimer = 13 })
	h := wire.Headers{Opcode: wire.RCSendOnly, PSN: stageRQ, AckReq: true}
	s.say(h, template[:10])
	s.expectAETH(stageRQ, wire.SyndromeRNR(13))
	s.postRecv(1, 0x2000, 100)
	s.say(h, template[:10])
	s.expectAETH(stageRQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
}

// C9-027: answers come strictly in PSN order, whatever the mix.
func TestResponderOrder(t *testing.T) {
	s := newStage(t, nil)
	s.postRecv(1, 0x2000, 100)
	read := wire.Headers{Opcode: wire.RCReadRequest, AckReq: true, VA: va(0), RKey: s.rkey(), DMALen: 2 * stageMTU}
	atomic := wire.Headers{Opcode: wire.RCFetchAdd, AckReq: true, VA: va(0x400), RKey: s.rkey(), SwapAdd: 1}
	write := wire.Headers{Opcode: wire.RCWriteOnly, AckReq: true, VA: va(0x800), RKey: s.rkey(), DMALen: 8}
	send := wire.Headers{Opcode: wire.RCSendOnly, AckReq: true}
	psn := stageRQ
	for _, m := range []struct {
		wire.Headers
		n int
		d []byte
	}{{read, 2, nil}, {write, 1, template[:8]}, {atomic, 1, nil}, {send, 1, template[:9]}, {atomic, 1, nil}, {read, 2, nil}, {write, 1, template[:8]}} {
		m.PSN = psn
		s.mumble(m.Headers, m.d)
		psn = psn.Add(uint32(m.n))
	}
	s.wait(1000_000)
	last := stageRQ.Sub(1)
	for _, h := range s.hear() {
		if h.PSN.Less(last) {
			t.Errorf("%v for PSN %#x after %#x", h.Opcode, h.PSN, last)
		}
		last = h.PSN
	}
	if last != psn.Sub(1) {
		t.Errorf("last answer for PSN %#x, want %#x", last, psn.Sub(1))
	}
}

// The peer's mistakes are answered with the code that IBA, or rdma_rxe, has for
// them. The QP goes to ERR and its receives are flushed.
func TestResponderMistakes(t *testing.T) {
	const invalid, access, buffer = wire.NAKInvalidRequest, wire.NAKRemoteAccess, 100
	key := func(s *stage) wire.RKey { return s.rkey() }
	wrong := func(s *stage) wire.RKey { return s.rkey() ^ 1 }
	small := func(a *rxe.QPAttr) { a.Access = 0 }
	for _, c := range []struct {
		name   string
		change func(*rxe.QPAttr)
		key    func(*stage) wire.RKey
		h      wire.Headers
		data   int
		want   wire.NAKCode
	}{
		{"write, bad rkey", nil, wrong, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(0), DMALen: 8}, 8, access},
		{"read, bad rkey", nil, wrong, wire.Headers{Opcode: wire.RCReadRequest, VA: va(0), DMALen: 8}, 0, access},
		{"atomic, bad rkey", nil, wrong, wire.Headers{Opcode: wire.RCFetchAdd, VA: va(0)}, 0, access},
		{"write before the region", nil, key, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(-1), DMALen: 8}, 8, access},
		{"write over the end", nil, key, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(stageMem - 7), DMALen: 8}, 8, access},
		{"read over the end", nil, key, wire.Headers{Opcode: wire.RCReadRequest, VA: va(1), DMALen: stageMem}, 0, access},
		{"read that wraps", nil, key, wire.Headers{Opcode: wire.RCReadRequest, VA: 1<<64 - 8, DMALen: 16}, 0, access},
		{"write of more than it says", nil, key, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(0), DMALen: 4}, 8, invalid},
		{"write of less than it says", nil, key, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(0), DMALen: 16}, 8, invalid},
		{"write beyond 2 GiB", nil, key, wire.Headers{Opcode: wire.RCWriteFirst, VA: va(0), DMALen: 1<<31 + 1}, stageMTU, invalid},
		{"read beyond 2 GiB", nil, key, wire.Headers{Opcode: wire.RCReadRequest, VA: va(0), DMALen: 1<<31 + 1}, 0, invalid},
		{"middle without first", nil, key, wire.Headers{Opcode: wire.RCSendMiddle}, stageMTU, invalid},
		{"last without first", nil, key, wire.Headers{Opcode: wire.RCWriteLast}, 8, invalid},
		{"short first", nil, key, wire.Headers{Opcode: wire.RCSendFirst}, stageMTU - 4, invalid},
		{"only above the MTU", nil, key, wire.Headers{Opcode: wire.RCSendOnly}, stageMTU + 4, invalid},
		{"misaligned atomic", nil, key, wire.Headers{Opcode: wire.RCCompareSwap, VA: va(4)}, 0, invalid},
		{"write not permitted", small, key, wire.Headers{Opcode: wire.RCWriteOnly, VA: va(0), DMALen: 8}, 8, invalid},
		{"read not permitted", small, key, wire.Headers{Opcode: wire.RCReadRequest, VA: va(0), DMALen: 8}, 0, invalid},
		{"atomic not permitted", small, key, wire.Headers{Opcode: wire.RCFetchAdd, VA: va(0)}, 0, invalid},
		{"send above the buffer", nil, key, wire.Headers{Opcode: wire.RCSendOnly}, buffer + 1, invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.change)
			s.postRecv(1, 0x2000, buffer)
			s.postRecv(2, 0x2000, buffer)
			before := append([]byte(nil), s.mem.Data...)
			c.h.PSN, c.h.AckReq, c.h.RKey = stageRQ, true, c.key(s)
			s.say(c.h, template[:c.data])
			s.expectAETH(stageRQ, wire.SyndromeNAK(c.want))
			first := rxe.WCFlushErr
			if c.data == buffer+1 {
				first = rxe.WCLocLenErr
			}
			s.done(rxe.WC{ID: 1, Status: first}, rxe.WC{ID: 2, Status: rxe.WCFlushErr})
			s.state(rxe.QPErr)
			if !bytes.Equal(before, s.mem.Data) {
				t.Error("memory changed")
			}
		})
	}
}

// A message that lacks its LAST, and one that changes its kind.
func TestResponderMissingLast(t *testing.T) {
	for _, second := range []wire.Opcode{wire.RCSendFirst, wire.RCSendOnly, wire.RCWriteMiddle, wire.RCReadRequest} {
		s := newStage(t, nil)
		s.postRecv(1, 0x2000, 1000)
		s.say(wire.Headers{Opcode: wire.RCSendFirst, PSN: stageRQ}, template[:stageMTU])
		n := stageMTU
		if second == wire.RCReadRequest {
			n = 0
		}
		s.say(wire.Headers{Opcode: second, PSN: stageRQ.Add(1), AckReq: true}, template[:n])
		s.expectAETH(stageRQ.Add(1), wire.SyndromeNAK(wire.NAKInvalidRequest))
		s.done(rxe.WC{ID: 1, Status: rxe.WCFlushErr})
		s.state(rxe.QPErr)
	}
}

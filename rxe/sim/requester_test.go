package sim

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The requester's side of the conformance lists: the device posts, and the test
// answers. Numbers C9-… are those of the InfiniBand Test Specification.

func (s *stage) send(id uint64, n int) rxe.SendWR {
	return rxe.SendWR{ID: id, Op: rxe.WRSend, SGL: s.sge(0, n)}
}

func (s *stage) read(id uint64, n int) rxe.SendWR {
	return rxe.SendWR{ID: id, Op: rxe.WRRead, SGL: s.sge(0, n), RemoteAddr: 0x1000, RKey: 7}
}

func (s *stage) fetchAdd(id uint64) rxe.SendWR {
	return rxe.SendWR{ID: id, Op: rxe.WRFetchAdd, SGL: s.sge(8, 8), RemoteAddr: 0x1000, RKey: 7, CompareAdd: 1}
}

// readResponse answers one packet of a READ.
func (s *stage) readResponse(op wire.Opcode, psn wire.PSN, data []byte) {
	s.say(wire.Headers{Opcode: op, PSN: psn, Syndrome: wire.SyndromeACK}, data)
}

func TestRequesterSuccess(t *testing.T) {
	psn := stageSQ
	for _, c := range []struct {
		name string
		wr   rxe.SendWR
		ops  []wire.Opcode
		wc   rxe.WCOpcode
	}{
		{"send", rxe.SendWR{Op: rxe.WRSend}, []wire.Opcode{wire.RCSendOnly}, rxe.WCSend},
		{"send imm", rxe.SendWR{Op: rxe.WRSendImm}, []wire.Opcode{wire.RCSendOnlyImm}, rxe.WCSend},
		{"write", rxe.SendWR{Op: rxe.WRWrite}, []wire.Opcode{wire.RCWriteOnly}, rxe.WCWrite},
		{"write imm", rxe.SendWR{Op: rxe.WRWriteImm}, []wire.Opcode{wire.RCWriteOnlyImm}, rxe.WCWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, nil)
			c.wr.ID, c.wr.SGL = 1, s.sge(0, 100)
			s.post(c.wr)
			h := s.expect(c.ops...)[0]
			if h.PSN != psn || !h.AckReq || h.DestQP != farQPN || !bytes.Equal(h.data, s.mem.Data[:100]) {
				t.Errorf("sent %+v", h.Headers)
			}
			s.done()
			s.ack(psn, wire.SyndromeACK)
			if wc := s.done(rxe.WC{ID: 1})[0]; wc.Opcode != c.wc || wc.QPN != s.q.Num() {
				t.Errorf("completion %+v", wc)
			}
		})
	}
}

func TestRequesterReadAndAtomic(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.read(1, 2*stageMTU+1), s.fetchAdd(2))
	got := s.expect(wire.RCReadRequest, wire.RCFetchAdd)
	if got[0].DMALen != 2*stageMTU+1 || got[1].PSN != stageSQ.Add(3) {
		t.Fatalf("sent %+v", got)
	}
	data := template[1000:][:2*stageMTU+1]
	s.readResponse(wire.RCReadResponseFirst, stageSQ, data[:stageMTU])
	s.readResponse(wire.RCReadResponseMiddle, stageSQ.Add(1), data[stageMTU:2*stageMTU])
	s.done()
	s.readResponse(wire.RCReadResponseLast, stageSQ.Add(2), data[2*stageMTU:])
	s.done(rxe.WC{ID: 1})
	if !bytes.Equal(s.mem.Data[:len(data)], data) {
		t.Error("READ brought wrong data")
	}
	s.say(wire.Headers{Opcode: wire.RCAtomicAck, PSN: stageSQ.Add(3), Syndrome: wire.SyndromeACK, AtomicOrig: 5}, nil)
	if wc := s.done(rxe.WC{ID: 2})[0]; wc.Opcode != rxe.WCFetchAdd || wc.ByteLen != 8 || s.mem.Data[8] != 5 {
		t.Errorf("completion %+v", wc)
	}
}

// The NAK codes end the connection, each with its status. Requests queued behind
// are flushed in order (IBA 9.9.2).
func TestRequesterNAK(t *testing.T) {
	for code, want := range map[wire.NAKCode]rxe.WCStatus{
		wire.NAKInvalidRequest: rxe.WCRemInvReqErr,
		wire.NAKRemoteAccess:   rxe.WCRemAccessErr,
		wire.NAKRemoteOp:       rxe.WCRemOpErr,
	} {
		t.Run(code.String(), func(t *testing.T) {
			s := newStage(t, nil)
			s.post(s.send(1, 10), s.send(2, 10), s.send(3, 10))
			s.ack(stageSQ.Add(1), wire.SyndromeNAK(code))
			s.done(rxe.WC{ID: 1}, rxe.WC{ID: 2, Status: want}, rxe.WC{ID: 3, Status: rxe.WCFlushErr})
			s.state(rxe.QPErr)
		})
	}
}

// C9-142, C9-143: a READ that nobody answers is sent again exactly retry_cnt
// times, each after the local ACK timeout, and then fails.
func TestRequesterTimeoutExceeded(t *testing.T) {
	s := newStage(t, func(a *rxe.QPAttr) { a.RetryCnt, a.Timeout = 2, 18 })
	s.post(s.read(1, 10), s.send(2, 10))
	s.wait(10 * time.Second)
	var reads []heard
	for _, h := range s.hear() {
		if h.Opcode == wire.RCReadRequest {
			reads = append(reads, h)
		}
	}
	if len(reads) != 1+2 {
		t.Fatalf("the READ was sent %d times, want 3", len(reads))
	}
	const timeout = rxe.Time(4096 << 18)
	for i, h := range reads {
		if h.PSN != stageSQ {
			t.Errorf("READ %d has PSN %#x", i, h.PSN)
		}
		if i > 0 && (h.at-reads[i-1].at < timeout || h.at-reads[i-1].at > 4*timeout) {
			t.Errorf("READ %d came %v after the one before", i, time.Duration(h.at-reads[i-1].at))
		}
	}
	s.done(rxe.WC{ID: 1, Status: rxe.WCRetryExcErr}, rxe.WC{ID: 2, Status: rxe.WCFlushErr})
	s.state(rxe.QPErr)
}

// The local ACK timeout doubles with each retry, up to four times its value (IBA 9.7.6.1.3). After
// progress it has its value again.
func TestRequesterTimeoutBacksOff(t *testing.T) {
	const timeout = rxe.Time(4096 << 18)
	s := newStage(t, func(a *rxe.QPAttr) { a.RetryCnt, a.Timeout = 5, 18 })
	gaps := func() (gaps []rxe.Time) {
		sent := s.hear()
		for i := 1; i < len(sent); i++ {
			gaps = append(gaps, (sent[i].at-sent[i-1].at+timeout/2)/timeout)
		}
		return gaps
	}
	s.post(s.send(1, 10))
	s.wait(time.Duration(12 * timeout))
	if got, want := gaps(), []rxe.Time{1, 2, 4, 4}; !slices.Equal(got, want) {
		t.Errorf("timeouts %v, want %v", got, want)
	}
	s.ack(stageSQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
	s.post(s.send(2, 10))
	s.wait(time.Duration(4 * timeout))
	if got, want := gaps(), []rxe.Time{1, 2}; !slices.Equal(got, want) {
		t.Errorf("timeouts after progress %v, want %v", got, want)
	}
}

// A READ of no bytes carries the program's rkey and 0 alternately: different
// releases of rdma_rxe compare repeated requests with one or the other.
func TestRequesterEmptyReadKey(t *testing.T) {
	s := newStage(t, func(a *rxe.QPAttr) { a.RetryCnt = 3 })
	s.post(s.read(1, 0))
	s.wait(10 * time.Second)
	var keys []wire.RKey
	for _, h := range s.hear() {
		keys = append(keys, h.RKey)
	}
	if want := []wire.RKey{7, 0, 7, 0}; !slices.Equal(keys, want) {
		t.Errorf("rkeys %v, want %v", keys, want)
	}
}

func TestRequesterTimeoutNotExceeded(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.send(1, 10))
	s.wait(3 * 4096 << 9)
	if n := len(s.hear()); n != 2 {
		t.Fatalf("sent %d times, want 2", n)
	}
	s.ack(stageSQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
	// Progress refills the budget.
	s.post(s.send(2, 10))
	s.wait(time.Second)
	if n := len(s.hear()); n != 3 {
		t.Fatalf("sent %d times, want 3", n)
	}
	s.done(rxe.WC{ID: 2, Status: rxe.WCRetryExcErr})
}

func TestRequesterSequenceNAK(t *testing.T) {
	nak := wire.SyndromeNAK(wire.NAKPSNSequence)
	s := newStage(t, nil)
	s.post(s.send(1, 3*stageMTU))
	s.expect(wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast)
	// It acknowledges the first packet, and asks for the rest.
	s.ack(stageSQ.Add(1), nak)
	if h := s.expect(wire.RCSendMiddle, wire.RCSendLast); h[0].PSN != stageSQ.Add(1) {
		t.Fatalf("went back to %#x", h[0].PSN)
	}
	s.ack(stageSQ.Add(1), nak)
	s.expect(wire.RCSendMiddle, wire.RCSendLast)
	s.ack(stageSQ.Add(1), nak)
	s.done(rxe.WC{ID: 1, Status: rxe.WCRetryExcErr})
	s.expect()
}

// An acknowledgement beyond a READ shows that its responses were lost.
func TestRequesterImpliedNAK(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.read(1, 10), s.send(2, 10))
	s.expect(wire.RCReadRequest, wire.RCSendOnly)
	s.ack(stageSQ.Add(1), wire.SyndromeACK)
	s.done()
	s.expect(wire.RCReadRequest, wire.RCSendOnly)
	s.readResponse(wire.RCReadResponseOnly, stageSQ, template[:10])
	s.ack(stageSQ.Add(1), wire.SyndromeACK)
	s.done(rxe.WC{ID: 1}, rxe.WC{ID: 2})
}

func TestRequesterImpliedNAKExceeded(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.read(1, 10), s.send(2, 10))
	for range 20 {
		s.ack(stageSQ.Add(1), wire.SyndromeACK)
		s.wait(2 * time.Millisecond)
	}
	s.wait(time.Second)
	s.done(rxe.WC{ID: 1, Status: rxe.WCRetryExcErr}, rxe.WC{ID: 2, Status: rxe.WCFlushErr})
	n := 0
	for _, h := range s.hear() {
		if h.Opcode == wire.RCReadRequest {
			n++
		}
	}
	if n != 3 {
		t.Errorf("the READ was sent %d times, want 3", n)
	}
}

// C9-130: after an RNR NAK the requester waits at least as long as its timer
// says.
func TestRequesterRNR(t *testing.T) {
	s := newStage(t, nil) // rnr_retry 1
	const code = 31
	s.post(s.send(1, 10))
	first := s.expect(wire.RCSendOnly)[0]
	s.ack(stageSQ, wire.SyndromeRNR(code))
	s.wait(5 * time.Second)
	// Nobody answers the second attempt, so that it times out. Only its beginning
	// matters here.
	second := s.hear()[0]
	if d := time.Duration(second.at - first.at); d < 491520*time.Microsecond {
		t.Errorf("waited %v", d)
	}
	s.done(rxe.WC{ID: 1, Status: rxe.WCRetryExcErr})
}

func TestRequesterRNRExceeded(t *testing.T) {
	s := newStage(t, nil) // rnr_retry 1
	s.post(s.send(1, 10))
	s.ack(stageSQ, wire.SyndromeRNR(1))
	s.wait(100 * time.Microsecond)
	s.expect(wire.RCSendOnly, wire.RCSendOnly)
	s.ack(stageSQ, wire.SyndromeRNR(1))
	s.done(rxe.WC{ID: 1, Status: rxe.WCRNRRetryErr})
	s.state(rxe.QPErr)
}

func TestRequesterRNRNotExceeded(t *testing.T) {
	s := newStage(t, func(a *rxe.QPAttr) { a.RNRRetry = 7 }) // for ever
	s.post(s.send(1, 10))
	for range 100 {
		s.ack(stageSQ, wire.SyndromeRNR(1))
		s.wait(100 * time.Microsecond)
	}
	if n := len(s.hear()); n != 101 {
		t.Errorf("sent %d times, want 101", n)
	}
	s.ack(stageSQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
}

// Linux's responder sends a sequence NAK behind an RNR NAK, for packets under way
// behind the refused one. When that comes after a short RNR timer, it asks for a
// retry, however often: the responder does answer.
func TestRequesterRNRWithSequenceNAK(t *testing.T) {
	s := newStage(t, func(a *rxe.QPAttr) { a.RNRRetry = 7 })
	s.post(s.send(1, 10), s.send(2, 10))
	for range 20 {
		s.ack(stageSQ, wire.SyndromeRNR(1))
		s.wait(100 * time.Microsecond)
		s.ack(stageSQ, wire.SyndromeNAK(wire.NAKPSNSequence))
	}
	s.ack(stageSQ.Add(1), wire.SyndromeACK)
	s.done(rxe.WC{ID: 1}, rxe.WC{ID: 2})
}

// A response of the wrong kind at the expected PSN is fatal (IBA 9.9.2.3).
func TestRequesterBadResponse(t *testing.T) {
	for _, h := range []wire.Headers{
		{Opcode: wire.RCReadResponseOnly, Syndrome: wire.SyndromeACK},
		{Opcode: wire.RCAtomicAck, Syndrome: wire.SyndromeACK},
	} {
		s := newStage(t, nil)
		s.post(s.send(1, 10))
		h.PSN = stageSQ
		s.say(h, nil)
		s.done(rxe.WC{ID: 1, Status: rxe.WCBadRespErr})
		s.state(rxe.QPErr)
	}
	s := newStage(t, nil)
	s.post(s.read(1, 10))
	s.readResponse(wire.RCReadResponseOnly, stageSQ, template[:11])
	s.done(rxe.WC{ID: 1, Status: rxe.WCBadRespErr})
}

// An acknowledgement of a PSN that was never sent, or was sent long ago, changes
// nothing.
func TestRequesterGhostACK(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.send(1, 10))
	for _, psn := range []wire.PSN{stageSQ.Add(1), stageSQ.Add(1000), stageSQ.Sub(1), stageSQ.Add(1 << 22)} {
		s.ack(psn, wire.SyndromeACK)
		s.ack(psn, wire.SyndromeNAK(wire.NAKRemoteAccess))
	}
	s.done()
	s.ack(stageSQ, wire.SyndromeACK)
	s.done(rxe.WC{ID: 1})
	s.state(rxe.QPRTS)
}

// C9-060: of two requests only the one that is answered completes.
func TestRequesterCompletionRules(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.read(1, 3*stageMTU), s.read(2, 3*stageMTU))
	s.readResponse(wire.RCReadResponseFirst, stageSQ, template[:stageMTU])
	s.readResponse(wire.RCReadResponseMiddle, stageSQ.Add(1), template[:stageMTU])
	s.readResponse(wire.RCReadResponseLast, stageSQ.Add(2), template[:stageMTU])
	s.done(rxe.WC{ID: 1})

	s = newStage(t, nil)
	s.post(s.fetchAdd(1), s.fetchAdd(2))
	s.say(wire.Headers{Opcode: wire.RCAtomicAck, PSN: stageSQ, Syndrome: wire.SyndromeACK, MSN: 1}, nil)
	s.done(rxe.WC{ID: 1})
}

// A READ that was answered in part is asked for again from that point on.
func TestRequesterPartialReadRetry(t *testing.T) {
	s := newStage(t, nil)
	s.post(s.read(1, 3*stageMTU))
	s.readResponse(wire.RCReadResponseFirst, stageSQ, template[:stageMTU])
	s.hear()
	s.wait(3 * 4096 << 9)
	h := s.hear()[0]
	if h.Opcode != wire.RCReadRequest || h.PSN != stageSQ.Add(1) || h.VA != 0x1000+stageMTU || h.DMALen != 2*stageMTU {
		t.Fatalf("asked for %v PSN %#x VA %#x length %d", h.Opcode, h.PSN, h.VA, h.DMALen)
	}
	s.readResponse(wire.RCReadResponseFirst, stageSQ.Add(1), template[stageMTU:2*stageMTU])
	s.readResponse(wire.RCReadResponseLast, stageSQ.Add(2), template[2*stageMTU:3*stageMTU])
	s.done(rxe.WC{ID: 1})
	if !bytes.Equal(s.mem.Data[:3*stageMTU], template[:3*stageMTU]) {
		t.Error("wrong data")
	}
}

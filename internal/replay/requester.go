package replay

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The engine as requester: it is given the work requests that the captured packets
// stand for, each when its first packet comes, and sends as it likes; a captured
// packet is compared with what it last sent under that PSN. It gets the captured
// responses once it has sent what they answer. Time goes on where the captured
// device retried.

type requester struct {
	*session
	s  *Session
	h  *host
	x  *index
	mr *rxe.MR

	base    wire.PSN // lies at address 0 of the memory
	next    wire.PSN // of the next message
	sent    map[wire.PSN]wire.Packet
	limit   wire.PSN             // one past the last that was sent
	ends    map[wire.PSN]bool    // where READs end that the engine has cut up
	feed    []event              // responses to what is not sent yet
	waiting map[wire.PSN][]event // requests that the engine has not sent yet
	highest wire.PSN             // captured
	retried bool                 // a NAK or a wait has made the engine go back
	rnr     bool                 // the engine waits
	died    rxe.WCStatus         // of the first work request that failed
}

func playRequester(n *session, s *Session) error {
	h, err := newHost(n, n.flow.Src, n.flow.Dst, n.budget())
	if err != nil {
		return err
	}
	defer h.close()
	if n.service == wire.ServiceUD {
		return playDatagrams(n, s, h)
	}
	r := &requester{session: n, s: s, h: h, x: newIndex(n.events)}
	if err := r.connect(n.events[0].pkt.PSN()); err != nil {
		return err
	}
	for i := range n.events {
		if n.events[i].request {
			err = r.request(i)
		} else {
			err = r.respond(n.events[i])
		}
		if err != nil {
			return err
		}
	}
	r.finish()
	return nil
}

// connect begins, or begins anew, at a PSN.
func (r *requester) connect(psn wire.PSN) error {
	payload := func(n uint64) []byte {
		if list := r.x.requests[psn.Add(uint32(n))]; len(list) > 0 {
			return r.events[list[0]].pkt.Payload()
		}
		return nil
	}
	mr, err := r.h.pd.RegMR(&sent{mtu: uint64(r.mtu), payload: payload}, 0, 1<<40, 0, rxe.AccessLocalWrite)
	if err != nil {
		return err
	}
	r.mr, r.base, r.next, r.limit, r.highest = mr, psn, psn, psn, psn
	r.sent, r.ends = make(map[wire.PSN]wire.Packet), make(map[wire.PSN]bool)
	r.feed, r.waiting, r.retried, r.rnr = nil, make(map[wire.PSN][]event), false, false
	return r.h.connect(rxe.QPAttr{PathMTU: rxe.MTU(r.mtu), DestQPN: r.flow.QPN, SQPSN: psn})
}

// request handles the captured request at position i.
func (r *requester) request(i int) error {
	e := r.events[i]
	psn := e.pkt.PSN()
	if psn.Less(r.base) {
		return nil // of before
	}
	if !psn.Less(r.next) {
		if err := r.post(i); err != nil {
			return err
		}
		if psn.Less(r.base) || !psn.Less(r.next) {
			return nil
		}
	}
	if !psn.Less(r.highest) {
		r.highest, r.retried = psn.Add(span(e.pkt, r.mtu)), false
	} else if _, ok := r.sent[psn]; !r.retried || !ok && r.h.q.Snapshot().AckedPSN == psn {
		if err := r.retry(e); err != nil {
			return err
		}
	}
	if _, ok := r.sent[psn]; !ok {
		r.waiting[psn] = append(r.waiting[psn], e)
		return nil
	}
	r.compare(e)
	return nil
}

// post gives the engine all messages up to the one of the request at position i.
func (r *requester) post(i int) error {
	psn := r.events[i].pkt.PSN()
	for !psn.Less(r.next) {
		first, ok := r.start(r.next, i)
		if !ok {
			// The capture lacks the beginning of a message.
			if !r.events[i].pkt.Info().Has(wire.OpStart) {
				return nil
			}
			r.s.free("requests that the capture lacks, and all before them that is not acknowledged")
			if err := r.connect(psn); err != nil {
				return err
			}
			continue
		}
		wr, packets := r.message(first)
		if int64(wr.length()) > r.h.budget {
			return errBudget
		}
		if _, err := r.h.q.PostSend([]rxe.SendWR{wr.SendWR}); err != nil {
			return r.failed(err)
		}
		r.s.Played++
		r.next = r.next.Add(packets)
		if err := r.run(0); err != nil {
			return err
		}
	}
	return nil
}

// start returns the packet that begins a message at a PSN; now is the position of
// the request that is being played.
func (r *requester) start(psn wire.PSN, now int) (wire.Packet, bool) {
	list := r.x.requests[psn]
	for _, i := range list[:min(len(list), maxTries)] {
		if p := r.events[i].pkt; p.Info().Has(wire.OpStart) {
			return p, true
		}
	}
	p := r.events[now].pkt
	return p, p.PSN() == psn && p.Info().Has(wire.OpStart)
}

// failed is the error for a queue pair that takes no more.
func (r *requester) failed(err error) error {
	if s := r.h.q.State(); s != rxe.QPRTS {
		// Had a NAK done that, the session would have ended.
		r.poll()
		r.s.differ(Difference{About: "requester's end", Captured: "goes on", Engine: fmt.Sprintf("is in %v after %v", s, r.died)})
		return errEnd
	}
	if errors.Is(err, rxe.ErrFull) {
		return errors.New("more requests are outstanding than are replayed")
	}
	return err
}

// workRequest is a work request and where its message lies.
type workRequest struct{ rxe.SendWR }

func (w *workRequest) length() uint32 {
	if len(w.SGL) == 0 {
		return 0
	}
	return w.SGL[0].Length
}

// message is the work request that a captured message stands for, and how many
// PSNs it takes.
func (r *requester) message(first wire.Packet) (*workRequest, uint32) {
	info := first.Info()
	w := &workRequest{rxe.SendWR{ID: sendID, RemoteAddr: first.VA(), RKey: first.RKey(), Flags: rxe.SendSignaled}}
	length, packets := uint32(len(first.Payload())), uint32(1)
	last := first
	switch {
	case info.Has(wire.OpRead):
		w.Op, length, packets = rxe.WRRead, first.DMALen(), readPackets(first, r.mtu)
	case info.Has(wire.OpAtomic):
		w.Op, length = rxe.WRFetchAdd, 8
		w.CompareAdd = first.SwapAdd()
		if first.Opcode() == wire.RCCompareSwap {
			w.Op, w.CompareAdd, w.Swap = rxe.WRCompareSwap, first.Compare(), first.SwapAdd()
		}
	case info.Has(wire.OpAtomicWrite):
		w.Op = rxe.WRAtomicWrite
	case info.Has(wire.OpFlush):
		w.Op, w.FlushLength = rxe.WRFlush, first.DMALen()
		w.FlushType, w.FlushLevel = first.FlushType()
		return w, 1
	default:
		last, packets, length = r.extent(first)
		w.Op = dataOp(last)
		w.Imm, w.InvRKey = last.Imm(), last.InvRKey()
	}
	if last.Solicited() {
		w.Flags |= rxe.SendSolicited
	}
	w.SGL = []rxe.SGE{{Addr: uint64(first.PSN().Diff(r.base)) * uint64(r.mtu), Length: length, LKey: r.mr.LKey()}}
	return w, packets
}

// dataOp is what a message ends as. Of one that the capture does not hold to its
// end, its kind.
func dataOp(last wire.Packet) rxe.WROpcode {
	info := last.Info()
	switch {
	case info.Has(wire.OpWrite) && info.Has(wire.OpImm):
		return rxe.WRWriteImm
	case info.Has(wire.OpWrite):
		return rxe.WRWrite
	case info.Has(wire.OpImm):
		return rxe.WRSendImm
	case info.Has(wire.OpInv):
		return rxe.WRSendInv
	default:
		return rxe.WRSend
	}
}

// extent finds the end of a SEND or WRITE: its last packet, how many packets it
// has, and how many bytes. Packets that the capture lacks are jumped over.
func (r *requester) extent(first wire.Packet) (last wire.Packet, packets, length uint32) {
	last = first
	if first.Info().Has(wire.OpOnly) {
		return last, 1, uint32(len(first.Payload()))
	}
	const gap = 64
	seen := uint32(0) // the farthest packet that is there
	for k := uint32(1); k <= seen+gap; k++ {
		list := r.x.requests[first.PSN().Add(k)]
		if len(list) == 0 {
			continue
		}
		p := r.events[list[0]].pkt
		if p.Info().Has(wire.OpStart) {
			break
		}
		seen, last = k, p
		if p.Info().Has(wire.OpEnd) {
			return last, k + 1, k*uint32(r.mtu) + uint32(len(p.Payload()))
		}
	}
	if first.Info().Has(wire.OpWrite) {
		return last, readPackets(first, r.mtu), first.DMALen()
	}
	// One byte more than is there, so that the last packet is not the end.
	return last, seen + 2, (seen+1)*uint32(r.mtu) + 1
}

// run lets the engine go on for d, and does what follows from what it sends.
func (r *requester) run(d time.Duration) error {
	if err := r.h.settle(rxe.Time(d)); err != nil {
		return err
	}
	return r.pump()
}

// pump goes on with what has been waiting for the engine to send something.
func (r *requester) pump() error {
	for {
		r.collect()
		if len(r.feed) == 0 {
			return nil
		}
		e := r.feed[0]
		if e.pkt.PSN().Less(r.limit) {
			r.feed = r.feed[1:]
			if err := r.give(e); err != nil {
				return err
			}
			continue
		}
		if moved, err := r.clamp(e); err != nil || !moved {
			return err
		}
	}
}

// collect takes what the engine sent.
func (r *requester) collect() {
	r.poll()
	for _, p := range r.h.take() {
		psn := p.PSN()
		r.sent[psn] = p
		n := span(p, r.mtu)
		if p.Info().Has(wire.OpRead) {
			r.ends[psn.Add(n-1)] = true
		}
		if end := psn.Add(n); r.limit.Less(end) {
			r.limit = end
		}
		for _, e := range r.waiting[psn] {
			r.compare(e)
		}
		delete(r.waiting, psn)
	}
}

func (r *requester) poll() {
	if _, failed := r.h.poll(); r.died == rxe.WCSuccess {
		r.died = failed
	}
}

// respond plays a captured response, once the engine has sent what it answers.
func (r *requester) respond(e event) error {
	p := e.pkt
	if p.PSN().Less(r.base) || !p.PSN().Less(r.next) {
		return nil // of requests that are not in the capture
	}
	r.feed = append(r.feed, e)
	return r.pump()
}

// clamp acknowledges what the engine has sent of what a response acknowledges: its
// window is not the captured device's. It reports whether there was something.
func (r *requester) clamp(e event) (moved bool, err error) {
	p := e.pkt
	if refused(p) || p.Opcode() != wire.RCAck || !r.h.q.Snapshot().AckedPSN.Less(r.limit) {
		return false, nil
	}
	before := r.h.q.Snapshot().AckedPSN
	h := wire.Headers{Opcode: wire.RCAck, PKey: wire.DefaultPKey, PSN: r.limit.Sub(1), Syndrome: wire.SyndromeACK, MSN: p.MSN()}
	r.s.free("acknowledgements divided, for the engine's window")
	err = r.deliver(h.Append(nil), e)
	return r.h.q.Snapshot().AckedPSN != before, err
}

// give hands a response to the engine.
func (r *requester) give(e event) error {
	p := e.pkt
	b := bytes.Clone(p.Bytes())
	if p.Opcode() == wire.RCReadResponseMiddle && r.ends[p.PSN()] {
		// The engine has asked for the READ in pieces: this ends one.
		h := wire.Headers{Opcode: wire.RCReadResponseLast, PKey: wire.DefaultPKey, PSN: p.PSN(), Syndrome: wire.SyndromeACK}
		b = append(h.Append(nil), p.Payload()...)
	}
	return r.deliver(b, e)
}

func (r *requester) deliver(b []byte, e event) error {
	p := e.pkt
	before := r.h.q.Snapshot().AckedPSN
	fatal := refused(p) && p.Syndrome().IsNAK() && p.Syndrome().NAKCode() != wire.NAKPSNSequence
	sentBefore := r.limit
	if err := r.h.receive(b, 0); err != nil {
		return err
	}
	out := r.h.out // is collected later
	if r.poll(); r.died != rxe.WCSuccess {
		if fatal {
			return errEnd
		}
		r.s.differ(Difference{Packet: e.number, About: "requester's end", Captured: "goes on", Engine: fmt.Sprintf("fails with %v at %s", r.died, words(p))})
		return fmt.Errorf("packet %d: the engine ended its request with %v", e.number, r.died)
	}
	if fatal && !p.PSN().Less(before) {
		r.s.differ(Difference{Packet: e.number, About: "requester's end", Captured: words(p), Engine: "goes on"})
	}
	if refused(p) && !p.PSN().Less(before) && p.PSN().Less(sentBefore) {
		r.wentBack(e, out)
	}
	return nil
}

// wentBack holds what the engine sends after a NAK to the specification.
func (r *requester) wentBack(e event, out []wire.Packet) {
	p := e.pkt
	switch {
	case p.Syndrome().IsRNR():
		if len(out) > 0 && !p.PSN().Less(out[0].PSN()) {
			r.s.differ(Difference{Packet: e.number, About: "wait after RNR NAK", Captured: words(p), Engine: "sends at once: " + words(out[0])})
		}
		r.rnr = true
	case p.Syndrome() == wire.SyndromeNAK(wire.NAKPSNSequence) && !r.rnr:
		r.retried = true
		if len(out) == 0 || out[0].PSN() != p.PSN() {
			got := "sends nothing"
			if len(out) > 0 {
				got = "sends " + words(out[0])
			}
			r.s.differ(Difference{Packet: e.number, About: "retry", Captured: words(p), Engine: got})
		}
	}
}

// retry lets the time pass after which the engine sends again what is not
// acknowledged, as the captured device does now with e.
func (r *requester) retry(e event) error {
	r.retried = true
	una := r.h.q.Snapshot().AckedPSN
	if una == r.limit {
		r.s.free("retries of what had been answered")
		return nil
	}
	if r.rnr {
		const longestRNR = time.Second
		r.rnr = false
		if err := r.h.settle(rxe.Time(longestRNR)); err != nil {
			return err
		}
	}
	if len(r.h.out) == 0 {
		if err := r.h.settle(rxe.Time(ackTimeout + time.Second)); err != nil {
			return err
		}
	}
	if r.poll(); r.died != rxe.WCSuccess {
		r.s.free("retries beyond the engine's count")
		return errEnd
	}
	if out := r.h.out; len(out) == 0 || out[0].PSN() != una {
		got := "sends nothing"
		if len(out) > 0 {
			got = "sends " + words(out[0])
		}
		r.s.differ(Difference{Packet: e.number, About: "retry", Captured: fmt.Sprintf("%s; PSN %#06x is not acknowledged", words(e.pkt), uint32(una)), Engine: got})
	}
	return r.pump()
}

// compare holds a captured request to what the engine sent under its PSN.
func (r *requester) compare(e event) {
	p, g := e.pkt, r.sent[e.pkt.PSN()]
	r.s.Compared++
	for _, d := range compareRequests(p, g) {
		d.Packet = e.number
		switch {
		case d.About == "length of a READ" && g.DMALen() < p.DMALen():
			r.s.free("READs asked for in pieces")
			continue
		case p.Info().Has(wire.OpRead) && d.About == "length of a READ":
			r.s.free("rests of READs asked for again")
			continue
		}
		r.s.differ(d)
	}
}

// compareRequests compares two requests with one PSN.
func compareRequests(p, g wire.Packet) (ds []Difference) {
	if p.Opcode() != g.Opcode() {
		return []Difference{{About: "opcode", Captured: words(p), Engine: words(g)}}
	}
	for _, f := range [...]struct {
		about string
		p, g  uint64
	}{
		{"destination", uint64(p.DestQP()), uint64(g.DestQP())},
		{"address", p.VA(), g.VA()},
		{"length of a READ", uint64(p.DMALen()), uint64(g.DMALen())},
		{"immediate", uint64(p.Imm()), uint64(g.Imm())},
		{"key to invalidate", uint64(p.InvRKey()), uint64(g.InvRKey())},
		{"compare operand", p.Compare(), g.Compare()},
		{"swap or add operand", p.SwapAdd(), g.SwapAdd()},
		{"Q_Key", uint64(p.QKey()), uint64(g.QKey())},
		{"solicited event", flag(p.Solicited()), flag(g.Solicited())},
	} {
		if f.about == "length of a READ" && !p.Info().Has(wire.OpRead) {
			f.about = "length"
		}
		if f.p != f.g {
			ds = append(ds, Difference{About: f.about, Captured: fmt.Sprintf("%#x in %s", f.p, words(p)), Engine: fmt.Sprintf("%#x", f.g)})
		}
	}
	if p.RKey() != g.RKey() {
		d := Difference{About: "rkey", Captured: fmt.Sprintf("%#x in %s", uint32(p.RKey()), words(p)), Engine: fmt.Sprintf("%#x", uint32(g.RKey()))}
		if p.DMALen() == 0 && !p.Info().Has(wire.HasAtomicETH) {
			d.Explained = whyNoKey
		}
		ds = append(ds, d)
	}
	if !bytes.Equal(p.Payload(), g.Payload()) {
		ds = append(ds, Difference{About: "payload", Captured: sample(p.Payload()), Engine: sample(g.Payload())})
	}
	return ds
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// finish counts what the engine had no occasion to send.
func (r *requester) finish() {
	if n := len(r.waiting); n > 0 {
		r.s.Free["requests that the engine did not come to send"] += n
	}
}

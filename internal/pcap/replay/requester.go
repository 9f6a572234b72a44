package replay

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The engine as requester. It gets the work request of a captured message when the
// first packet of the message comes. It sends on its own, and a captured packet is
// compared with the last one that it sent under that PSN. It gets a captured response
// after it has sent the request. Time passes only when the captured device retried.

type requester struct {
	*session
	s  *Session
	h  *host
	x  *index
	mr *rxe.MR

	base    wire.PSN // its payload is at address 0 of the memory
	next    wire.PSN // of the next message
	sent    map[wire.PSN]wire.Packet
	limit   wire.PSN             // follows the last that was sent
	ends    map[wire.PSN]bool    // the ends of READs that the engine divided
	feed    []event              // responses to requests that are not sent yet
	waiting map[wire.PSN][]event // requests that the engine has not sent yet
	highest wire.PSN             // captured
	retried bool                 // the engine went back, after a NAK or a timeout
	rnr     bool                 // the engine waits after an RNR NAK
	died    rxe.WCStatus         // of the first work request that failed
}

func playRequester(n *session, s *Session) error {
	h, err := newHost(requesterType(n.service), n.flow.Src, n.flow.Dst, n.budget())
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
	if n.reliable() && !n.paired {
		defer r.unheard()
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

// connect connects the queue pair, or resets and connects it, to begin at a PSN.
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
		return nil // of the connection before
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

// post posts all messages up to that of the request at position i.
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

// failed returns the error for a queue pair that accepts no more work requests.
func (r *requester) failed(err error) error {
	if s := r.h.q.State(); s != rxe.QPRTS {
		// After a NAK the session would have ended.
		r.poll()
		r.s.differ(Difference{About: "requester's end", Captured: "goes on", Engine: fmt.Sprintf("is in %v after %v", s, r.died)})
		return errEnd
	}
	if errors.Is(err, rxe.ErrFull) {
		return errors.New("more requests are outstanding than are replayed")
	}
	return err
}

// run lets the engine run for d, and handles the packets that it sends.
func (r *requester) run(d time.Duration) error {
	if err := r.h.settle(rxe.Time(d)); err != nil {
		return err
	}
	return r.pump()
}

// pump plays the responses and requests that waited for a packet of the engine.
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

// collect takes the packets that the engine sent.
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

// respond plays a captured response, after the engine has sent the request.
func (r *requester) respond(e event) error {
	p := e.pkt
	if p.PSN().Less(r.base) || !p.PSN().Less(r.next) {
		return nil // the capture lacks its request
	}
	r.feed = append(r.feed, e)
	return r.pump()
}

// clamp acknowledges the requests that a response acknowledges and the engine has sent.
// The engine may have sent fewer, because its window differs from that of the captured
// device. clamp reports whether there were any.
func (r *requester) clamp(e event) (moved bool, err error) {
	p := e.pkt
	if refused(p) || rcOpcode(p) != wire.RCAck || !r.h.q.Snapshot().AckedPSN.Less(r.limit) {
		return false, nil
	}
	before := r.h.q.Snapshot().AckedPSN
	h := wire.Headers{Opcode: r.service.Of(wire.RCAck), PKey: wire.DefaultPKey, PSN: r.limit.Sub(1), Syndrome: wire.SyndromeACK, MSN: p.MSN()}
	r.s.free("acknowledgements divided, for the engine's window")
	err = r.deliver(h.Append(nil), e)
	return r.h.q.Snapshot().AckedPSN != before, err
}

// give passes a response to the engine.
func (r *requester) give(e event) error {
	p := e.pkt
	b := bytes.Clone(p.Bytes())
	if rcOpcode(p) == wire.RCReadResponseMiddle && r.ends[p.PSN()] {
		// The engine has divided the READ, and this ends one part.
		h := wire.Headers{Opcode: r.service.Of(wire.RCReadResponseLast), PKey: wire.DefaultPKey, PSN: p.PSN(), Syndrome: wire.SyndromeACK}
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

// unheard counts the requests that were not compared because no response is known: the engine waits
// for them, and gives up.
func (r *requester) unheard() {
	n := -r.s.Compared
	for _, e := range r.events {
		if e.request {
			n++
		}
	}
	if n > 0 {
		r.s.Free[NotSent] = n
	}
}

// finish counts the requests that the engine did not get to send.
func (r *requester) finish() {
	if r.paired || !r.reliable() {
		for _, list := range r.waiting {
			r.s.Free[NotSent] += len(list)
		}
	}
}

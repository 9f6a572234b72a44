package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The engine as responder: it gets the captured requests, and what it sends waits
// until the captured device is seen to send the same.

type responder struct {
	*session
	s    *Session
	h    *host
	x    *index
	keys *keys
	mem  *learnt
	recv *rxe.MR

	answers map[wire.PSN]answer // responses with data, the last of each PSN
	acks    map[wire.PSN]wire.Packet
	naks    []sentNAK
	posted  bool // a receive
	ready   bool // no receive is missing, whatever was answered
	rnr     struct {
		on  bool
		psn wire.PSN
	}
	msn     wire.MSN // what captured MSNs are ahead of the engine's
	msnSure bool
	rereads map[wire.PSN]bool // where a READ was asked for again
}

// answer is a response of the engine's.
type answer struct {
	pkt      wire.Packet
	compared bool // with a captured one
}

// sentNAK is a NAK of the engine's.
type sentNAK struct {
	pkt    wire.Packet
	number int // of the packet it answers
}

// maxNAKs bounds those of the engine's that the capture has no match for.
const maxNAKs = 1 << 10

// recvLength is that of a receive: as much as a message can have.
const recvLength = 1 << 31

func playResponder(n *session, s *Session) error {
	h, err := newHost(n, n.flow.Dst, n.flow.Src, n.budget())
	if err != nil {
		return err
	}
	defer h.close()
	first := n.events[0].pkt.PSN()
	peer := wire.QPN(1)
	if n.flow.Peer != nil {
		peer = n.flow.Peer.QPN
	}
	if err := h.connect(rxe.QPAttr{PathMTU: rxe.MTU(n.mtu), DestQPN: peer, RQPSN: first}); err != nil {
		return err
	}
	r := &responder{
		session: n, s: s, h: h, x: newIndex(n.events), mem: new(learnt),
		answers: make(map[wire.PSN]answer), acks: make(map[wire.PSN]wire.Packet), rereads: make(map[wire.PSN]bool),
	}
	r.keys = newKeys(h, r.mem, r.x)
	if r.recv, err = h.pd.RegMR(&sink{}, 0, recvLength, 0, rxe.AccessLocalWrite); err != nil {
		return err
	}
	for i := range n.events {
		if n.events[i].request {
			err = r.request(i)
		} else {
			err = r.response(i)
		}
		if err != nil {
			return err
		}
	}
	r.finish()
	return nil
}

// request plays the request at position i.
func (r *responder) request(i int) error {
	e := &r.events[i]
	if r.x.lost[i] {
		r.s.assume("lost behind the point of capture")
		return nil
	}
	p := e.pkt
	expected := r.h.q.Snapshot().RecvPSN
	ahead := p.PSN().Diff(expected)
	if p.Info().Has(wire.OpRead) {
		if r.h.budget -= int64(p.DMALen()); r.h.budget < 0 {
			return errBudget
		}
	}
	b := bytes.Clone(p.Bytes())
	if ahead <= 0 {
		r.learn(i)
		r.translate(b, i)
	}
	if ahead == 0 {
		if err := r.prepare(i); err != nil {
			return err
		}
	}
	if ahead < 0 && p.Info().Has(wire.OpRead) {
		r.rereads[p.PSN()] = true
	}
	if err := r.h.receive(b, paceSpan); err != nil {
		return err
	}
	if r.s.Played++; r.s.Played > 4*len(r.events) {
		return errors.New("its requests were refused and repeated too often")
	}
	received, _ := r.h.poll()
	r.posted = r.posted && received == 0
	if r.mem.full {
		return errors.New("its requests touch more memory than is replayed")
	}
	if p.Info().Has(wire.OpInv) && ahead == 0 && r.h.q.State() == rxe.QPRTS {
		r.keys.takenBack(p.InvRKey())
	}
	r.absorb(e.number)
	return nil
}

// translate puts the engine's keys into the request at position i.
func (r *responder) translate(b []byte, i int) {
	const keyOffset = 8 // behind the address, in RETH and AtomicETH
	p, info := r.events[i].pkt, r.events[i].pkt.Info()
	if at := int(max(info.RETH, info.AtomicETH)); at > 0 {
		var key wire.RKey
		if no, ok := r.x.refusal(i); ok && no.Syndrome() == wire.SyndromeNAK(wire.NAKRemoteAccess) {
			var assumed bool
			if key, assumed = r.keys.refusing(p); assumed {
				r.s.assume("a key that was good before or after is not now")
			}
		} else {
			key = r.keys.of(p.RKey())
		}
		binary.BigEndian.PutUint32(b[at+keyOffset:], uint32(key))
	}
	if info.Has(wire.HasIETH) {
		binary.BigEndian.PutUint32(b[info.IETH:], uint32(r.keys.of(p.InvRKey())))
	}
}

// learn puts into memory what the captured device found there.
func (r *responder) learn(i int) {
	p := r.events[i].pkt
	switch info := p.Info(); {
	case info.Has(wire.OpRead):
		n := min(readPackets(p, r.mtu), uint32(len(r.events)))
		for k := range n {
			if a, ok := r.x.answer(p.PSN().Add(k), i, wire.OpReadResp); ok {
				r.found(p.VA()+uint64(k)*uint64(r.mtu), a.Payload())
			}
		}
	case info.Has(wire.OpAtomic) && !p.PSN().Less(r.h.q.Snapshot().RecvPSN):
		if a, ok := r.x.answer(p.PSN(), i, wire.HasAtomicAckETH); ok {
			var word [8]byte
			binary.NativeEndian.PutUint64(word[:], a.AtomicOrig())
			r.found(p.VA(), word[:])
		}
	}
}

func (r *responder) found(va uint64, b []byte) {
	if changed, err := r.mem.write(va, b); changed && err == nil {
		r.s.assume("memory changed by the captured host itself")
	}
}

// prepare makes the engine what the captured device was like when it got the
// request at position i, which is the one that the engine expects.
func (r *responder) prepare(i int) error {
	p, info := r.events[i].pkt, r.events[i].pkt.Info()
	no, isRefused := r.x.refusal(i)
	access := everyRight
	isRefused = isRefused && (!r.ready || !no.Syndrome().IsRNR())
	if isRefused && no.Syndrome().IsRNR() {
		if err := r.h.q.Modify(&rxe.QPAttr{MinRNRTimer: no.Syndrome().RNRTimer()}, rxe.QPAttrMinRNRTimer); err != nil {
			return r.ended(err)
		}
		r.s.assume("no receive posted")
	} else if info.Has(wire.OpRecv) && !r.posted {
		if err := r.postRecv(i); err != nil {
			return err
		}
	}
	if isRefused && no.Syndrome() == wire.SyndromeNAK(wire.NAKInvalidRequest) && accessed(p) > 0 && sound(p, r.mtu) {
		access &^= rightsFor(p)
		r.s.assume("a queue pair without the right")
	}
	if err := r.h.q.Modify(&rxe.QPAttr{Access: access}, rxe.QPAttrAccessFlags); err != nil {
		return r.ended(err)
	}
	return nil
}

// ended is the error for a queue pair that cannot be prepared: it has failed.
func (r *responder) ended(err error) error {
	if r.h.q.State() == rxe.QPErr {
		return nil
	}
	return err
}

// sound reports whether nothing in a request itself calls for a NAK.
func sound(p wire.Packet, mtu int) bool {
	size := len(p.Payload())
	switch info := p.Info(); {
	case info.Has(wire.OpAtomic):
		return p.VA()%8 == 0
	case info.Has(wire.OpWrite | wire.OpFirst):
		return size == mtu || info.Has(wire.OpOnly) && size == int(p.DMALen())
	default:
		return size <= mtu
	}
}

// postRecv posts a receive for the message that begins at position i: a large one,
// or one that is too short for the packet that the captured device refused.
func (r *responder) postRecv(i int) error {
	length := uint32(recvLength)
	if at, ok := r.tooLong(i); ok {
		length = at
		r.s.assume("a receive shorter than the message")
	}
	wr := rxe.RecvWR{ID: recvID, SGL: []rxe.SGE{{Length: length, LKey: r.recv.LKey()}}}
	if _, err := r.h.q.PostRecv([]rxe.RecvWR{wr}); err != nil {
		return r.ended(err)
	}
	r.posted = true
	return nil
}

// tooLong returns the length of a receive that a SEND does not fit into, if it was
// refused as too long.
func (r *responder) tooLong(i int) (uint32, bool) {
	p := r.events[i].pkt
	if !p.Info().Has(wire.OpSend) {
		return 0, false
	}
	for k := uint32(0); k < uint32(len(r.events)); k++ {
		j := after(r.x.requests[p.PSN().Add(k)], i-1)
		if j < 0 {
			return 0, false
		}
		if no, ok := r.x.refusal(j); ok && no.Syndrome() == wire.SyndromeNAK(wire.NAKRemoteOp) {
			size := uint32(len(r.events[j].pkt.Payload()))
			return k*uint32(r.mtu) + max(size, 1) - 1, size > 0
		}
		if r.events[j].pkt.Info().Has(wire.OpEnd) {
			return 0, false
		}
	}
	return 0, false
}

// absorb takes what the engine sent.
func (r *responder) absorb(number int) {
	for _, p := range r.h.take() {
		switch {
		case refused(p) && len(r.naks) < maxNAKs:
			r.naks = append(r.naks, sentNAK{p, number})
		case refused(p):
		case p.Opcode() == wire.RCAck:
			r.acks[p.PSN()] = p
		default:
			r.answers[p.PSN()] = answer{pkt: p}
		}
	}
}

// response compares the captured response at position i with the engine's.
func (r *responder) response(i int) error {
	e := &r.events[i]
	p := e.pkt
	if p.PSN().Less(r.events[0].pkt.PSN()) {
		return nil // of a request from before
	}
	r.s.Compared++
	switch {
	case refused(p):
		r.negative(i)
	case p.Opcode() == wire.RCAck:
		if err := r.ack(i); err != nil {
			return err
		}
	default:
		r.data(e)
	}
	return nil
}

// ack compares an acknowledgement: which packets have one is free, but not what has
// been received.
func (r *responder) ack(i int) error {
	e := &r.events[i]
	p := e.pkt
	expected := r.h.q.Snapshot().RecvPSN
	if !p.PSN().Less(expected) && r.rnr.on && r.rnr.psn == expected {
		// Two of the same were under way, and a receive came in between.
		if err := r.redo(expected, i); err != nil {
			return err
		}
		expected = r.h.q.Snapshot().RecvPSN
	}
	if !p.PSN().Less(expected) {
		r.s.differ(Difference{Packet: e.number, About: "acknowledgement",
			Captured: words(p), Engine: fmt.Sprintf("expects PSN %#06x, state %v", uint32(expected), r.h.q.State())})
		return fmt.Errorf("packet %d: the engine and the captured device have parted", e.number)
	}
	if g, ok := r.acks[p.PSN()]; ok {
		r.compareMSN(e, g)
	} else {
		r.s.free("acknowledgements coalesced")
	}
	delete(r.acks, p.PSN())
	return nil
}

// redo plays again what the engine did not take before position end, from a PSN on
// that it had no receive for.
func (r *responder) redo(psn wire.PSN, end int) error {
	r.s.assume("a receive posted between two tries")
	r.ready = true
	defer func() { r.ready = false }()
	sent := r.x.requests[psn]
	n, _ := slices.BinarySearch(sent, end)
	if n == 0 {
		return nil
	}
	for i := sent[n-1]; i < end; i++ {
		if r.events[i].request {
			if err := r.request(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *responder) compareMSN(e *event, g wire.Packet) {
	ahead := (e.pkt.MSN() - g.MSN()) & wire.MSNMask
	if !r.msnSure {
		r.msn, r.msnSure = ahead, true
	}
	if ahead != r.msn {
		r.s.differ(Difference{Packet: e.number, About: "MSN", Captured: fmt.Sprint(e.pkt.MSN()),
			Engine: fmt.Sprint((g.MSN() + r.msn) & wire.MSNMask)})
	}
}

// data compares a response to a READ or an atomic.
func (r *responder) data(e *event) {
	p := e.pkt
	a, ok := r.answers[p.PSN()]
	if !ok {
		r.s.differ(Difference{Packet: e.number, About: "response", Captured: words(p),
			Engine: fmt.Sprintf("sends none, and expects PSN %#06x", uint32(r.h.q.Snapshot().RecvPSN))})
		return
	}
	g := a.pkt
	r.answers[p.PSN()] = answer{pkt: g, compared: true}
	for _, d := range compareResponses(p, g) {
		d.Packet = e.number
		if d.About == "opcode" && r.reread(p.PSN()) && p.Info().Has(wire.OpReadResp) && g.Info().Has(wire.OpReadResp) {
			d.Explained = whyRereadPlace
		}
		r.s.differ(d)
	}
	if p.Info().Has(wire.HasAETH) && g.Info().Has(wire.HasAETH) {
		r.compareMSN(e, g)
	}
}

// reread reports whether a PSN is where a READ was asked for again.
func (r *responder) reread(psn wire.PSN) bool { return r.rereads[psn] }

// compareResponses compares two responses with one PSN.
func compareResponses(p, g wire.Packet) (ds []Difference) {
	if p.Opcode() != g.Opcode() {
		ds = append(ds, Difference{About: "opcode", Captured: words(p), Engine: words(g)})
	}
	if !bytes.Equal(p.Payload(), g.Payload()) {
		ds = append(ds, Difference{About: "payload", Captured: sample(p.Payload()), Engine: sample(g.Payload())})
	}
	if p.Info().Has(wire.HasAtomicAckETH) && g.Info().Has(wire.HasAtomicAckETH) && p.AtomicOrig() != g.AtomicOrig() {
		ds = append(ds, Difference{About: "original value",
			Captured: fmt.Sprintf("%#x", p.AtomicOrig()), Engine: fmt.Sprintf("%#x", g.AtomicOrig())})
	}
	return ds
}

// negative compares a NAK.
func (r *responder) negative(i int) {
	e := &r.events[i]
	p := e.pkt
	for j, g := range r.naks {
		if g.pkt.PSN() != p.PSN() || g.pkt.Syndrome().IsRNR() != p.Syndrome().IsRNR() {
			continue
		}
		r.naks = append(r.naks[:j], r.naks[j+1:]...)
		if g.pkt.Syndrome() != p.Syndrome() {
			r.s.differ(Difference{Packet: e.number, About: "syndrome", Captured: words(p), Engine: words(g.pkt)})
		}
		r.compareMSN(e, g.pkt)
		r.noteRNR(p)
		return
	}
	d := Difference{Packet: e.number, About: "NAK", Captured: words(p),
		Engine: fmt.Sprintf("sends none, and expects PSN %#06x", uint32(r.h.q.Snapshot().RecvPSN))}
	sequence := p.Syndrome() == wire.SyndromeNAK(wire.NAKPSNSequence)
	switch {
	case sequence && r.rnr.on && r.rnr.psn == p.PSN():
		d.Explained = whyBehindRNR
	case p.Syndrome().IsRNR() && r.takesNoReceive(p.PSN(), i):
		d.Explained = whyBusy
	}
	r.noteRNR(p)
	r.s.differ(d)
}

func (r *responder) noteRNR(p wire.Packet) {
	if p.Syndrome().IsRNR() {
		r.rnr.on, r.rnr.psn = true, p.PSN()
	}
}

// takesNoReceive reports whether the requests with a PSN were sent, and take no
// receive.
func (r *responder) takesNoReceive(psn wire.PSN, before int) bool {
	sent := r.x.requests[psn]
	n, _ := slices.BinarySearch(sent, before)
	return n > 0 && !slices.ContainsFunc(sent[max(0, n-maxTries):n], func(i int) bool { return r.events[i].pkt.Info().Has(wire.OpRecv) })
}

// finish judges what the engine sent, and the captured device did not.
func (r *responder) finish() {
	ended := r.lastResponse()
	for _, g := range r.naks {
		d := Difference{Packet: g.number, About: "NAK", Captured: "none", Engine: words(g.pkt)}
		i, j := r.position(g.number), -1
		if i >= 0 {
			j = after(r.x.requests[g.pkt.PSN()], i)
		}
		switch {
		case j >= 0:
			d.Explained = whyLostNAK
		case g.number > ended:
			d.Explained = whyCaptureEnds
		}
		r.s.differ(d)
	}
	for _, a := range r.answers {
		if !a.compared {
			r.s.free("responses that the capture lacks")
		}
	}
}

// position returns where the packet of a number is.
func (r *responder) position(number int) int {
	i, ok := slices.BinarySearchFunc(r.events, number, func(e event, n int) int { return e.number - n })
	if !ok {
		return -1
	}
	return i
}

// lastResponse returns the number of the last response in the capture.
func (r *responder) lastResponse() int {
	for i := len(r.events) - 1; i >= 0; i-- {
		if !r.events[i].request {
			return r.events[i].number
		}
	}
	return 0
}

// words is a packet in few words.
func words(p wire.Packet) string {
	text := fmt.Sprintf("%s PSN %#06x", p.Info().Name, uint32(p.PSN()))
	if p.Info().Has(wire.HasAETH) {
		text += " " + p.Syndrome().String()
	}
	return text
}

func sample(b []byte) string {
	const n = 16
	if len(b) > n {
		return fmt.Sprintf("%d bytes, % x…", len(b), b[:n])
	}
	return fmt.Sprintf("%d bytes, % x", len(b), b)
}

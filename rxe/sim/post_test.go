package sim

import (
	"encoding/binary"
	"time"

	"github.com/gorxe/gorxe/rxe"
)

// start makes an endpoint begin.
func (e *endpoint) start() {
	for _, r := range e.recvs {
		r.wake()
	}
	e.wake()
	if e.p.pause {
		e.later(200*time.Microsecond, e.pause)
	}
}

// later calls f within d.
func (e *endpoint) later(d time.Duration, f func()) {
	e.w.net.After(time.Duration(e.w.rng.Int64N(int64(d))), f)
}

// pause drains the send queue. The event that reports this resumes it.
func (e *endpoint) pause() {
	if e.q.State() == rxe.QPRTS {
		e.draining = true
		e.w.rec.command("modify %s sqd", e.h.letter())
		must(e.q.Modify(&rxe.QPAttr{State: rxe.QPSQD, EnSQDNotify: true}, rxe.QPAttrState|rxe.QPAttrEnSQDNotify))
	}
}

// drained handles that event, which must not call back into the engine.
func (e *endpoint) drained() {
	if !e.draining {
		failf("host %d QP %#x: SQ_DRAINED without being asked for", e.h.index, e.q.Num())
	}
	e.draining = false
	e.later(500*time.Microsecond, e.resume)
}

func (e *endpoint) resume() {
	if e.q.State() == rxe.QPSQD {
		e.w.rec.command("modify %s rts", e.h.letter())
		must(e.q.Modify(&rxe.QPAttr{State: rxe.QPRTS}, rxe.QPAttrState))
		if e.todo > 0 {
			e.later(200*time.Microsecond, e.pause)
		}
	}
}

// wake schedules the endpoint's next posting.
func (e *endpoint) wake() {
	if e.sleeps || e.todo == 0 || e.failed {
		return
	}
	e.sleeps = true
	e.w.net.After(time.Duration(e.w.rng.Int64N(int64(e.w.p.thinkTime)+1)), func() {
		e.sleeps = false
		e.post()
	})
}

// post posts as many random work requests as chance and the queue allow.
func (e *endpoint) post() {
	room := e.p.depth - len(e.flight)
	if room <= 0 || e.todo == 0 || e.failed {
		return // a completion wakes it
	}
	var wrs []rxe.SendWR
	for k := 1 + e.w.rng.IntN(room); k > 0 && e.todo > 0; k-- {
		s := e.draw()
		if s == nil {
			e.todo = 1 // memory is used up: one more, for the signal
			s = e.last()
		}
		e.chooseSRQ(s)
		e.todo--
		e.nextID++
		s.wr.ID = e.nextID
		e.chooseSignal(s)
		e.flight = append(e.flight, s)
		wrs = append(wrs, s.wr)
	}
	e.w.rec.posts(e, e.flight[len(e.flight)-len(wrs):])
	n, err := e.q.PostSend(wrs)
	must(err)
	if n != len(wrs) {
		failf("PostSend took %d of %d", n, len(wrs))
	}
	for i := range wrs {
		wrs[i].SGL, wrs[i].Inline = nil, nil // PostSend has copied them
	}
	e.w.poll()
	if len(e.flight) < e.p.depth {
		e.wake()
	}
}

// chooseSignal leaves some requests unsignaled, but never a whole queue of them,
// nor the last.
func (e *endpoint) chooseSignal(s *sent) {
	e.unsig++
	if e.p.signalAll || e.todo == 0 || e.unsig >= e.p.depth || e.w.rng.IntN(100) < e.p.signaled {
		s.wr.Flags |= rxe.SendSignaled
	}
	if s.wr.Flags&rxe.SendSignaled != 0 {
		e.unsig = 0
	}
}

var opsOf = map[rxe.QPType][]rxe.WROpcode{
	rxe.QPRC: {
		rxe.WRSend, rxe.WRSend, rxe.WRSendImm, rxe.WRSendInv, rxe.WRWrite, rxe.WRWrite, rxe.WRWriteImm,
		rxe.WRRead, rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd, rxe.WRAtomicWrite, rxe.WRFlush,
		rxe.WRBindMW, rxe.WRLocalInv,
	},
	rxe.QPXRCIni: {
		rxe.WRSend, rxe.WRSend, rxe.WRSendImm, rxe.WRWrite, rxe.WRWrite, rxe.WRWriteImm,
		rxe.WRRead, rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd,
	},
	rxe.QPUC: {rxe.WRSend, rxe.WRSendImm, rxe.WRWrite, rxe.WRWriteImm},
	rxe.QPUD: {rxe.WRSend, rxe.WRSendImm},
}

// draw makes a work request and applies it to the model. It returns nil when memory
// is used up.
func (e *endpoint) draw() *sent {
	ops := opsOf[e.qpType()]
	if e.p.long && e.w.rng.IntN(4) > 0 {
		ops = opsOf[rxe.QPUC] // SENDs and WRITEs that follow each other
	}
	s := &sent{}
	s.wr.Op = ops[e.w.rng.IntN(len(ops))]
	if e.w.rng.IntN(4) == 0 {
		s.wr.Flags |= rxe.SendSolicited
	}
	if e.w.rng.IntN(16) == 0 {
		s.wr.Flags |= rxe.SendFence
	}
	ok := true
	switch s.wr.Op {
	case rxe.WRBindMW:
		ok = e.drawBind(s) || e.drawSend(s)
	case rxe.WRLocalInv:
		ok = e.drawLocalInv(s) || e.drawSend(s)
	case rxe.WRSend, rxe.WRSendImm, rxe.WRSendInv:
		ok = e.drawSend(s)
	case rxe.WRWrite, rxe.WRWriteImm:
		ok = e.drawWrite(s)
	case rxe.WRRead:
		ok = e.drawRead(s)
	case rxe.WRFlush:
		e.drawFlush(s)
	default:
		ok = e.drawAtomic(s)
	}
	if !ok {
		return nil
	}
	return s
}

// last is a request that needs no memory.
func (e *endpoint) last() *sent {
	s := &sent{}
	s.wr.Op, s.wr.Flags = rxe.WRSend, rxe.SendInline
	e.addressed(s)
	e.message(s, []byte{})
	return s
}

// drawSize prefers short messages and sizes near whole packets.
func (e *endpoint) drawSize() int {
	r, mtu := e.w.rng, int(e.p.mtu)
	n := 0
	if e.p.long && r.IntN(4) > 0 {
		return min(e.drawLongSize(), e.p.maxSize)
	}
	switch r.IntN(8) {
	case 0:
		n = r.IntN(4)
	case 1, 2:
		n = r.IntN(256)
	case 3, 4:
		n = max(0, mtu*(1+r.IntN(4))+r.IntN(3)-1)
	default:
		n = r.IntN(1 + r.IntN(e.p.maxSize+1))
	}
	return min(n, e.p.maxSize)
}

// drawLongSize prefers the sizes of messages whose payloads are read together, and those beside
// them.
func (e *endpoint) drawLongSize() int {
	const shortest, longest = 16 << 10, 64 << 10
	r := e.w.rng
	switch r.IntN(8) {
	case 0:
		return pick(r, shortest, shortest+1, longest-1, longest, longest+1)
	case 1:
		return shortest + r.IntN(max(e.p.maxSize-shortest, 1))
	default:
		return shortest + r.IntN(longest-shortest)
	}
}

// source gives the request n fresh bytes to send, in memory or inline.
func (e *endpoint) source(s *sent, n int) (data []byte, ok bool) {
	s.size = n
	if n <= 256 && e.w.rng.IntN(4) == 0 {
		data = make([]byte, n)
		fillPattern(data, e.w.rng.Uint64()|1)
		s.wr.Flags |= rxe.SendInline
		s.wr.Inline = append([]byte(nil), data...)
		return data, true
	}
	s.local, ok = e.h.pieces(n)
	if !ok {
		return nil, false
	}
	for _, p := range s.local {
		data = append(data, e.h.fill(p.off, p.n)...)
	}
	s.wr.SGL = e.h.sgl(s.local)
	return data, true
}

func (e *endpoint) drawSend(s *sent) bool {
	win := &e.peer.window
	switch {
	case s.wr.Op == rxe.WRSendInv && win.state == windowBound:
		// A READ replayed after the invalidation would be refused.
		s.wr.Flags |= rxe.SendFence
		s.wr.InvRKey = win.rkey
		win.state = windowLeaving
	case s.wr.Op != rxe.WRSendImm:
		s.wr.Op = rxe.WRSend
	}
	data, ok := e.source(s, e.drawSize())
	if !ok {
		return false
	}
	if s.wr.Op == rxe.WRSendImm {
		s.wr.Imm = e.w.rng.Uint32()
	}
	if data == nil {
		data = []byte{}
	}
	e.message(s, data)
	e.addressed(s)
	return true
}

func (e *endpoint) addressed(s *sent) {
	if e.typ == rxe.QPUD {
		s.wr.AH, s.wr.RemoteQPN, s.wr.RemoteQKey = e.ah, e.peer.q.Num(), qkey
	}
}

// message tells the peer what to expect.
func (e *endpoint) message(s *sent, data []byte) {
	s.msg = &message{data: data, size: s.size, imm: s.wr.Imm, inv: s.wr.InvRKey,
		hasImm: s.wr.Op == rxe.WRSendImm || s.wr.Op == rxe.WRWriteImm}
	e.peer.expect = append(e.peer.expect, s.msg)
}

// aim chooses n bytes of the peer's target, sometimes through its memory window.
// With UC every request gets bytes of its own, since any may be lost.
func (e *endpoint) aim(s *sent, n, align int) (extent, bool) {
	p := e.peer
	within := p.target
	s.wr.RKey = p.mr.RKey()
	if win := &p.window; win.state == windowBound && win.ext.n >= n+align && e.w.rng.IntN(2) == 0 {
		within, s.wr.RKey = win.ext, win.rkey
		win.users++
		s.windowed = true
	}
	if n > within.n {
		return extent{}, false
	}
	off := within.off + e.w.rng.IntN(within.n-n+1)
	if e.typ == rxe.QPUC {
		off = p.target.off
		p.target.off, p.target.n = off+n, p.target.n-n
		s.wr.RemoteAddr = p.iova
		p.iova += uint64(n)
		return extent{off, n}, true
	}
	off = max((off-p.target.off)/align*align+p.target.off, within.off)
	if (off-p.target.off)%align != 0 {
		off += align - (off-p.target.off)%align
	}
	s.wr.RemoteAddr = p.remote(off)
	return extent{off, n}, true
}

// mutate is for a request that changes x of the target. A READ under way there may
// be replayed, so it must have completed first (IBA 9.5).
func (e *endpoint) mutate(s *sent, x extent) {
	s.target = x
	if s.wr.Flags&rxe.SendFence != 0 {
		e.reads = e.reads[:0]
	}
	for _, r := range e.reads {
		if r.overlaps(x) {
			s.wr.Flags |= rxe.SendFence
			e.reads = e.reads[:0]
			return
		}
	}
}

func (e *endpoint) drawWrite(s *sent) bool {
	data, ok := e.source(s, min(e.drawSize(), e.peer.target.n/2))
	if !ok {
		return false
	}
	x, ok := e.aim(s, s.size, 1)
	if !ok {
		return false
	}
	e.mutate(s, x)
	if e.typ == rxe.QPUC {
		s.want = data // may arrive, in part or in full, or not
	} else {
		copy(e.peer.h.model[x.off:x.off+x.n], data)
	}
	if s.wr.Op == rxe.WRWriteImm {
		s.wr.Imm = e.w.rng.Uint32()
		e.message(s, nil)
	}
	return true
}

func (e *endpoint) drawRead(s *sent) bool {
	s.size = min(e.drawSize(), e.peer.target.n)
	x, ok := e.aim(s, s.size, 1)
	if !ok {
		return false
	}
	if s.local, ok = e.h.pieces(s.size); !ok {
		return false
	}
	s.wr.SGL = e.h.sgl(s.local)
	s.want = append([]byte(nil), e.peer.h.model[x.off:x.off+x.n]...)
	e.reads = append(e.reads, x)
	return true
}

// drawAtomic draws a compare-and-swap, fetch-and-add or ATOMIC WRITE.
func (e *endpoint) drawAtomic(s *sent) bool {
	s.size = 8
	x, ok := e.aim(s, 8, 8)
	if !ok {
		return false
	}
	e.mutate(s, x)
	word := e.peer.h.model[x.off : x.off+8]
	old, next := binary.LittleEndian.Uint64(word), e.w.rng.Uint64()
	switch s.wr.Op {
	case rxe.WRAtomicWrite:
		s.wr.AtomicWrite = next
		binary.NativeEndian.PutUint64(word, next)
		return true
	case rxe.WRFetchAdd:
		s.wr.CompareAdd = next
		next += old
	default:
		s.wr.Swap = next
		s.wr.CompareAdd = old
		if e.w.rng.IntN(3) == 0 {
			s.wr.CompareAdd, next = old+1, old
		}
	}
	off, ok := e.h.alloc(8, 1)
	if !ok {
		return false
	}
	s.local = []extent{{off, 8}}
	s.wr.SGL = e.h.sgl(s.local)
	s.want = binary.NativeEndian.AppendUint64(nil, old)
	binary.LittleEndian.PutUint64(word, next)
	return true
}

func (e *endpoint) drawFlush(s *sent) {
	x, _ := e.aim(s, 1, 1)
	s.wr.FlushType = uint8(1 + e.w.rng.IntN(3))
	s.wr.FlushLevel = uint8(e.w.rng.IntN(2))
	s.wr.FlushLength = uint32(x.n)
}

// drawBind binds the window on this endpoint's own target.
func (e *endpoint) drawBind(s *sent) bool {
	win := &e.window
	if win.state != windowFree || e.target.n < 64 {
		s.wr.Op = rxe.WRSend
		return false
	}
	n := 64 + e.w.rng.IntN(e.target.n-63)
	win.ext = extent{e.target.off + e.w.rng.IntN(e.target.n-n+1), n}
	win.state = windowBinding
	win.rkey = win.mw.RKey()&^0xff | (win.mw.RKey()+1)&0xff
	s.wr.Bind = &rxe.MWBind{
		MW: win.mw, RKey: win.rkey, MR: e.mr,
		Addr: e.remote(win.ext.off), Length: uint64(n),
		Access: rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic |
			rxe.AccessFlushGlobal | rxe.AccessFlushPersist,
	}
	return true
}

// drawLocalInv invalidates the window when no request of the peer's uses it.
func (e *endpoint) drawLocalInv(s *sent) bool {
	win := &e.window
	if win.state != windowBound || win.users > 0 {
		s.wr.Op = rxe.WRSend
		return false
	}
	win.state = windowLeaving
	s.wr.InvRKey = win.rkey
	return true
}

var wcOpcodes = map[rxe.WROpcode]rxe.WCOpcode{
	rxe.WRWrite: rxe.WCWrite, rxe.WRWriteImm: rxe.WCWrite,
	rxe.WRSend: rxe.WCSend, rxe.WRSendImm: rxe.WCSend, rxe.WRSendInv: rxe.WCSend,
	rxe.WRRead: rxe.WCRead, rxe.WRCompareSwap: rxe.WCCompareSwap, rxe.WRFetchAdd: rxe.WCFetchAdd,
	rxe.WRLocalInv: rxe.WCLocalInv, rxe.WRBindMW: rxe.WCBindMW,
	rxe.WRFlush: rxe.WCFlush, rxe.WRAtomicWrite: rxe.WCAtomicWrite,
}

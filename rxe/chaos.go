package rxe

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Chaos makes queue pairs do all that the specification leaves open, as late and as much out of
// order as it allows. A program that relies on more than the specification promises then fails.
// Everything is drawn from a seed. A queue pair's draws depend on the seed, on its number in the
// order of creation, and on what it does, but not on other queue pairs.
type Chaos struct {
	seed uint64
	qps  atomic.Uint64 // created so far
}

// NewChaos returns the Chaos of a seed, for the queue pairs of one program.
func NewChaos(seed uint64) *Chaos { return &Chaos{seed: seed} }

// lateness is one thing that chaos delays.
type lateness uint8

const (
	latePost     lateness = iota // the requester begins with a work request
	lateSource                   // the requester reads the rest of a message
	lateResponse                 // the responder reads what a READ asks for
	latePlace                    // payload and READ data reach memory
	lateReceive                  // a receive work request completes
	lateSend                     // a send work request completes
	numLateness
)

// chaos is one QP's part of a Chaos. The QP's lock guards it.
type chaos struct {
	rng  *rand.Rand
	odds [numLateness]int // of lateOdds

	writes lateWrites // payload of WRITEs and SENDs that was acknowledged
	reads  lateWrites // READ data
	wcs    []lateWC   // of receives, oldest first
}

// forQP returns the part of the next QP. A nil Chaos has none.
func (c *Chaos) forQP(late *pool) *chaos {
	if c == nil {
		return nil
	}
	part := &chaos{rng: rand.New(rand.NewPCG(c.seed, c.qps.Add(1)))}
	for i := range part.odds {
		part.odds[i] = oddsOf[part.rng.IntN(len(oddsOf))]
	}
	part.writes.pool, part.reads.pool = late, late
	return part
}

// draw returns how late a thing is; 0: it is not. Short delays are as probable as long ones, for
// programs of any speed.
func (c *chaos) draw(what lateness) time.Duration {
	if c.rng.IntN(lateOdds) >= c.odds[what] {
		return 0
	}
	scale := time.Microsecond << c.rng.IntN(lateScales)
	return min(scale+time.Duration(c.rng.Int64N(int64(scale))), mostLate[what])
}

// post draws how late a work request that was posted is executed and completes. A QP that was
// never connected has mtu 0, and only flushes.
func (c *chaos) post(wqe *sendEntry, mtu int) {
	f := wqe.addFault()
	f.wait = c.draw(latePost)
	f.delay = max(f.delay, c.draw(lateSend))
	if pause := c.draw(lateSource); pause != 0 && mtu != 0 && int(wqe.length) > mtu {
		f.splitAt = 1 + c.rng.Uint32N((wqe.length-1)/uint32(mtu))
		f.splitFor = pause
	}
}

// postpones reports whether chaos has the requester wait before it begins with wqe, and sets the
// time when it goes on.
func (q *QP) postpones(wqe *sendEntry) bool {
	f := wqe.fault
	if f == nil || f.wait == 0 {
		return false
	}
	q.send.pausedUntil = q.dev.cfg.Clock.Now() + Time(f.wait)
	f.wait = 0
	return true
}

// untilSplit returns how many packets chaos lets wqe send, from packet number index on, before the
// message waits. It waits once, in its middle: so its source is read at two times.
func (wqe *sendEntry) untilSplit(index uint32) uint32 {
	if f := wqe.fault; f != nil && f.splitAt > index {
		return f.splitAt - index
	}
	return math.MaxUint32
}

// split has the requester wait if chaos wants that before packet number index of wqe.
func (q *QP) split(wqe *sendEntry, index uint32) {
	if f := wqe.fault; f != nil && f.splitAt != 0 && f.splitAt == index {
		f.splitAt = 0
		q.send.pausedUntil = q.dev.cfg.Clock.Now() + Time(f.splitFor)
	}
}

// next returns the earliest deadline; 0 is none.
func (c *chaos) next() Time {
	next := c.writes.next()
	if at := c.reads.next(); at != 0 && (next == 0 || at < next) {
		next = at
	}
	if len(c.wcs) > 0 && (next == 0 || c.wcs[0].due < next) {
		next = c.wcs[0].due
	}
	return next
}

// expire does what is due.
func (c *chaos) expire(q *QP, st *step) {
	if c.reads.place(dueBy(st.now)) != nil {
		q.failRead()
	}
	if err := c.writes.place(dueBy(st.now)); err != nil {
		c.failed(q, err, st)
		return
	}
	for len(c.wcs) > 0 && c.wcs[0].due <= st.now {
		if !c.receiveDone(q, st) {
			return
		}
	}
}

// settle does all that is late, for a QP that fails or is reset. Nobody is left to be told of
// errors.
func (c *chaos) settle(q *QP) {
	_ = c.reads.place(all)
	err := c.writes.place(all)
	for i := range c.wcs {
		late := &c.wcs[i]
		if err != nil {
			late.wc = WC{ID: late.wc.ID, Status: WCFlushErr, Opcode: WCRecv, QPN: q.qpn}
		}
		q.pushRecv(&late.wc, late.solicited)
	}
	c.wcs = c.wcs[:0]
}

// settleLate places all that is late in the memory of a protection domain, before a region or a
// window of it ends. It looks at no QP of another domain. No QP may be locked.
func (d *Device) settleLate(pd *PD) {
	for _, q := range pd.chaotic() {
		st := d.newStep()
		q.lock()
		if !q.dead {
			q.resp.placed(q, st)
			if q.chaos.reads.place(all) != nil {
				q.failRead()
			}
		}
		q.unlock(st)
		st.posted()
	}
}

// readsPlaced places the data of READs before wqe completes, which promises it. It reports false
// if that failed, with the QP in ERR.
func (c *chaos) readsPlaced(q *QP, wqe *sendEntry) bool {
	if c.reads.place(all) == nil {
		return true
	}
	q.blameMemory()
	q.failSend(WCLocProtErr)
	return false
}

// fenced places the data of earlier READs before a request with a fence begins: it may send them
// (IBA 10.8.3.3). It reports false if that failed.
func (c *chaos) fenced(q *QP, wqe *sendEntry) bool {
	if wqe.flags&SendFence == 0 || c.reads.place(all) == nil {
		return true
	}
	q.failRead()
	return false
}

// failRead fails the oldest work request, because the data of a READ could not be written, which
// has not completed.
func (q *QP) failRead() {
	if !q.sq.empty() {
		q.blameMemory()
		q.sq.at(q.sq.cons).status = WCLocProtErr
		q.retire()
	}
}

// mayDelay reports whether a WRITE with this key may be late. One through a window of type 1 may
// not: any queue pair of the domain can bind the window again.
func (q *QP) mayDelay(rkey wire.RKey) bool {
	k := q.dev.lookupKey(uint32(rkey))
	return k == nil || k.mw == nil || k.mw.typ != MWType1
}

// invalidates places what a window let in, before the window changes. It reports false if that
// failed.
func (c *chaos) invalidates(q *QP) bool {
	if c.writes.place(all) == nil {
		return true
	}
	q.fail()
	return false
}

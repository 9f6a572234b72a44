package rxe

import "sync"

// CQInit is what CreateCQ takes.
type CQInit struct {
	Entries int // at least this many
	// OnCompletion is called once for each ReqNotify, when a completion of the
	// requested kind arrives, or from ReqNotify itself. A QP may be locked: it must not
	// call back into the device.
	OnCompletion func(*CQ)
	// Ring replaces the queue when it lives elsewhere; Poll is then not used. Nil
	// means a queue of the CQ's own.
	Ring CQRing
}

// CQ is a completion queue.
type CQ struct {
	dev    *Device
	sub    *Subdevice
	notify func(*CQ)

	mu     sync.Mutex // a leaf lock
	ring   CQRing     // nil: wcs
	handed WC         // to ring
	staged staging    // for a ring that may block
	wcs    []WC       // circular
	head   int        // the oldest
	count  int
	cap    int
	armed  cqArm
	pushed uint64 // completions so far
	// silent holds, for each kind of request, pushed after the last completion that the
	// owner was not notified of and that such a request asks for. 0: none since the last
	// notification.
	silent [armAny + 1]uint64
	failed bool // overflowed, or broken down
	dead   bool
	late   map[*QP]struct{} // QPs in ERR whose receives come late (recvlate.go)
	users  int              // QPs, guarded by dev.mu
}

type cqArm uint8

const (
	armNone cqArm = iota
	armSolicited
	armAny
)

// Users returns how many send queues and receive queues complete here.
func (c *CQ) Users() int {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.users
}

// CreateCQ makes a completion queue with the device's own limits, as Whole().CreateCQ does.
func (d *Device) CreateCQ(init CQInit) (*CQ, error) { return d.whole.CreateCQ(init) }

// CreateCQ makes a completion queue (ibv_create_cq).
func (s *Subdevice) CreateCQ(init CQInit) (*CQ, error) {
	const op = "CreateCQ"
	d := s.dev
	if err := s.checkCQEntries(op, int64(init.Entries)); err != nil {
		return nil, err
	}
	if err := s.claim(op, LimitCQ, nil); err != nil {
		return nil, err
	}
	s.passed(LimitCQE)
	c := &CQ{dev: d, sub: s, notify: init.OnCompletion, ring: init.Ring, cap: init.Entries}
	c.staged.ring, _ = init.Ring.(BlockingCQRing)
	if c.ring == nil {
		c.wcs = make([]WC, c.cap)
	}
	d.mu.Lock()
	d.cqs[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
}

func (l *DeviceAttr) checkCQEntries(op string, n int64) error {
	if n < 1 || n > int64(l.MaxCQE) {
		return outside(op, "entries", uint64(n), LimitCQE, uint64(l.MaxCQE))
	}
	return nil
}

// Cap returns how many completions fit.
func (c *CQ) Cap() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cap
}

// Poll moves up to len(wcs) completions out and returns how many (ibv_poll_cq).
// If the queue is in error, it first returns the completions that arrived before that, and
// then an error.
func (c *CQ) Poll(wcs []WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return 0, opErr("PollCQ", "cq", ErrClosed)
	}
	n := min(len(wcs), c.count)
	c.copyOut(wcs[:n])
	c.head += n
	if c.head >= len(c.wcs) {
		c.head -= len(c.wcs)
	}
	c.count -= n
	if n == 0 && c.failed {
		return 0, &OpError{Op: "PollCQ", Arg: "cq", Why: "is in error", Err: ErrFull}
	}
	return n, nil
}

// copyOut copies the oldest len(wcs) completions, which must be there.
func (c *CQ) copyOut(wcs []WC) {
	n := copy(wcs, c.wcs[min(c.head, len(c.wcs)):])
	copy(wcs[n:], c.wcs)
}

// Resize changes how many completions fit (ibv_resize_cq). It returns ErrInvalid
// when more than that are waiting.
func (c *CQ) Resize(entries int) error {
	const op = "ResizeCQ"
	if err := c.sub.checkCQEntries(op, int64(entries)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return opErr(op, "cq", ErrClosed)
	case c.ring != nil:
		return opErr(op, "cq", ErrNotSupported)
	case entries < c.count:
		return invalid(op, "entries", "fewer than are waiting", "poll completions first")
	}
	wcs := make([]WC, entries)
	c.copyOut(wcs[:c.count])
	c.wcs, c.head, c.cap = wcs, 0, entries
	c.sub.passed(LimitCQE)
	return nil
}

// ReplaceRing resizes a CQ whose queue lives elsewhere. It calls move while nothing
// is pushed. move returns the new ring, with the waiting completions of the old
// one. If move returns an error, the CQ stays as it was. A BlockingCQRing resizes itself:
// ErrNotSupported.
func (c *CQ) ReplaceRing(entries int, move func() (CQRing, error)) error {
	const op = "ResizeCQ"
	if err := c.sub.checkCQEntries(op, int64(entries)); err != nil {
		return err
	}
	c.flushLate()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return opErr(op, "cq", ErrClosed)
	case c.ring == nil, c.staged.ring != nil:
		return opErr(op, "cq", ErrNotSupported)
	}
	ring, err := move()
	if err != nil {
		return err
	}
	c.ring, c.cap = ring, entries
	c.sub.passed(LimitCQE)
	return nil
}

// ReqNotify asks for one call of OnCompletion at the next completion. With
// solicitedOnly, that is the next one that is solicited or an error
// (ibv_req_notify_cq). Of two requests the wider one counts.
//
// A completion that arrived after the last call of OnCompletion, and that has not been
// polled, counts as the next one: OnCompletion is called at once. Adapters do the same,
// and programs rely on it (docs/design/0017).
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	c.flushLate()
	want := armAny
	if solicitedOnly {
		want = armSolicited
	}
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return opErr("ReqNotifyCQ", "cq", ErrClosed)
	}
	c.armed = max(c.armed, want)
	fire := c.silentWaits(want)
	if fire {
		c.notified()
	}
	c.mu.Unlock()
	if fire && c.notify != nil {
		c.notify(c)
	}
	return nil
}

// silentWaits reports whether the queue still holds a completion that such a request asks
// for and that the owner was not notified of. The queue holds the latest completions.
func (c *CQ) silentWaits(want cqArm) bool {
	at := c.silent[want]
	return at != 0 && c.pushed-at < uint64(c.waiting())
}

// notified ends the request, and forgets what the owner is about to find.
func (c *CQ) notified() {
	c.armed = armNone
	clear(c.silent[:])
}

// waiting returns how many completions have not been polled.
func (c *CQ) waiting() int {
	if c.ring != nil {
		return c.ring.Waiting()
	}
	return c.count
}

// Waiting returns how many completions have not been polled.
func (c *CQ) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return 0
	}
	return c.waiting()
}

// Destroy frees the queue and the completions left in it (ibv_destroy_cq). It
// returns ErrBusy while a QP uses the queue.
func (c *CQ) Destroy() error {
	const op = "DestroyCQ"
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return opErr(op, "cq", ErrClosed)
	case c.users > 0:
		return opErr(op, "cq", ErrBusy)
	}
	c.dead = true
	c.wcs, c.ring, c.count, c.head = nil, nil, 0, 0
	delete(d.cqs, c)
	c.sub.count(LimitCQ, -1)
	return nil
}

// pushRecv adds the completion of a receive work request. It reports false when the queue is full.
func (q *QP) pushRecv(wc *WC, solicited bool) bool {
	if q.observer != nil {
		q.observer.Completed(q, *wc, true)
	}
	if w := q.dev.work(); w != nil {
		w.Completed(q, *wc, true)
	}
	return q.recvCQ.push(wc, solicited)
}

// push adds a completion and notifies the owner. It reports false when the queue is
// full. The queue is then in error for good, and the caller's QP must be too (IBA
// 11.6.3, CQ error).
func (c *CQ) push(wc *WC, solicited bool) bool {
	c.dev.opcodes.countFailed(wc)
	c.mu.Lock()
	if c.dead || c.failed {
		c.mu.Unlock()
		return false
	}
	if !c.put(wc, solicited) {
		c.failed = true
		c.mu.Unlock()
		c.dev.event(Event{Type: EventCQErr, CQ: c})
		return false
	}
	if c.staged.ring != nil {
		c.mu.Unlock()
		return c.writeStaged()
	}
	fire := c.account(wc, solicited)
	c.mu.Unlock()
	if fire && c.notify != nil {
		c.notify(c)
	}
	return true
}

// account counts a completion that the program can see now, and reports whether the owner must be
// notified of it.
func (c *CQ) account(wc *WC, solicited bool) (fire bool) {
	c.pushed++
	asked := solicited || wc.Status != WCSuccess
	fire = c.armed == armAny || c.armed == armSolicited && asked
	switch {
	case fire:
		c.notified()
	case asked:
		c.silent[armSolicited] = c.pushed
		fallthrough
	default:
		c.silent[armAny] = c.pushed
	}
	return fire
}

func (c *CQ) put(wc *WC, solicited bool) bool {
	if c.staged.ring != nil {
		return c.stage(wc, solicited)
	}
	if c.ring != nil {
		c.handed = *wc // a pointer to the caller's would move it to the heap
		return c.ring.Push(&c.handed)
	}
	if c.count == len(c.wcs) {
		return false
	}
	at := c.head + c.count
	if at >= len(c.wcs) {
		at -= len(c.wcs)
	}
	c.wcs[at] = *wc
	c.count++
	return true
}

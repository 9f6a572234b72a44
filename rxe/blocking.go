package rxe

// A provider's queues may lie in memory of the program's own, where each access may block for ever
// (Memory). The leaf locks of a CQ and of an SRQ must not be held then. So completions are staged
// in the CQ, and written by a thread that holds no lock but its QP's, as for a payload. Receive
// requests are fetched by such a thread. One thread at a time does so for a queue. If it blocks,
// the others neither wait for it nor for a lock: completions of other QPs stay staged, and receives
// are as if not posted.

// BlockingCQRing is a CQRing in such memory.
type BlockingCQRing interface {
	CQRing
	// PushAll is called in place of Push, with completions in their order. It returns for how many
	// there was room. A QP is locked and nothing else, so it may block as Memory may. One thread at
	// a time calls it. Waiting does not block.
	PushAll(wcs []WC) int
}

// FetchingRing is a RecvRing in such memory, for an SRQ.
type FetchingRing interface {
	RecvRing
	// Fetch reads requests ahead, if there are few: Pop, which does not block, returns what Fetch
	// has read. A QP is locked and nothing else, so Fetch may block as Memory may. One thread at a
	// time calls it, while others may call Pop.
	Fetch()
}

// stagedWC is a completion that the program cannot see yet.
type stagedWC struct {
	wc        WC
	solicited bool
}

// staging holds the completions of a CQ whose ring may block. CQ.mu guards it, except batch and
// wcs, which belong to the thread that set busy.
type staging struct {
	ring  BlockingCQRing // nil: the ring does not block
	list  []stagedWC
	busy  bool // a thread writes completions
	batch []stagedWC
	wcs   []WC
}

// stage adds a completion, and reports false if the queue is full. The caller has locked CQ.mu.
func (c *CQ) stage(wc *WC, solicited bool) bool {
	if len(c.staged.list) >= c.cap {
		return false
	}
	c.staged.list = append(c.staged.list, stagedWC{*wc, solicited})
	return true
}

// writeStaged writes what is staged, unless another thread does: that thread goes on until nothing
// is left. It reports false if the queue is in error. A QP is locked, and CQ.mu is not.
func (c *CQ) writeStaged() bool {
	s := &c.staged
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.busy {
		return true
	}
	s.busy = true
	for full := false; len(s.list) > 0 && !full; {
		s.batch, s.list = s.list, s.batch[:0]
		s.wcs = s.wcs[:0]
		for i := range s.batch {
			wc := s.batch[i].wc
			wc.Solicited = s.batch[i].solicited || wc.Status != WCSuccess
			s.wcs = append(s.wcs, wc)
		}
		c.mu.Unlock()
		n := s.ring.PushAll(s.wcs)
		c.mu.Lock()
		fire := false
		for i := range s.batch[:n] {
			fire = c.account(&s.batch[i].wc, s.batch[i].solicited) || fire
		}
		full = n < len(s.batch)
		broke := full && !c.failed
		c.failed = c.failed || full
		c.mu.Unlock()
		if fire && c.notify != nil {
			c.notify(c)
		}
		if broke {
			c.dev.event(Event{Type: EventCQErr, CQ: c})
		}
		c.mu.Lock()
	}
	s.busy = false
	return !c.failed
}

// fetch lets the ring read ahead, unless another thread does. A QP is locked, and SRQ.mu is not.
func (s *SRQ) fetch() {
	if s.fetcher == nil || !s.fetching.CompareAndSwap(false, true) {
		return
	}
	defer s.fetching.Store(false)
	s.fetcher.Fetch()
}

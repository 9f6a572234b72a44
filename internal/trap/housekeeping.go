package trap

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/threads"
)

// house takes care of what happens to the program outside of its trapped calls: descriptors
// that are closed, processes and the session that end. The thread of threads.Poller and the
// goroutine of Closes note what happened, and wait for nothing. keep does the work.
type house struct {
	s        *Session
	threads  *threads.Shared
	listener *threads.Source
	wake     chan struct{} // there is news

	// held while look does what it found; it comes before all locks of the session's objects
	working sync.Mutex

	mu     sync.Mutex
	closed bool // nothing more is watched
	news   news
}

// news is what happened since keep looked last.
type news struct {
	watches  []int      // their files were closed
	hungUp   []*object  // pollable files that the program has closed
	exits    []*process // that have ended
	overflow bool       // watches were lost
	stopped  bool       // the session ends
}

func newHouse(s *Session) (*house, error) {
	h := &house{s: s, threads: s.cfg.Threads, wake: make(chan struct{}, 1)}
	if err := h.threads.Join(); err != nil {
		return nil, err
	}
	var err error
	if h.listener, err = h.threads.Poller.Add(int(s.listener), 0, h.rings); err != nil {
		h.threads.Leave()
		return nil, err
	}
	s.cfg.Closes.join(h)
	return h, nil
}

// close is called when nothing is watched any more.
func (h *house) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.listener.Remove()
	h.threads.Leave()
	h.s.cfg.Closes.leave(h)
}

// rings is called when the listener has calls while the receiver is away, or when the last
// process behind it has ended.
func (h *house) rings(events uint32) {
	if events&unix.EPOLLHUP != 0 {
		h.stop()
	} else {
		h.s.duty.knock()
	}
}

// stop makes keep return.
func (h *house) stop() { h.post(func(n *news) { n.stopped = true }) }

// fileClosed makes keep close the object with that watch.
func (h *house) fileClosed(wd int) { h.post(func(n *news) { n.watches = append(n.watches, wd) }) }

// lost makes keep say that closes were missed.
func (h *house) lost() { h.post(func(n *news) { n.overflow = true }) }

// post notes something for keep and wakes it.
func (h *house) post(note func(*news)) {
	h.mu.Lock()
	note(&h.news)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns the news.
func (h *house) take() news {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.news
	h.news = news{}
	return n
}

// keep works until the program has ended or stop is called.
func (h *house) keep() {
	for range h.wake {
		if !h.look() {
			return
		}
	}
}

// look does what the news asks for. False means that the session stops.
func (h *house) look() bool {
	h.working.Lock()
	defer h.working.Unlock()
	n := h.take()
	if n.overflow {
		h.s.log.Error("inotify lost events: files that the program closed may stay open until it ends")
	}
	for _, wd := range n.watches {
		if o := h.s.objects.byWatch(wd); o != nil {
			h.s.closeObject(o)
		}
	}
	for _, o := range n.hungUp {
		if !h.s.waiting.keeps(o) {
			h.s.closeObject(o)
		}
	}
	for _, p := range n.exits {
		h.s.procs.ended(p)
	}
	return !n.stopped
}

// lookNow is called before the user's budget refuses something. It notices what the program has
// closed, and processes that have ended, before the poller and Closes say so.
func (h *house) lookNow() {
	h.s.cfg.Closes.drain()
	if gone := h.s.objects.hungUp(); len(gone) > 0 {
		h.post(func(n *news) { n.hungUp = append(n.hungUp, gone...) })
	}
	if gone := h.s.procs.goneNow(); len(gone) > 0 {
		h.post(func(n *news) { n.exits = append(n.exits, gone...) })
	}
	if !h.look() {
		h.stop() // keep has to see it
	}
}

// watchExit asks for news of a process's end.
func (h *house) watchExit(p *process) error {
	return h.watch(&p.exit, p.pidfd, unix.EPOLLIN, func(n *news) { n.exits = append(n.exits, p) })
}

// watchPoll asks for news of the last close of a pollable file in the program: its other
// end hangs up then.
func (h *house) watchPoll(o *object) error {
	return h.watch(&o.hangUp, o.polled.Poll(), 0, func(n *news) { n.hungUp = append(n.hungUp, o) })
}

// watch posts note once, when the file has one of the events or hangs up.
func (h *house) watch(as **threads.Source, fd int, events uint32, note func(*news)) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unix.ENODEV
	}
	*as, err = h.threads.Poller.Add(fd, events, func(uint32) { h.post(note) })
	return err
}

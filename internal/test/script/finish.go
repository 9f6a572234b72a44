package script

import (
	"bytes"
	"slices"
	"time"

	"github.com/gorxe/gorxe/rxe"
)

const (
	// maxDeadlines bounds how many deadlines pass until a script finishes. Work that needs more
	// hangs: seven retries of each of the work requests need a tenth.
	maxDeadlines = 3000
	maxTime      = rxe.Time(5 * time.Minute)
)

// finish delivers all packets, posts the receive work requests that are missing, and lets
// deadlines pass until all work is done. Then it compares memory with the model.
func (s *Script) finish(a *args) error {
	if err := a.rest(); err != nil {
		return err
	}
	for _, h := range s.hosts {
		h.retried = h.counter("timeouts") + h.counter("seq_naks_rcvd")
		if len(h.batch) > 0 {
			if err := h.postBatch(); err != nil {
				return err
			}
		}
		if h.q.State() == rxe.QPSQD {
			if err := h.resume(); err != nil {
				return err
			}
		}
	}
	s.ending = true
	defer func() { s.ending = false }()
	limit := s.net.Now() + maxTime
	for range maxDeadlines {
		if err := s.supply(); err != nil {
			return err
		}
		s.deliverAll()
		if len(s.problems) > 0 {
			return nil
		}
		if s.idle() {
			s.compare()
			return nil
		}
		s.clocked = true
		over := s.net.Now() > limit || !s.net.Step()
		s.poll()
		s.clocked = false
		if over {
			break
		}
	}
	if s.conceded == "" {
		s.hang()
	}
	return nil
}

// resume takes a send queue that has drained back to RTS; one that has not drains first.
func (h *host) resume() error {
	s := h.s
	for range maxDeadlines {
		err := h.q.Modify(&rxe.QPAttr{State: rxe.QPRTS}, rxe.QPAttrState)
		if err == nil {
			return nil
		}
		if e := s.supply(); e != nil {
			return e
		}
		s.deliverAll()
		if h.q.State() != rxe.QPSQD {
			return nil
		}
		if attr, _, e := h.q.Query(); e != nil || !attr.SQDraining {
			continue
		}
		if !s.net.Step() {
			return err
		}
		s.poll()
	}
	s.problem("hang", "%s does not drain", h.name)
	return nil
}

// supply posts a receive work request for each message that has none.
func (s *Script) supply() error {
	for _, h := range s.hosts {
		if h.q.State() == rxe.QPErr {
			continue
		}
		messages := h.expect
		if s.p.typ != rxe.QPRC { // messages that were lost do not come again
			messages = messages[:min(len(messages), len(s.flights))]
		}
		size := 0 // room for any of them: they may come in another order
		for _, m := range h.expect {
			size = max(size, m.size+h.grh())
		}
		for len(h.recvs) < len(messages) {
			if err := h.postRecv(size, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Script) idle() bool {
	for _, h := range s.hosts {
		if slices.ContainsFunc(h.sends, (*request).signaled) || s.p.typ == rxe.QPRC && h.q.Snapshot().SendQueue > 0 && h.failed == 0 {
			return false
		}
	}
	return len(s.flights) == 0
}

func (s *Script) hang() {
	for _, h := range s.hosts {
		if len(h.sends) > 0 {
			s.problem("hang", "%s: wr %d (%v) does not complete", h.name, h.sends[0].wr.ID, h.sends[0].wr.Op)
		}
	}
}

// compare compares what an end without faults leaves with the model. Only RC promises it.
func (s *Script) compare() {
	if s.conceded != "" || s.p.typ != rxe.QPRC {
		return
	}
	for _, h := range s.hosts {
		if len(h.expect) > 0 {
			s.problem("data", "%s: a message of %d bytes, which its sender saw complete, was not received", h.name, h.expect[0].size)
		}
		if got := h.mem.Data[:len(h.model)]; !bytes.Equal(got, h.model) {
			i := 0
			for got[i] == h.model[i] {
				i++
			}
			s.problem("data", "%s: memory at %d is %s, want %s", h.name, i, brief(got[i:]), brief(h.model[i:]))
		}
	}
}

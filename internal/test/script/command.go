package script

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func timeOf(t rxe.Time) time.Duration { return time.Duration(t) }

// wait lets deadlines pass.
func (s *Script) wait(a *args) error {
	d, err := a.duration()
	if err == nil {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	over := false
	s.net.After(d, func() { over = true })
	s.clocked = true
	for n := 0; !over && s.net.Step(); n++ {
		s.poll()
		if n > maxDeliveries {
			s.problem("endless", "deadlines follow each other without end")
			break
		}
	}
	s.clocked = false
	return nil
}

func (s *Script) modify(a *args) error {
	h := s.host(a, "a")
	name := a.word("", "reset", "rts", "sqd", "err")
	state, ok := states[name]
	if !ok {
		return fmt.Errorf("give a state: reset, rts, sqd or err")
	}
	if err := a.rest(); err != nil {
		return err
	}
	attr, mask := rxe.QPAttr{State: state}, rxe.QPAttrState
	switch state {
	case rxe.QPSQD:
		attr.EnSQDNotify, mask = true, mask|rxe.QPAttrEnSQDNotify
	case rxe.QPErr, rxe.QPReset:
		s.concede("a queue pair has left the connection")
	default:
	}
	if err := h.q.Modify(&attr, mask); err != nil {
		return err
	}
	if state == rxe.QPReset {
		h.forget()
	}
	return nil
}

// reconnect takes both queue pairs through RESET to RTS. Packets stay in flight: they are those
// of an old connection then.
func (s *Script) reconnect(a *args) error {
	for i, name := range []string{"psn", "psn-b"} {
		n, err := a.bounded(name, uint64(s.p.psn[i]), wire.PSNMask)
		if err != nil {
			return err
		}
		s.p.psn[i] = wire.PSN(n)
	}
	if err := a.rest(); err != nil {
		return err
	}
	s.concede("the connection is a new one")
	s.strange = true
	for _, h := range s.hosts {
		if err := h.q.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState); err != nil {
			return err
		}
		h.forget()
	}
	for i, h := range s.hosts {
		if err := h.connect(&s.p, i); err != nil {
			return err
		}
	}
	return nil
}

// limit arms the limit event of an SRQ (ibv_modify_srq).
func (s *Script) limit(a *args) error {
	h := s.host(a, "b")
	n := a.number(-1)
	if err := a.rest(); err != nil {
		return err
	}
	if h.srq == nil || n < 0 {
		return fmt.Errorf("give a number, and connect an SRQ")
	}
	return h.srq.Modify(rxe.SRQAttr{Limit: uint32(n)}, rxe.SRQAttrLimit)
}

func (s *Script) dereg(a *args) error {
	h := s.host(a, "b")
	if err := a.rest(); err != nil {
		return err
	}
	s.concede("a memory region is gone")
	return h.mr.Dereg()
}

// recv posts receive work requests.
func (s *Script) recv(a *args) error {
	h := s.host(a, "b")
	size := a.number(0)
	count, err := a.bounded("count", 1, 1024)
	if err != nil {
		return err
	}
	pieces, err := a.bounded("sges", 1, maxSGE)
	if err == nil {
		err = a.rest()
	}
	for ; count > 0 && err == nil; count-- {
		err = h.postRecv(size, int(pieces))
	}
	return err
}

func (h *host) postRecv(size, pieces int) error {
	off, err := h.alloc(size)
	if err != nil {
		return err
	}
	wr := []rxe.RecvWR{{ID: recvID | (h.nextRecv + 1), SGL: h.sgl(off, size, pieces)}}
	if h.srq != nil {
		_, err = h.srq.PostRecv(wr)
	} else {
		_, err = h.q.PostRecv(wr)
	}
	if err != nil {
		return err
	}
	h.nextRecv++
	h.received(&receive{id: wr[0].ID, off: off, size: size})
	return nil
}

package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// A device drops a datagram whose Q_Key is not that of the queue pair, and tells nobody. Not each
// such datagram is a mistake: a stranger may have sent it, a network may have damaged it, and its
// receiver may have changed its Q_Key meanwhile. So two things must come together. A program of
// this run has posted the datagram to a queue pair of this run that never had this Q_Key, and the
// device has dropped it.

// queueKey is the Q_Key of a queue pair.
type queueKey struct {
	value   uint32
	at      *Stack // where the program set it
	set     bool
	changed bool // it was another one before
}

// keyed notes the Q_Key that a program gives to a queue pair.
func (k *queueKey) keyed(value uint32, at *Stack) {
	k.changed = k.changed || k.set && k.value != value
	k.value, k.at, k.set = value, at, true
}

// stray is a datagram that was posted with another Q_Key than that of its receiver. Of those of one
// sender with one Q_Key to one receiver, the last one stands for all.
type stray struct {
	strayKey
	remote uint32 // remote_qkey
	op     rxe.WROpcode
	id     uint64
	at     *Stack
	keyed  *Stack // where the sender got its own Q_Key
}

type strayKey struct {
	from wire.QPN
	to   *object
	qkey uint32 // that is sent
}

// privileged is the bit of remote_qkey that asks for the sender's own Q_Key (IBA 10.2.5).
const privileged = 1 << 31

// strays notes a request whose Q_Key its receiver will not take. s.mu is held.
func (f *File) strays(o *object, p *post, wr *rxe.SendWR) {
	if !f.s.selected[qkeyMismatch] || !o.qkey.set || !isMessage(p.op) {
		return
	}
	to := f.addressed(wr.RemoteQPN)
	if to == nil || !to.qkey.set || to.qkey.changed {
		return
	}
	x := stray{strayKey{wire.QPN(o.Number), to, wr.RemoteQKey}, wr.RemoteQKey, p.op, p.id, p.at, o.qkey.at}
	if wr.RemoteQKey&privileged != 0 {
		x.qkey = o.qkey.value
	}
	if x.qkey == to.qkey.value {
		return
	}
	if i := f.s.strayOf(x.strayKey); i >= 0 {
		f.s.stray[i] = x
		return
	}
	if len(f.s.stray) == maxStrays {
		f.s.stray = slices.Delete(f.s.stray, 0, 1)
	}
	f.s.stray = append(f.s.stray, x)
}

// strayOf returns the index of a stray; negative: there is none. mu is held.
func (s *Session) strayOf(k strayKey) int {
	return slices.IndexFunc(s.stray, func(x stray) bool { return x.strayKey == k })
}

// addressed returns the queue pair that a datagram goes to; nil: it is not of this run, or not
// known. s.mu is held.
func (f *File) addressed(number wire.QPN) *object {
	if number == wire.MulticastQPN {
		return nil
	}
	if o := f.s.qps[qpName{f.device, number}]; o != nil {
		return o
	}
	return f.s.only(func(o *object) bool { return wire.QPN(o.Number) == number })
}

// qkey finds out whether a datagram that was dropped for its Q_Key is a mistake.
func (w *work) qkey() {
	s, to := w.file.s, w.qp
	i := s.strayOf(strayKey{w.failure.PeerQPN, to, w.failure.QKey})
	if i < 0 || to.qkey.changed || w.failure.OwnQKey != to.qkey.value {
		return
	}
	x, psn, how := &s.stray[i], uint32(w.failure.PSN), "remote_qkey"
	places := []Place{{What: fmt.Sprintf("the %v (wr_id %#x) was posted", x.op, x.id), Stack: x.at}}
	if x.remote&privileged != 0 {
		how = fmt.Sprintf("the sender's own, as the highest bit of remote_qkey %#x is set", x.remote)
		places = append(places, Place{What: "the sender got its Q_Key", Stack: x.keyed})
	}
	w.file.find(qkeyMismatch, Finding{
		What: fmt.Sprintf("%s (wr_id %#x) of queue pair %#x was dropped in silence: it has Q_Key %#x (%s), and %s has %#x",
			an(x.op), x.id, uint32(x.from), x.qkey, how, to, to.qkey.value),
		Objects: []string{fmt.Sprintf("%s %#x", kindQP, uint32(x.from)), to.name()}, PSN: &psn,
		Places: slices.Concat(places, []Place{{What: "the receiver got its Q_Key", Stack: to.qkey.at}}, to.history("its queue pair was made")),
	})
}

// arrivesNoMore forgets the strays of a receiver. s.mu is held.
func (s *Session) arrivesNoMore(to *object) {
	s.stray = slices.DeleteFunc(s.stray, func(x stray) bool { return x.to == to })
}

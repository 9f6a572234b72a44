package mad

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

// key tells the datagrams apart that an agent waits for (user_mad.c: is_duplicate).
type key struct {
	tid      uint64
	class    wire.MADClass
	response bool
}

func keyOf(m *wire.MAD, response bool) key { return key{m.TID(), m.Class(), response} }

// transaction is a datagram that waits to be answered. Port.mu guards it.
type transaction struct {
	key     key
	mad     wire.MAD
	request *Request // how it was sent; not its MAD
	context any
	left    uint32      // how often it will be sent again
	timer   *time.Timer // nil: it waits for ever
	over    bool
}

// answeredBy reports whether an answer comes from where the datagram went (mad.c:
// rcv_has_same_gid).
func (t *transaction) answeredBy(d *Datagram) bool {
	return t.request.GRH == d.Remote && (!d.Remote || t.request.To.DGID == d.From.DGID)
}

func (t *transaction) stop() {
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// begin makes a transaction of a datagram; Port.mu is held.
func (a *Agent) begin(r *Request, k key) *transaction {
	t := &transaction{key: k, mad: *r.MAD, context: r.Context, left: r.Retries}
	sent := *r
	sent.MAD = nil
	t.request = &sent
	a.pending[k] = t
	if r.Timeout > 0 {
		t.timer = time.AfterFunc(r.Timeout, func() { a.expire(t) })
	}
	return t
}

// abandon ends a transaction whose datagram could not be sent. It returns false if it has
// ended already.
func (a *Agent) abandon(t *transaction) bool {
	a.port.mu.Lock()
	defer a.port.mu.Unlock()
	if t.over {
		return false
	}
	t.stop()
	delete(a.pending, t.key)
	return true
}

// expire sends a datagram again, or gives it up.
func (a *Agent) expire(t *transaction) {
	p := a.port
	p.mu.Lock()
	if t.over {
		p.mu.Unlock()
		return
	}
	if t.left == 0 {
		p.mu.Unlock()
		a.giveUp(t)
		return
	}
	t.left--
	mad := t.mad
	p.mu.Unlock()
	if t.request.GRH {
		_ = p.mux.Send(t.request.To, t.request.Dest, &mad) // the next time may be better
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.over {
		t.timer.Reset(t.request.Timeout)
	}
}

// giveUp ends a transaction that nobody will answer.
func (a *Agent) giveUp(t *transaction) {
	if a.abandon(t) {
		a.handler.Ended(a, t.context, true)
	}
}

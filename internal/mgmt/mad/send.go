package mad

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Request says what to send, and where.
type Request struct {
	MAD *wire.MAD // Send writes its transaction identifier

	// With GRH it goes to queue pair Dest at the address To. Without, it stays at this port:
	// RoCE knows no LIDs, and LID is 0 or LIDPermissive.
	GRH  bool
	To   rxe.AHAttr
	Dest wire.QPN
	LID  uint16

	// Timeout is how long to wait for an answer, before each of Retries and at the end. 0:
	// none is awaited; less: for ever.
	Timeout time.Duration
	Retries uint32
	Context any // for Handler.Ended
}

// Send sends a datagram. Errors are Linux's for a RoCE port. EINVAL: the port has no such address,
// or a datagram with the same transaction identifier waits for its answer. EOPNOTSUPP: the datagram
// is a part of a longer message, which the program leaves to the kernel.
func (a *Agent) Send(r *Request) error {
	mad, response := r.MAD, isResponse(r.MAD)
	switch {
	case !hasRMPP(mad.Class()) && a.reg.RMPP != 0:
		return unix.EINVAL
	case a.kernelRMPP() && isRMPP(mad):
		return unix.EOPNOTSUPP
	}
	if !response {
		mad.SetTID(uint64(a.number)<<32 | mad.TID()&(1<<32-1))
	}
	way, err := a.way(r, response)
	if err != nil {
		return err
	}
	k := keyOf(mad, response)
	p := a.port
	p.mu.Lock()
	var t *transaction
	switch {
	case a.gone:
		err = unix.EIO
	case a.pending[k] != nil:
		err = unix.EINVAL
	case r.Timeout != 0:
		t = a.begin(r, k)
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	err = way()
	switch {
	case err == errNobody && t != nil:
		a.giveUp(t)
	case err != nil && err != errNobody && (t == nil || a.abandon(t)):
		return errnoOf(err)
	}
	return nil
}

// errNobody says that nobody can answer a datagram.
var errNobody = errors.New("no link leads there")

// errnoOf is what a program sees of an error of the device.
func errnoOf(err error) error {
	if errors.Is(err, rxe.ErrClosed) {
		return unix.EIO
	}
	return unix.EINVAL
}

// way returns what sends the datagram.
func (a *Agent) way(r *Request, response bool) (func() error, error) {
	p := a.port
	mad := *r.MAD
	switch {
	case a.reg.QPN == wire.SMIQPN:
		return a.subnet(r, &mad)
	case r.GRH:
		return func() error { return p.mux.Send(r.To, r.Dest, &mad) }, nil
	case r.LID != 0:
		return nil, unix.EINVAL
	case !response:
		return func() error { return p.toSelf(&mad) }, nil
	}
	// Programs that know LIDs only answer without a GRH (libibmad: mad_respond_via).
	p.mu.Lock()
	o, ok := a.origins.find(&mad)
	p.mu.Unlock()
	switch {
	case !ok:
		return nil, unix.EINVAL
	case o.local:
		return func() error { p.answered(&Datagram{MAD: mad, Src: wire.GSIQPN}); return nil }, nil
	default:
		return func() error { return p.mux.Send(o.from, o.src, &mad) }, nil
	}
}

// subnet returns what sends a datagram of queue pair 0. One that would leave the port has
// nobody to answer it, and comes back at once.
func (a *Agent) subnet(r *Request, mad *wire.MAD) (func() error, error) {
	away := func() error { return errNobody }
	m := wire.SMP{MAD: mad}
	switch {
	case !isSubnet(mad.Class()), r.GRH:
		return away, nil
	case !m.Directed():
		if r.LID != 0 && r.LID != wire.LIDPermissive {
			return away, nil
		}
	case m.SourceLID() != wire.LIDPermissive, m.HopCount() > 0, mad.Status()&wire.SMPDirection != 0:
		return away, nil
	case m.DestLID() != wire.LIDPermissive, m.HopPointer() != 0:
		return nil, unix.EINVAL // smi.c: smi_handle_dr_smp_send
	default:
		m.SetHopPointer(1)
	}
	p := a.port
	return func() error {
		if p.sma.Answer(mad) {
			p.answered(&Datagram{MAD: *mad, Src: wire.SMIQPN})
		} else {
			p.deliver(&Datagram{MAD: *mad, Src: wire.SMIQPN})
		}
		return nil
	}, nil
}

// toSelf handles a request to queue pair 1 of this port, as if it had come from the wire.
func (p *Port) toSelf(mad *wire.MAD) error {
	answered := mad.Class() == wire.MADClassPerformance && p.mux.Perform(mad)
	if !answered {
		switch {
		case mad.Class() == wire.MADClassCM, isSubnet(mad.Class()):
			return errNobody
		case p.deliver(&Datagram{MAD: *mad, Src: wire.GSIQPN}):
			return nil
		case mad.Method() != wire.MADGet && mad.Method() != wire.MADSet:
			return errNobody
		}
		mad.Answer(wire.MADGetResp, wire.MADUnsupportedAttribute)
	}
	p.answered(&Datagram{MAD: *mad, Src: wire.GSIQPN})
	return nil
}

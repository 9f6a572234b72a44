package rxe

import (
	"errors"
	"fmt"
	"strconv"
)

// Subdevice is a device as one of its users sees it: with limits that may be lower, and that count
// only the objects which were made through it. Device.Whole has the device's own limits.
type Subdevice struct {
	dev    *Device
	attr   DeviceAttr
	memory uint64     // LimitMemory
	uc     uint64     // LimitUC
	watch  LimitWatch // nil: the device's own limits

	// Under dev.mu.
	live       ObjectCounts
	registered uint64 // pages of the regions
}

// LimitWatch learns what the limits of a Subdevice do. It may be called with any lock held and must
// not block, nor call back into the device.
type LimitWatch interface {
	// Compared tells of a call that was compared with a limit. It is refused if it exceeds the
	// limit but not the device's own. A call that the device itself refuses is not told.
	Compared(l Limit, refused bool)
}

// Whole returns the device with its own limits.
func (d *Device) Whole() *Subdevice { return &d.whole }

// Subdevice returns the device with lower limits. An error names one that is not lower than the
// device's own.
func (d *Device) Subdevice(lower map[Limit]uint64, watch LimitWatch) (*Subdevice, error) {
	s := &Subdevice{dev: d, attr: d.whole.attr, memory: unlimited, uc: unlimited, watch: watch}
	for l, most := range lower {
		if own := s.attr.Limit(l); most >= own {
			return nil, &OpError{Op: "Subdevice", Arg: l.String(), Given: strconv.FormatUint(most, 10),
				Why: fmt.Sprintf("limits nothing: the device's own limit is %d", own), Err: ErrInvalid}
		}
		s.attr.lower(l, most)
		switch l {
		case LimitMemory:
			s.memory = most
		case LimitUC:
			s.uc = most
		default:
		}
	}
	return s, nil
}

// Attr returns capabilities and limits (ibv_query_device_ex).
func (s *Subdevice) Attr() DeviceAttr { return s.attr }

// QueryPort returns the port's attributes (ibv_query_port).
func (s *Subdevice) QueryPort() PortAttr {
	a := s.dev.QueryPort()
	a.MaxMsgSize = s.attr.MaxMsgSize
	return a
}

// CheckQPCap reports which size of a new QP exceeds the limits. With an SRQ the QP has no receive
// queue, and its receive sizes are ignored (rxe_qp_chk_cap). CreateQP calls it. A caller that
// allocates queues of its own calls it before that.
func (s *Subdevice) CheckQPCap(c *QPCap, sharedRecv bool) error {
	return s.check(func(a *DeviceAttr) error { return a.checkQPCap(c, sharedRecv) })
}

// CheckSRQ reports which size of a new SRQ exceeds the limits. CreateSRQ calls it. A caller that
// allocates queues of its own calls it before that.
func (s *Subdevice) CheckSRQ(maxWR, maxSGE uint32) error {
	return s.check(func(a *DeviceAttr) error { return a.checkSRQ(maxWR, maxSGE) })
}

// CheckCQEntries reports whether a completion queue may have n entries. CreateCQ calls it. A caller
// that allocates queues of its own calls it before that.
func (s *Subdevice) CheckCQEntries(n uint32) error { return s.checkCQEntries("CreateCQ", int64(n)) }

func (s *Subdevice) checkCQEntries(op string, n int64) error {
	return s.check(func(a *DeviceAttr) error { return a.checkCQEntries(op, n) })
}

func (s *Subdevice) checkSRQWR(op string, n uint32) error {
	return s.check(func(a *DeviceAttr) error { return a.checkSRQWR(op, n) })
}

// check compares a request with the limits of the device, and then with the lower ones.
func (s *Subdevice) check(against func(*DeviceAttr) error) error {
	err := against(&s.dev.whole.attr)
	if err == nil && s.watch != nil {
		err = against(&s.attr)
		s.refused(err)
	}
	return err
}

// refused tells that a call exceeded a lowered limit, if that is what the error says.
func (s *Subdevice) refused(err error) {
	var e *OpError
	if errors.As(err, &e) && e.Limit != 0 {
		s.lowered(e)
		s.watch.Compared(e.Limit, true)
	}
}

// lowered says in an error that the limit is a lowered one.
func (s *Subdevice) lowered(e *OpError) {
	e.Lowered, e.Fix = true, ""
	e.Why = fmt.Sprintf("a fault rule limits %v to %d", e.Limit, s.most(e.Limit))
}

// passed tells that a call has not exceeded limits.
func (s *Subdevice) passed(list ...Limit) {
	if s.watch == nil {
		return
	}
	for _, l := range list {
		s.watch.Compared(l, false)
	}
}

func (s *Subdevice) most(l Limit) uint64 {
	switch l {
	case LimitMemory:
		return s.memory
	case LimitUC:
		return s.uc
	default:
		return s.attr.Limit(l)
	}
}

// take counts one more object of a kind, if there may be one. The caller holds dev.mu.
func (s *Subdevice) take(op string, kind Limit) error {
	full := func(s *Subdevice) bool { return uint64(*s.live.of(kind)) >= s.most(kind) }
	switch {
	case full(&s.dev.whole):
		return opErr(op, "", ErrLimit)
	case s.watch != nil && full(s):
		err := &OpError{Op: op, Err: ErrLimit, Limit: kind}
		if kind == LimitUC && s.uc == 0 { // as an adapter without UC
			err.Err = ErrNotSupported
		}
		s.refused(err)
		return err
	}
	s.passed(kind)
	s.count(kind, 1)
	return nil
}

// takeQP counts one more queue pair, if there may be one of its type. The caller holds dev.mu.
func (s *Subdevice) takeQP(op string, typ QPType) error {
	if typ != QPUC {
		return s.take(op, LimitQP)
	}
	if err := s.take(op, LimitUC); err != nil {
		return err
	}
	err := s.take(op, LimitQP)
	if err != nil {
		s.count(LimitUC, -1)
	}
	return err
}

// giveQP takes back what takeQP has counted.
func (s *Subdevice) giveQP(typ QPType) {
	s.count(LimitQP, -1)
	if typ == QPUC {
		s.count(LimitUC, -1)
	}
}

// count counts n more objects of a kind. The caller holds dev.mu.
func (s *Subdevice) count(kind Limit, n int) {
	*s.dev.whole.live.of(kind) += n
	if s.watch != nil {
		*s.live.of(kind) += n
	}
}

// claim counts one more object. It returns ErrClosed on a closed device. With pd it also makes the
// object a child of pd.
func (s *Subdevice) claim(op string, kind Limit, pd *PD) error {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return opErr(op, "device", ErrClosed)
	case pd != nil && pd.dead:
		return opErr(op, "pd", ErrClosed)
	}
	if err := s.take(op, kind); err != nil {
		return err
	}
	if pd != nil {
		pd.children++
	}
	return nil
}

func (s *Subdevice) unclaim(kind Limit, pd *PD) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.count(kind, -1)
	if pd != nil {
		pd.children--
	}
}

// register takes the pages of a region that takes the place of another, and makes it a child of its
// domain; nil: no region.
func (s *Subdevice) register(op string, next, old *region) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if next != nil && old != nil && next.pd != old.pd && next.pd.dead {
		return opErr(op, "pd", ErrClosed)
	}
	if err := s.charge(op, next, old); err != nil {
		return err
	}
	if next != nil && old != nil {
		old.pd.children--
		next.pd.children++
	}
	return nil
}

// charge is register's part for LimitMemory. The caller holds dev.mu.
func (s *Subdevice) charge(op string, next, old *region) error {
	if s.memory == unlimited {
		return nil
	}
	free := s.memory/memoryPage - (s.registered - old.pages())
	if next.pages() > free {
		err := &OpError{Op: op, Arg: "length", Given: strconv.FormatUint(next.length, 10), Err: ErrLimit, Limit: LimitMemory}
		s.refused(err)
		return err
	}
	if next != nil {
		s.passed(LimitMemory)
	}
	s.registered += next.pages() - old.pages()
	return nil
}

// unlimited is a LimitMemory that nobody has lowered.
const unlimited = ^uint64(0)

// pages returns in how many pages a region is, of which an adapter locks each. A region on demand
// locks none (ib_umem_odp_get). Their bytes may be 2^64, which is too many for a uint64.
func (r *region) pages() uint64 {
	if r == nil || r.access&AccessOnDemand != 0 || r.length == 0 {
		return 0
	}
	first, last := r.addr/memoryPage, (r.addr+r.length-1)/memoryPage
	return last - first + 1
}

// tooLong reports whether a message of n bytes is longer than the QP's device allows.
func (q *QP) tooLong(n uint64) bool {
	if n <= q.maxMessage {
		return false
	}
	if n <= q.sub.dev.whole.maxMessage() {
		q.sub.watch.Compared(LimitMsgSize, true)
	}
	return true
}

// inboundMessage returns the fault of a peer's message of n bytes, if it is too long.
func (q *QP) inboundMessage(n uint64) fault {
	switch {
	case !q.tooLong(n):
		return faultNone
	case n <= q.sub.dev.whole.maxMessage():
		return faultLimit
	default:
		return faultLength
	}
}

// maxMessage returns the length of the longest message.
func (s *Subdevice) maxMessage() uint64 { return min(MaxMessage, uint64(s.attr.MaxMsgSize)) }

// checkMessage refuses a work request with a message that is too long.
func (q *QP) checkMessage(op string, n uint64) error {
	if !q.tooLong(n) {
		if q.maxMessage < MaxMessage && q.sub.watch != nil {
			q.sub.watch.Compared(LimitMsgSize, false)
		}
		return nil
	}
	err := &OpError{Op: op, Arg: "sg_list", Given: strconv.FormatUint(n, 10), Err: ErrInvalid, Limit: LimitMsgSize,
		Why: "message longer than max_msg_sz", Fix: "send it in pieces"}
	if n <= q.sub.dev.whole.maxMessage() {
		q.sub.lowered(err)
	}
	return err
}

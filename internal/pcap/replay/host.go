package replay

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// host is an engine with one queue pair. It is also the link and the clock of its
// device.
type host struct {
	dev *rxe.Device
	pd  *rxe.PD
	cq  *rxe.CQ
	q   *rxe.QP

	here, there netip.Addr
	now         rxe.Time
	deadline    rxe.Time // 0: none
	out         []wire.Packet
	budget      int64 // bytes that may still be sent
	wcs         []rxe.WC
}

// errBudget ends a session whose packets ask for much more data than the capture has.
var errBudget = errors.New("its packets ask for far more data than the capture holds")

const (
	// ackTimeout is the longest one, 2.4 hours: it expires only if the replay lets
	// that time pass.
	ackTimeoutCode = 31
	ackTimeout     = 4096 * time.Nanosecond << ackTimeoutCode
	// ackTimeouts is how many of them pass at most until the engine sends again: the timeout grows
	// with each retry (IBA 9.7.6.1.3).
	ackTimeouts = 4
	// paceSpan covers the pauses between pieces of READ responses.
	paceSpan  = rxe.Time(50 * time.Millisecond)
	depth     = 128
	queueSize = 4096
)

// newHost makes an engine at here with a queue pair, for a peer at there.
func newHost(typ rxe.QPType, here, there netip.Addr, budget int64) (*host, error) {
	h := &host{here: here.Unmap(), there: there.Unmap(), now: 1, budget: budget, wcs: make([]rxe.WC, 64)}
	if h.here == h.there || !h.here.IsValid() || h.here.Is4() != h.there.Is4() ||
		h.here.IsUnspecified() || h.there.IsUnspecified() || h.here.IsMulticast() {
		// A device does not send to itself through its link.
		h.here, h.there = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	}
	var err error
	h.dev, err = rxe.New(rxe.Config{Name: "replay", GUID: 1, Link: h, Clock: h, Seed: [32]byte{1}})
	if err == nil {
		err = h.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(h.here)})
	}
	if err == nil {
		err = h.dev.SetPort(rxe.PortActive, 4096)
	}
	if err == nil {
		h.pd, err = h.dev.AllocPD()
	}
	if err == nil {
		h.cq, err = h.dev.CreateCQ(rxe.CQInit{Entries: queueSize})
	}
	if err == nil {
		h.q, err = h.pd.CreateQP(rxe.QPInitAttr{Type: typ, SendCQ: h.cq, RecvCQ: h.cq, SignalAll: true,
			Cap: rxe.QPCap{MaxSendWR: queueSize, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 2}})
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return h, nil
}

// requesterType returns the type of queue pair that sends requests.
func requesterType(s wire.Service) rxe.QPType {
	switch s {
	case wire.ServiceUC:
		return rxe.QPUC
	case wire.ServiceUD:
		return rxe.QPUD
	case wire.ServiceXRC:
		return rxe.QPXRCIni
	default:
		return rxe.QPRC
	}
}

// everyRight is all access rights of a queue pair.
const everyRight = rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic |
	rxe.AccessFlushGlobal | rxe.AccessFlushPersist

// connect takes the queue pair to RTS. It chooses the attributes that a does not have.
func (h *host) connect(a rxe.QPAttr) error {
	a.PortNum, a.Access = 1, everyRight
	a.AH = rxe.AHAttr{DGID: wire.GIDFromAddr(h.there), PortNum: 1}
	a.MaxRdAtomic, a.MaxDestRdAtomic, a.MinRNRTimer = depth, depth, 1
	a.Timeout, a.RetryCnt, a.RNRRetry = ackTimeoutCode, 7, 7
	typ := h.q.Snapshot().Type
	a.State = rxe.QPReset
	if err := h.enter(&a, rxe.QPAttrState); err != nil {
		return err
	}
	for from := range rxe.QPRTS {
		a.State = from + 1
		if err := h.enter(&a, rxe.RequiredMask(typ, from, a.State)); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) enter(a *rxe.QPAttr, mask rxe.QPAttrMask) error {
	if err := h.q.Modify(a, mask); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

func (h *host) close() { _ = h.dev.Close() } // its error does not matter

// Send implements rxe.Link.
func (h *host) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		for j := range b.N() {
			raw := b.Packet(j)
			h.budget -= int64(len(raw))
			if h.budget < 0 {
				return
			}
			if p, err := wire.Parse(bytes.Clone(raw[:len(raw)-wire.ICRCLen])); err == nil {
				h.out = append(h.out, p)
			}
		}
	}
}

// Join implements rxe.Link.
func (*host) Join(wire.GID) error { return nil }

// Leave implements rxe.Link.
func (*host) Leave(wire.GID) error { return nil }

// Now implements rxe.Clock.
func (h *host) Now() rxe.Time { return h.now }

// Arm implements rxe.Clock.
func (h *host) Arm(deadline rxe.Time) { h.deadline = deadline }

// settle runs the timers that expire within d.
func (h *host) settle(d rxe.Time) error {
	end := h.now + d
	for h.deadline != 0 && h.deadline <= end && h.budget >= 0 {
		h.now = max(h.now, h.deadline)
		h.deadline = 0
		h.dev.Expire()
	}
	h.now = max(h.now, end)
	if h.budget < 0 {
		return errBudget
	}
	return nil
}

// take returns the packets sent since the last call.
func (h *host) take() []wire.Packet {
	out := h.out
	h.out = nil
	return out
}

// receive passes one packet to the engine, and lets d pass. It may change b.
func (h *host) receive(b []byte, d rxe.Time) error {
	num := h.q.Num()
	b[5], b[6], b[7] = byte(num>>16), byte(num>>8), byte(num)
	b[2], b[3] = byte(wire.DefaultPKey>>8), byte(wire.DefaultPKey&0xff)
	h.dev.Receive([]wire.Datagram{{Data: b, Src: h.there, Dst: h.here, SrcPort: 0xc000, HopLimit: 64}})
	return h.settle(d)
}

// poll returns the receives that have completed since the last call, each as the number of its SRQ
// of XRC or as 0, and the first error of a send.
func (h *host) poll() (received []uint32, failed rxe.WCStatus) {
	for {
		n, err := h.cq.Poll(h.wcs)
		if err != nil || n == 0 {
			return received, failed
		}
		for i := range h.wcs[:n] {
			switch w := &h.wcs[i]; {
			case w.ID == recvID:
				received = append(received, w.SRQN)
			case failed == rxe.WCSuccess && w.Status != rxe.WCFlushErr:
				failed = w.Status
			}
		}
	}
}

const (
	recvID = 1
	sendID = 2
)

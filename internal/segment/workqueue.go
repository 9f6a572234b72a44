package segment

import (
	"errors"
	"sync"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// WQState is the state of a work queue (enum ib_wq_state).
type WQState uint32

// The states of a work queue.
const (
	WQReset WQState = iota
	WQReady
	WQError
)

// Why a WorkQueue refuses a change.
var (
	ErrCurrentState = errors.New("is not the state of the queue")
	ErrNextState    = errors.New("does not follow the state of the queue")
)

// WorkQueue gives a queue pair of the engine, which only receives frames, the states of a work
// queue.
type WorkQueue struct {
	QP *rxe.QP

	mu    sync.Mutex // the engine's locks are taken under it
	state WQState
}

// WorkQueueInit is what the engine's queue pair of a work queue is made from. The caller adds
// its owner and its sizes.
func WorkQueueInit(cq *rxe.CQ, stripVLAN, scatterFCS bool) rxe.QPInitAttr {
	return rxe.QPInitAttr{Type: rxe.QPRaw, SendCQ: cq, RecvCQ: cq,
		Frames: &rxe.FrameInit{Port: noPort{}, StripVLAN: stripVLAN, ScatterFCS: scatterFCS}}
}

// noPort is where a work queue sends frames: nowhere, as it sends none.
type noPort struct{}

func (noPort) SendFrames(*rxe.QP, []rxe.FrameOut) {}

// Modify changes the state (ib_modify_wq). Nil: current may be any, and next is the same. reset, if
// not nil, is called when the queue is in RESET, to forget the receives.
func (w *WorkQueue) Modify(current, next *WQState, reset func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current != nil && *current != w.state {
		return ErrCurrentState
	}
	if next == nil {
		return nil
	}
	switch to := *next; {
	case to == WQReset:
		if err := w.move(rxe.QPReset, 0); err != nil {
			return err
		}
		if reset != nil {
			reset()
		}
	case to == w.state:
	case to == WQReady && w.state == WQReset:
		if err := w.move(rxe.QPInit, rxe.QPAttrPort); err != nil {
			return err
		}
		if err := w.move(rxe.QPRTR, 0); err != nil {
			return err
		}
	case to == WQError && w.state == WQReady:
		if err := w.move(rxe.QPErr, 0); err != nil {
			return err
		}
	default:
		return ErrNextState
	}
	w.state = *next
	return nil
}

func (w *WorkQueue) move(to rxe.QPState, more rxe.QPAttrMask) error {
	return w.QP.Modify(&rxe.QPAttr{State: to, PortNum: 1}, rxe.QPAttrState|more)
}

// Spread is a Receiver that spreads frames over work queues by their hash. There are as many as a
// power of two; one may have several places.
type Spread struct {
	RSS    ether.RSS
	Queues []*rxe.QP
}

// ReceiveFrame implements Receiver.
func (s *Spread) ReceiveFrame(frame []byte, info rxe.FrameInfo) {
	if s.RSS.Fields != 0 {
		f := ether.Parse(frame)
		info.Hash = s.RSS.Hash(&f)
		info.Flags |= rxe.FrameHash
	}
	s.Queues[info.Hash&uint32(len(s.Queues)-1)].ReceiveFrame(frame, info)
}

// WorkQueueEvent is what an event of the queue pair is to a program, which knows only one of work
// queues; false: nothing.
func WorkQueueEvent(typ rxe.EventType) (rxe.EventType, bool) {
	switch typ {
	case rxe.EventQPFatal, rxe.EventQPReqErr, rxe.EventQPAccessErr:
		return EventWQFatal, true
	default:
		return 0, false
	}
}

// EventWQFatal is IBV_EVENT_WQ_FATAL.
const EventWQFatal rxe.EventType = 19

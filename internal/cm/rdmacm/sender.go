package rdmacm

import (
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// sender sends the datagrams of a device's connection manager, in order, in a goroutine
// that holds no lock. A datagram to the device itself may make the goroutine run a queue
// pair whose program memory does not answer. Then another goroutine takes over.
type sender struct {
	queue   chan *outgoing
	role    *standby.Role
	dropped atomic.Uint64
}

type outgoing struct {
	to  rxe.AHAttr
	mad wire.MAD
}

const (
	// sendQueue is how many datagrams may wait. More are dropped, as any network may drop
	// them.
	sendQueue = 4096
	// maxSenders is how many goroutines one device may block.
	maxSenders = 8
	// sendCloseTimeout is how long wait waits for a blocked one.
	sendCloseTimeout = time.Second
)

func newSender(d *Device, watch *standby.Watch) *sender {
	s := &sender{queue: make(chan *outgoing, sendQueue)}
	s.role = watch.Start(maxSenders, func(w *standby.Worker) {
		for o := range s.queue {
			w.Enter()
			err := d.Mux.Send(o.to, wire.GSIQPN, &o.mad)
			if err != nil {
				d.manager.log.Debug("cannot send a message of the connection manager", "device", d.Name, "to", o.to.DGID, "error", err)
			}
			if !w.Leave() {
				return
			}
		}
	})
	return s
}

// send queues a copy of a datagram. Manager.mu is held.
func (s *sender) send(to rxe.AHAttr, mad *wire.MAD) {
	select {
	case s.queue <- &outgoing{to, *mad}:
	default:
		s.dropped.Add(1)
	}
}

// close tells the goroutine to end when the queue is empty. Nothing is sent afterwards.
func (s *sender) close() { close(s.queue) }

// wait waits until the goroutine has ended, unless it is blocked.
func (s *sender) wait() { s.role.Stop(sendCloseTimeout) }

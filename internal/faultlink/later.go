package faultlink

import (
	"container/heap"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/standby"
	"github.com/gorxe/gorxe/wire"
)

// Limits of the queue of delayed packets. To deliver a packet may block, because a program's
// memory may not answer: package engine has the same limits for its clock.
const (
	laterBytes   = 64 << 20
	deliverLimit = 20 * time.Millisecond
	maxWorkers   = 128
	laterClose   = time.Second
)

// late is a packet that goes on later: one that the device sent, or one that arrived.
type late struct {
	due   time.Time
	order uint64      // of packets that are due together
	take  func() bool // nil, or reports whether it has to go on at all
	sent  wire.Burst  // without a route: none
	came  wire.Datagram
}

func (p *late) bytes() int { return len(p.sent.Buf) + len(p.came.Data) }

// later is the queue of delayed packets of a device.
type later struct {
	send    func([]wire.Burst)
	receive func([]wire.Datagram)

	mu      sync.Mutex // below
	queue   dueHeap
	bytes   int
	order   uint64
	retired bool // takes nothing more, and ends when it is empty

	poke  chan struct{}
	stop  chan struct{} // closed by close
	done  chan struct{} // closed by the last worker
	gone  chan struct{} // closed when no goroutine is left, except blocked ones
	watch *standby.Watch
	role  *standby.Role
}

func startLater(send func([]wire.Burst), receive func([]wire.Datagram)) *later {
	q := &later{
		send: send, receive: receive, poke: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}),
	}
	q.watch = standby.NewWatch(deliverLimit)
	q.role = q.watch.Start(maxWorkers, q.run)
	go func() {
		<-q.done
		q.role.Stop(laterClose)
		q.watch.Close()
		close(q.gone)
	}()
	return q
}

// add queues a packet until it is due. It reports false if there is no room, as in a switch whose buffer is full,
// or if the queue is retired or nil.
func (q *later) add(p late) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	if q.retired || q.bytes+p.bytes() > laterBytes {
		q.mu.Unlock()
		return false
	}
	q.bytes += p.bytes()
	q.order++
	p.order = q.order
	heap.Push(&q.queue, &p)
	first := q.queue[0] == &p
	q.mu.Unlock()
	if first {
		q.wake()
	}
	return true
}

func (q *later) wake() {
	select {
	case q.poke <- struct{}{}:
	default:
	}
}

// retire makes the queue end when it is empty.
func (q *later) retire() {
	q.mu.Lock()
	q.retired = true
	q.mu.Unlock()
	q.wake()
}

// due removes the packets that are due. wait is how long the next one has time; end says that
// there will be none.
func (q *later) due(now time.Time) (list []*late, wait time.Duration, end bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 {
		p := q.queue[0]
		if wait = p.due.Sub(now); wait > 0 {
			return list, wait, false
		}
		heap.Pop(&q.queue)
		q.bytes -= p.bytes()
		list = append(list, p)
	}
	return list, time.Hour, q.retired && len(list) == 0
}

// run passes on what is due, until the queue ends, or until another worker does that.
func (q *later) run(h *standby.Worker) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		list, wait, end := q.due(time.Now())
		if end {
			close(q.done)
			return
		}
		if len(list) > 0 {
			h.Enter()
			q.deliver(list)
			if !h.Leave() {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-q.poke:
		case <-q.stop:
			close(q.done)
			return
		}
	}
}

func (q *later) deliver(list []*late) {
	var sent []wire.Burst
	var came []wire.Datagram
	for _, p := range list {
		switch {
		case p.take != nil && !p.take():
		case p.sent.Route != nil:
			sent = append(sent, p.sent)
		default:
			came = append(came, p.came)
		}
	}
	if len(sent) > 0 {
		q.send(sent)
	}
	if len(came) > 0 {
		q.receive(came)
	}
}

// close ends the queue. The packets in it are lost. A blocked delivery is waited for, but not long.
func (q *later) close() {
	close(q.stop)
	select {
	case <-q.gone:
	case <-time.After(laterClose):
	}
}

func (q *later) isGone() bool {
	select {
	case <-q.gone:
		return true
	default:
		return false
	}
}

// dueHeap is a heap: the first is due next.
type dueHeap []*late

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].order < h[j].order
	}
	return h[i].due.Before(h[j].due)
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(*late)) }
func (h *dueHeap) Pop() any {
	list := *h
	last := list[len(list)-1]
	list[len(list)-1] = nil
	*h = list[:len(list)-1]
	return last
}

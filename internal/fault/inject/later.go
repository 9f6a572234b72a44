package inject

import (
	"container/heap"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/wire"
)

// late is a packet that goes on later: one that the device sent, or one that arrived.
type late struct {
	hit   fault.Hit // whose payer pays for the packet
	due   time.Time
	order uint64      // of packets that are due together
	at    int         // in the heap
	take  func() bool // nil, or reports whether it has to go on at all
	sent  wire.Burst  // without a route: none
	came  wire.Datagram
}

// memory returns what the packet takes.
func (p *late) memory() int64 {
	n := int64(lateBytes + cap(p.sent.Buf) + cap(p.came.Data))
	if p.take != nil {
		n += heldBytes
	}
	return n
}

// payer returns whose share the packet is taken of.
func (p *late) payer() any {
	if payer := p.hit.Payer(); payer != nil {
		return payer
	}
	return p.hit.Set()
}

// later is the queue of delayed packets of a device.
type later struct {
	send    func([]wire.Burst)
	receive func([]wire.Datagram)

	mu      sync.Mutex // below
	queue   dueHeap
	bytes   int64
	shares  map[any]int64                     // of bytes, by their payers
	of      map[*fault.Set]map[*late]struct{} // by the rules' owners
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
		shares: make(map[any]int64), of: make(map[*fault.Set]map[*late]struct{}),
	}
	q.watch = standby.NewWatch(standby.CallLimit)
	q.role = q.watch.Start(standby.MaxBlocked, q.run)
	go func() {
		<-q.done
		q.role.Stop(laterClose)
		q.watch.Close()
		close(q.gone)
	}()
	return q
}

// add queues a packet until it is due. It reports false if the packet is lost: there is no room, as
// in a switch whose buffer is full, which counts in the rule's report. Or the rule has ended, or
// the queue is retired or nil.
func (q *later) add(p *late) bool {
	if q == nil {
		return false
	}
	n := p.memory()
	q.mu.Lock()
	if q.retired || p.hit.Ended() {
		q.mu.Unlock()
		return false
	}
	if q.bytes+n > laterBytes || q.shares[p.payer()]+n > laterShare || !p.hit.Take(n) {
		q.mu.Unlock()
		p.hit.NoRoom()
		return false
	}
	q.count(p, n)
	q.order++
	p.order = q.order
	heap.Push(&q.queue, p)
	first := p.at == 0
	q.mu.Unlock()
	if first {
		q.wake()
	}
	return true
}

// count notes that a packet is there, with the memory n.
func (q *later) count(p *late, n int64) {
	q.bytes += n
	q.shares[p.payer()] += n
	set := q.of[p.hit.Set()]
	if set == nil {
		set = make(map[*late]struct{})
		q.of[p.hit.Set()] = set
	}
	set[p] = struct{}{}
}

// uncount undoes count, and gives back what was paid.
func (q *later) uncount(p *late) {
	n := p.memory()
	q.bytes -= n
	if q.shares[p.payer()] -= n; q.shares[p.payer()] == 0 {
		delete(q.shares, p.payer())
	}
	set := q.of[p.hit.Set()]
	if delete(set, p); len(set) == 0 {
		delete(q.of, p.hit.Set())
	}
	p.hit.Give(n)
}

// end looks for packets whose rule has ended, by itself or with its owner. They go on at once: a
// program may have ended with the completion of a message whose acknowledgement is here, and its
// peer waits for that.
func (q *later) end(set *fault.Set) {
	if q == nil {
		return
	}
	q.mu.Lock()
	now := time.Now()
	for p := range q.of[set] {
		if p.hit.Ended() && p.due.After(now) {
			p.due = now
			heap.Fix(&q.queue, p.at)
		}
	}
	q.mu.Unlock()
	q.wake()
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
		q.uncount(p)
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
	q.clear()
	select {
	case <-q.gone:
	case <-time.After(laterClose):
	}
}

// clear loses all packets.
func (q *later) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retired = true
	for _, p := range q.queue {
		q.uncount(p)
	}
	q.queue = nil
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
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *dueHeap) Push(x any) {
	p := x.(*late)
	p.at = len(*h)
	*h = append(*h, p)
}

// Pop implements heap.Interface. The array shrinks with the heap, so that packets that have gone
// take no memory.
func (h *dueHeap) Pop() any {
	list := *h
	last := list[len(list)-1]
	list[len(list)-1] = nil
	list = list[:len(list)-1]
	if len(list) < cap(list)/heapSparse && cap(list) > heapKept {
		list = append(make(dueHeap, 0, cap(list)/2), list...)
	}
	*h = list
	return last
}

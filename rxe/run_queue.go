package rxe

import (
	"sync"
	"sync/atomic"
)

// runQueue holds the QPs that some thread has to run: those with something in their
// inbox, and those whose requester stopped for others. It belongs to the device,
// not to a thread. When the memory of one program blocks a thread, other threads
// run the other QPs.
type runQueue struct {
	count   atomic.Int32 // how many QPs, and packets to queue pair 1, wait
	mu      sync.Mutex   // a leaf lock
	filled  qpList
	resumed qpList // admitted to send to other devices (admission.go)
	yielded qpList
}

// qpList is a queue of QPs.
type qpList struct {
	qps  []*QP
	head int
}

func (l *qpList) push(q *QP) { l.qps = append(l.qps, q) }

func (l *qpList) pop() *QP {
	q := l.first()
	if q == nil {
		return nil
	}
	l.qps[l.head] = nil
	if l.head++; l.head == len(l.qps) || l.head >= qpListCut {
		n := copy(l.qps, l.qps[l.head:])
		clear(l.qps[n:])
		l.qps, l.head = l.qps[:n], 0
	}
	return q
}

func (l *qpList) empty() bool { return l.head == len(l.qps) }

func (l *qpList) first() *QP {
	if l.empty() {
		return nil
	}
	return l.qps[l.head]
}

func (rq *runQueue) add(q *QP) { rq.push(&rq.filled, q) }

func (rq *runQueue) resume(q *QP) { rq.push(&rq.resumed, q) }

func (rq *runQueue) yield(q *QP) { rq.push(&rq.yielded, q) }

func (rq *runQueue) push(l *qpList, q *QP) {
	rq.mu.Lock()
	rq.count.Add(1)
	l.push(q)
	rq.mu.Unlock()
}

func (rq *runQueue) empty() bool { return rq.count.Load() == 0 }

// next returns the next QP to run, nil if there is none, and the list it was on.
// Receivers come first.
func (rq *runQueue) next() (*QP, *qpList) {
	if rq.empty() {
		return nil, nil
	}
	rq.mu.Lock()
	defer rq.mu.Unlock()
	for _, l := range [...]*qpList{&rq.filled, &rq.resumed, &rq.yielded} {
		if q := l.pop(); q != nil {
			rq.count.Add(-1)
			return q, l
		}
	}
	return nil, nil
}

// Deliver passes on what QPs of this device have sent to each other. It is for an
// owner that has set Config.OnDeliver, and for a link that calls Loopback outside of
// Send. Several threads may call it at once. No QP may be locked.
func (d *Device) Deliver() { d.newStep().done() }

// deliver runs every inbox that was filled, those that are filled by that, and the
// requesters that stopped. No QP may be locked.
func (d *Device) deliver(st *step) {
	for n := 1; ; n++ {
		q, list := d.runQueue.next()
		st.sinceYield = 0
		if q == nil {
			st.flush()
			if d.runQueue.empty() {
				return
			}
			d.runGSI()
			continue
		}
		st.readData = readStepBytes
		filled := list == &d.runQueue.filled
		if filled && !q.collect() || !filled && !q.tryRun() {
			continue
		}
		if n%deliverRounds == 0 {
			st.now = d.cfg.Clock.Now() // other threads may add QPs as fast as this one takes them
		}
		if !filled {
			q.endVisit(st)
		}
		q.unlock(st)
		if list != &d.runQueue.resumed { // what these send is to share system calls
			st.flush()
		}
	}
}

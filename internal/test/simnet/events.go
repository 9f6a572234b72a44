package simnet

import "github.com/gorxe/gorxe/rxe"

// event is something that happens at a time: one of a call, a packet's arrival,
// a deadline (arm) or the hand-over of what a port has queued.
type event struct {
	at     rxe.Time
	seq    uint64 // breaks ties in the order of scheduling
	call   func()
	flight *flight
	port   *Port
	arm    uint64
}

// eventQueue is a binary heap. container/heap would box every event.
type eventQueue struct {
	heap []event
	seq  uint64
}

func (q *eventQueue) len() int { return len(q.heap) }

// next is the time of the first event; the queue must not be empty.
func (q *eventQueue) next() rxe.Time { return q.heap[0].at }

func (q *eventQueue) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *eventQueue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.before(i, up) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *eventQueue) pop() event {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if q.before(c, least) {
				least = c
			}
		}
		if least == i {
			return first
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

package cm

import (
	"container/heap"

	"github.com/gorxe/gorxe/rxe"
)

// connTimer is a connection's place in the heap of timers. Each connection has one
// timer at most: it waits for an answer, or for the end of timewait.
type connTimer struct {
	at    rxe.Time
	place int // in the heap, 1-based; 0: not in it
}

// timerHeap is a heap of connections, the earliest timer first.
type timerHeap []*Conn

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool { return h[i].timer.at < h[j].timer.at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer.place, h[j].timer.place = i+1, j+1
}

// Push implements heap.Interface.
func (h *timerHeap) Push(c any) {
	*h = append(*h, c.(*Conn))
	c.(*Conn).timer.place = len(*h)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	c.timer.place = 0
	return c
}

// due returns the connection of the earliest timer, if that is due, or nil.
func (h timerHeap) due(now rxe.Time) *Conn {
	if len(h) == 0 || h[0].timer.at > now {
		return nil
	}
	return h[0]
}

// setTimer sets the connection's timer, and replaces the one before.
func (c *Conn) setTimer(at rxe.Time) {
	c.timer.at = at
	if c.timer.place != 0 {
		heap.Fix(&c.m.timers, c.timer.place-1)
		return
	}
	heap.Push(&c.m.timers, c)
}

// stopTimer stops the connection's timer, if it runs.
func (c *Conn) stopTimer() {
	if c.timer.place != 0 {
		heap.Remove(&c.m.timers, c.timer.place-1)
	}
}

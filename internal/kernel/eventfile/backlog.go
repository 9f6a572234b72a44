package eventfile

import "slices"

// backlog holds the events that are not in the pipe yet, in order. Equal events of one
// object are one entry with a count, so the list is bounded by the number of objects,
// even if the program never reads. Events of the port keep their order, because the last
// one says what is true now; maxPortEvents bounds them.
type backlog struct {
	order []waitingEvent
	first uint64           // the number of order[0]; the others follow
	at    map[Event]uint64 // the numbers of objects' events
}

type waitingEvent struct {
	Event
	n uint32
}

func (b *backlog) empty() bool { return len(b.order) == 0 }

func (b *backlog) add(e Event) {
	switch {
	case e.Key == nil && len(b.order) < maxPortEvents:
		b.order = append(b.order, waitingEvent{e, 1})
	case e.Key == nil:
		for i := range slices.Backward(b.order) {
			if b.order[i].Key == nil {
				b.order[i].Event = e
				return
			}
		}
		b.order = append(b.order, waitingEvent{e, 1})
	case !b.bump(e):
		b.order = append(b.order, waitingEvent{e, 1})
		b.at[e] = b.first + uint64(len(b.order)) - 1
	}
}

func (b *backlog) addFirst(e Event) {
	if e.Key != nil && b.bump(e) {
		return
	}
	b.order = slices.Insert(b.order, 0, waitingEvent{e, 1})
	b.first--
	if e.Key != nil {
		b.at[e] = b.first
	}
}

// bump counts e and reports true if it is in the list.
func (b *backlog) bump(e Event) bool {
	if b.at == nil {
		b.at = make(map[Event]uint64)
	}
	i, ok := b.at[e]
	if ok {
		b.order[i-b.first].n++
	}
	return ok
}

// encode fills buf with the records of the first events and returns how many bytes it
// used. remove then removes as many events.
func (b *backlog) encode(buf []byte, size int) int {
	n := 0
	for i := range b.order {
		for range b.order[i].n {
			if len(buf)-n < size {
				return n
			}
			n += copy(buf[n:], b.order[i].Record[:size])
		}
	}
	return n
}

func (b *backlog) remove(n int) {
	gone := 0
	for ; n > 0; gone++ {
		w := &b.order[gone]
		if uint64(w.n) > uint64(n) {
			w.n -= uint32(n)
			break
		}
		n -= int(w.n)
		if w.Key != nil {
			delete(b.at, w.Event)
		}
	}
	b.order = slices.Delete(b.order, 0, gone)
	b.first += uint64(gone)
}

// drop removes the events about key and returns how many there were.
func (b *backlog) drop(key any) (n uint32) {
	kept := 0
	for _, w := range b.order {
		switch {
		case w.Key == key:
			n += w.n
			delete(b.at, w.Event)
			continue
		case w.Key != nil:
			b.at[w.Event] = b.first + uint64(kept)
		}
		b.order[kept] = w
		kept++
	}
	clear(b.order[kept:])
	b.order = b.order[:kept]
	return n
}

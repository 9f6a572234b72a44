package uverbs

// backlog are events that are not in the pipe yet, in order. Equal ones are
// kept once, with a count: a reader that never reads costs no more than the
// objects that it has.
type backlog struct {
	order []event
	count map[event]uint32
}

func (b *backlog) empty() bool { return len(b.order) == 0 }

func (b *backlog) add(e event) {
	if b.bump(e) {
		b.order = append(b.order, e)
	}
}

func (b *backlog) addFirst(e event) {
	if b.bump(e) {
		b.order = append(b.order, event{})
		copy(b.order[1:], b.order)
		b.order[0] = e
	}
}

// bump counts e and reports whether it is the first of its kind.
func (b *backlog) bump(e event) bool {
	if b.count == nil {
		b.count = make(map[event]uint32)
	}
	b.count[e]++
	return b.count[e] == 1
}

// encode fills buf with the records of the first events and returns the bytes
// used; remove takes as many events off.
func (b *backlog) encode(buf []byte, size int) int {
	n := 0
	for _, e := range b.order {
		for range b.count[e] {
			if len(buf)-n < size {
				return n
			}
			n += copy(buf[n:], e.record[:size])
		}
	}
	return n
}

func (b *backlog) remove(n int) {
	gone := 0
	for ; n > 0; gone++ {
		e := b.order[gone]
		if c := b.count[e]; uint64(c) > uint64(n) {
			b.count[e] = c - uint32(n)
			break
		} else {
			n -= int(c)
			delete(b.count, e)
		}
	}
	keep := append(b.order[:0], b.order[gone:]...)
	clear(b.order[len(keep):])
	b.order = keep
}

// drop takes off the events about key and returns how many they were.
func (b *backlog) drop(key any) (n uint32) {
	keep := b.order[:0]
	for _, e := range b.order {
		if e.key == key {
			n += b.count[e]
			delete(b.count, e)
		} else {
			keep = append(keep, e)
		}
	}
	clear(b.order[len(keep):])
	b.order = keep
	return n
}

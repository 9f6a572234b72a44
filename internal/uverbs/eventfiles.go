package uverbs

import "sync"

// eventFileTable are the event files of one open: completion channels and
// asynchronous event descriptors. The program names them by descriptor, so they
// are found by what fstat says of it.
type eventFileTable struct {
	mu       sync.Mutex // a leaf lock but for the event files'
	channels []*channel
	asyncs   []*asyncFD
	first    *asyncFD // the one of objects that name none; it stays that
	calls    pipeCalls
	closed   bool
}

// addChannel takes a channel in, and forgets those that the program has closed.
// It reports whether the table is still open.
func (t *eventFileTable) addChannel(ch *channel) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	keep := t.channels[:0]
	for _, old := range t.channels {
		if old.gone() {
			old.close()
		} else {
			keep = append(keep, old)
		}
	}
	clear(t.channels[len(keep):])
	ch.share(&t.calls)
	t.channels = append(keep, ch)
	return true
}

func (t *eventFileTable) addAsync(a *asyncFD) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	keep := t.asyncs[:0]
	for _, old := range t.asyncs {
		if old.gone() {
			old.close()
		} else {
			keep = append(keep, old)
		}
	}
	clear(t.asyncs[len(keep):])
	a.share(&t.calls)
	t.asyncs = append(keep, a)
	if t.first == nil {
		t.first = a
	}
	return true
}

// find finds an event file of a type; nil when the descriptor is something else.
func (t *eventFileTable) find(id FileID, typ objectType) *eventFiles {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ == objCompChannel {
		for _, ch := range t.channels {
			if ch.id() == id {
				return &eventFiles{channel: ch}
			}
		}
		return nil
	}
	for _, a := range t.asyncs {
		if a.id() == id {
			return &eventFiles{async: a}
		}
	}
	return nil
}

// defaultAsync is where events of objects go that name no descriptor; nil when
// the program made none.
func (t *eventFileTable) defaultAsync() *asyncFD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// broadcast sends an event of the port or the device to every asynchronous
// event descriptor, without a lock: the write to a pipe may have to wait.
func (t *eventFileTable) broadcast(element uint64, eventType uint32) {
	t.mu.Lock()
	asyncs := append([]*asyncFD(nil), t.asyncs...)
	t.mu.Unlock()
	for _, a := range asyncs {
		a.push(element, eventType, nil)
	}
}

func (t *eventFileTable) counts() (channels, asyncs int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.channels), len(t.asyncs)
}

func (t *eventFileTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, ch := range t.channels {
		ch.close()
	}
	for _, a := range t.asyncs {
		a.close()
	}
	t.channels, t.asyncs = nil, nil
}

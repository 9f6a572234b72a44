package uverbs

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// eventFileTable holds the event files of one open: completion channels and asynchronous
// event descriptors. The program names them by descriptor. The table finds them by what
// fstat says of the descriptor.
type eventFileTable struct {
	mu       sync.Mutex // a leaf lock, except for the locks of event files
	channels eventfile.List[*channel]
	asyncs   eventfile.List[*asyncFD]
	first    *asyncFD // for objects that name none; it never changes
	closed   bool
}

// addChannel adds a channel; EIO if the file has ended.
func (t *eventFileTable) addChannel(ch *channel, b *quota.Budget) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unix.EIO
	}
	return t.channels.Add(ch, b)
}

func (t *eventFileTable) addAsync(a *asyncFD, b *quota.Budget) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unix.EIO
	}
	if err := t.asyncs.Add(a, b); err != nil {
		return err
	}
	if t.first == nil {
		t.first = a
	}
	return nil
}

// withdrawChannel undoes addChannel, because the program did not get it.
func (t *eventFileTable) withdrawChannel(ch *channel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.channels.Remove(ch)
}

func (t *eventFileTable) withdrawAsync(a *asyncFD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asyncs.Remove(a)
	if t.first == a {
		t.first = nil
	}
}

// dropGone closes the event files that the program has closed.
func (t *eventFileTable) dropGone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.channels.DropGone()
	t.asyncs.DropGone()
}

// Find returns the event file of a type, or nil if the descriptor is something else.
func (t *eventFileTable) find(id fdid.ID, typ uapi.ObjectType) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ == uapi.ObjCompChannel {
		if ch, ok := t.channels.Find(id); ok {
			return ch
		}
		return nil
	}
	if a, ok := t.asyncs.Find(id); ok {
		return a
	}
	return nil
}

// defaultAsync returns the descriptor for objects that name none, or nil if the program
// has not made any.
func (t *eventFileTable) defaultAsync() *asyncFD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// broadcast sends an event of the port to every asynchronous event descriptor. tell does
// so before it returns, and may block as long as the program likes.
func (t *eventFileTable) broadcast(element uint64, eventType uint32) {
	for _, a := range t.allAsyncs() {
		a.push(element, eventType, nil)
	}
}

func (t *eventFileTable) tell(element uint64, eventType uint32) {
	for _, a := range t.allAsyncs() {
		a.tell(element, eventType)
	}
}

func (t *eventFileTable) allAsyncs() []*asyncFD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asyncs.All()
}

func (t *eventFileTable) counts() (channels, asyncs int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.channels.Len(), t.asyncs.Len()
}

func (t *eventFileTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.channels.Close()
	t.asyncs.Close()
}

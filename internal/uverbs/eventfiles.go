package uverbs

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// eventFileTable are the event files of one open: completion channels and
// asynchronous event descriptors. The program names them by descriptor, so they
// are found by what fstat says of it.
type eventFileTable struct {
	mu       sync.Mutex // a leaf lock but for the event files'
	channels eventFileList[*channel]
	asyncs   eventFileList[*asyncFD]
	first    *asyncFD // the one of objects that name none; it stays that
	closed   bool
}

// eventFileList are the event files of one kind. Those that the program has
// closed are found now and then, when there are many.
type eventFileList[T eventFile] struct {
	files  []T
	lookAt int // how many are to be looked through
}

type eventFile interface {
	id() fdid.ID
	gone() bool
	close()
}

const (
	fewEventFiles = 16
	maxEventFiles = 4096 // of one kind, for one open: each is a descriptor of the daemon's
)

// add takes a file in. EMFILE when there are too many.
func (l *eventFileList[T]) add(f T) error {
	if len(l.files) >= max(l.lookAt, fewEventFiles) {
		l.dropGone()
	}
	if len(l.files) >= maxEventFiles {
		return unix.EMFILE
	}
	l.files = append(l.files, f)
	return nil
}

func (l *eventFileList[T]) dropGone() {
	keep := l.files[:0]
	for _, f := range l.files {
		if f.gone() {
			f.close()
		} else {
			keep = append(keep, f)
		}
	}
	clear(l.files[len(keep):])
	l.files, l.lookAt = keep, min(2*len(keep), maxEventFiles)
}

func (l *eventFileList[T]) find(id fdid.ID) (f T, ok bool) {
	for _, f := range l.files {
		if f.id() == id {
			return f, true
		}
	}
	return f, false
}

func (l *eventFileList[T]) close() {
	for _, f := range l.files {
		f.close()
	}
	l.files = nil
}

// addChannel takes a channel in. EIO when the file goes away.
func (t *eventFileTable) addChannel(ch *channel) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unix.EIO
	}
	return t.channels.add(ch)
}

func (t *eventFileTable) addAsync(a *asyncFD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unix.EIO
	}
	if err := t.asyncs.add(a); err != nil {
		return err
	}
	if t.first == nil {
		t.first = a
	}
	return nil
}

// neverMind takes back that a is the first: the program did not get it.
func (t *eventFileTable) neverMind(a *asyncFD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == a {
		t.first = nil
	}
}

// find finds an event file of a type; nil when the descriptor is something else.
func (t *eventFileTable) find(id fdid.ID, typ uapi.ObjectType) *eventFiles {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ == uapi.ObjCompChannel {
		if ch, ok := t.channels.find(id); ok {
			return &eventFiles{channel: ch}
		}
		return nil
	}
	if a, ok := t.asyncs.find(id); ok {
		return &eventFiles{async: a}
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

// broadcast sends an event of the port to every asynchronous event descriptor;
// tell does so before it returns, which may take as long as the program likes.
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
	return append([]*asyncFD(nil), t.asyncs.files...)
}

func (t *eventFileTable) counts() (channels, asyncs int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.channels.files), len(t.asyncs.files)
}

func (t *eventFileTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.channels.close()
	t.asyncs.close()
}

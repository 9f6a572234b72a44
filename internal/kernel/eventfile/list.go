package eventfile

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
)

// List are the event files of one kind. Those that the program has
// closed are found now and then, when there are many.
type List[T File] struct {
	files  []T
	lookAt int // how many are to be looked through
}

type File interface {
	ID() fdid.ID
	ReaderGone() bool
	Close()
}

const (
	fewEventFiles = 16
	maxEventFiles = 4096 // of one kind, for one open: each is a descriptor of the daemon's
)

// Add takes a file in. EMFILE when there are too many.
func (l *List[T]) Add(f T) error {
	if len(l.files) >= max(l.lookAt, fewEventFiles) {
		l.dropGone()
	}
	if len(l.files) >= maxEventFiles {
		return unix.EMFILE
	}
	l.files = append(l.files, f)
	return nil
}

func (l *List[T]) dropGone() {
	keep := l.files[:0]
	for _, f := range l.files {
		if f.ReaderGone() {
			f.Close()
		} else {
			keep = append(keep, f)
		}
	}
	clear(l.files[len(keep):])
	l.files, l.lookAt = keep, min(2*len(keep), maxEventFiles)
}

func (l *List[T]) Find(id fdid.ID) (f T, ok bool) {
	for _, f := range l.files {
		if f.ID() == id {
			return f, true
		}
	}
	return f, false
}

func (l *List[T]) Close() {
	for _, f := range l.files {
		f.Close()
	}
	l.files = nil
}

// All returns the files of the list.
func (l *List[T]) All() []T { return slices.Clone(l.files) }

func (l *List[T]) Len() int { return len(l.files) }

package eventfile

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// List holds the event files of one kind that one open has made. It drops those that the
// program has closed when it grows, and when the budget has nothing left (DropGone).
type List[T File] struct {
	files  []T
	dropAt int    // the length at which closed files are dropped
	gone   *goner // nil: the list never was long
	sweeps uint64 // for tests
}

type File interface {
	comparable
	ID() fdid.ID
	Poll() int // the writing end, for poll(2)
	ReaderGone() bool
	Close()
}

// Add appends a file; EMFILE if there are too many. The budget pays for what the list itself takes.
func (l *List[T]) Add(f T, budget *quota.Budget) error {
	if len(l.files) >= max(l.dropAt, fewEventFiles) {
		l.DropGone()
	}
	if len(l.files) >= maxEventFiles {
		return unix.EMFILE
	}
	l.files = append(l.files, f)
	switch {
	case l.gone != nil:
		l.gone.watch(f.Poll())
	case len(l.files) > fewToSweep:
		l.gone = newGoner(budget)
		for _, f := range l.files {
			l.gone.watch(f.Poll())
		}
	}
	return nil
}

// DropGone closes the files that the program has closed. A look that finds none is cheap, because a
// program that is refused again and again has thousands.
func (l *List[T]) DropGone() {
	if l.gone == nil || l.gone.any() {
		l.sweep()
	}
}

func (l *List[T]) sweep() {
	l.sweeps++
	fds := make([]unix.PollFd, len(l.files))
	for i, f := range l.files {
		fds[i].Fd = int32(f.Poll())
	}
	_, err := unix.Poll(fds, 0)
	keep := l.files[:0]
	for i, f := range l.files {
		// A file that is closed already may have given its number to another one.
		if (err != nil || fds[i].Revents != 0) && f.ReaderGone() {
			f.Close()
		} else {
			keep = append(keep, f)
		}
	}
	clear(l.files[len(keep):])
	l.files, l.dropAt = keep, min(2*len(keep), maxEventFiles)
}

// Remove takes a file out that the caller closes.
func (l *List[T]) Remove(f T) {
	for i, o := range slices.Backward(l.files) {
		if o == f {
			l.files = slices.Delete(l.files, i, i+1)
			return
		}
	}
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
	l.gone.close()
	l.gone = nil
}

// All returns the files of the list.
func (l *List[T]) All() []T { return slices.Clone(l.files) }

func (l *List[T]) Len() int { return len(l.files) }

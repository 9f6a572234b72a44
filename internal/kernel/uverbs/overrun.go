package uverbs

import "sync/atomic"

// overrun remembers that a program's completion queue was overrun (cqRing.settle).
type overrun struct {
	seen atomic.Bool
	tell func() // nil: nobody wants to know
}

// Overrun reports whether the program's librxe moved the consumer's index of a
// completion queue past the producer's. Every librxe before rdma-core 55 does that when
// ibv_next_poll returns ENOENT.
func (f *File) Overrun() bool { return f.overrun.seen.Load() }

// OnOverrun has tell called, in a goroutine of its own, when Overrun becomes true. It
// comes before the program's first call.
func (f *File) OnOverrun(tell func()) { f.overrun.tell = tell }

// overran is cqRing.overrun.
func (f *File) overran() {
	if !f.overrun.seen.Load() && !f.overrun.seen.Swap(true) && f.overrun.tell != nil {
		go f.overrun.tell()
	}
}

package eventfile

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

// TestFruitlessLooks: a look that finds nothing closed does not go through the files of a long
// list, however often a program is refused. One that finds something does once, and finds all.
func TestFruitlessLooks(t *testing.T) {
	b := quota.New(quota.Cost{})
	var l List[*Pipe]
	for range 3 * fewToSweep {
		p := must.Get[*Pipe](t)(NewPipe(8, b))
		if err := l.Add(p, b); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want uint64) {
		t.Helper()
		before := l.sweeps
		l.DropGone()
		if got := l.sweeps - before; got != want {
			t.Fatalf("%d looks at all files, want %d", got, want)
		}
	}
	for range 1000 {
		look(0)
	}
	// As many as one call of epoll_wait reports, and more.
	closed := 0
	for _, n := range []int{1, fewToSweep, 2*fewToSweep - 1} {
		for _, p := range l.All()[:n] {
			p.HandedOver() // nobody has the other end
		}
		closed += n
		look(1)
		look(0)
		if got := l.Len(); got != 3*fewToSweep-closed {
			t.Fatalf("%d files are left after %d were closed", got, closed)
		}
	}
	l.Close()
	quotatest.WantGiven(t, b)
}

// TestReopenedIsGone: a file that the program closes while this process has a reading end of its
// own is found when that is closed.
func TestReopenedIsGone(t *testing.T) {
	b := quota.New(quota.Cost{})
	var l List[*Pipe]
	for range 2 * fewToSweep {
		if err := l.Add(must.Get[*Pipe](t)(NewPipe(8, b)), b); err != nil {
			t.Fatal(err)
		}
	}
	defer l.Close()
	p := l.All()[7]
	r := must.Get[int](t)(reopen(p.w))
	p.HandedOver()
	l.DropGone()
	if n := l.Len(); n != 2*fewToSweep {
		t.Fatalf("%d files, with a reading end open", n)
	}
	if err := unix.Close(r); err != nil {
		t.Fatal(err)
	}
	l.DropGone()
	if n := l.Len(); n != 2*fewToSweep-1 {
		t.Fatalf("%d files after the last close of one", n)
	}
}

// TestRemove: a file that the program did not get leaves the list, and is no channel too many.
func TestRemove(t *testing.T) {
	b := quota.New(quota.Cost{})
	var l List[*Pipe]
	defer l.Close()
	for range 2 * fewToSweep {
		p := must.Get[*Pipe](t)(NewPipe(8, b))
		if err := l.Add(p, b); err != nil {
			t.Fatal(err)
		}
		l.Remove(p)
		p.Close()
		if n := l.Len(); n != 0 {
			t.Fatalf("%d files in the list", n)
		}
	}
}

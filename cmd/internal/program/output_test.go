package program

import (
	"bytes"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// slow takes nothing until the time for what a program has left is over.
type slow struct {
	t     *testing.T
	s     *stream
	taken bytes.Buffer
}

func (w *slow) Write(p []byte) (int, error) {
	if w.taken.Len() == 0 {
		must.Eventually(w.t, "the program has ended", func() bool { return w.s.limit.Load() != 0 })
		past := time.Now().Add(-time.Second)
		w.s.limit.Store(past.UnixNano())
		if err := w.s.r.SetReadDeadline(past); err != nil {
			return 0, err
		}
	}
	return w.taken.Write(p)
}

// TestSlowOutput: what a program wrote before its end is passed on, however late that is.
func TestSlowOutput(t *testing.T) {
	to := &slow{t: t}
	s, err := newStream(to)
	if err != nil {
		t.Fatal(err)
	}
	to.s = s
	program := func() *os.File {
		fd, err := unix.Dup(int(s.w.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "program")
	}()
	o := output{s}
	o.begin()
	if _, err := program.Write(make([]byte, 60000)); err != nil {
		t.Fatal(err)
	}
	program.Close()
	if o.end(); to.taken.Len() != 60000 {
		t.Errorf("%d bytes of 60000 were passed on", to.taken.Len())
	}
}

// TestLeftOutput: a process that a program has left, and that keeps its output open, is not waited
// for.
func TestLeftOutput(t *testing.T) {
	var taken bytes.Buffer
	s, err := newStream(&taken)
	if err != nil {
		t.Fatal(err)
	}
	left, err := unix.Dup(int(s.w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(left)
	o := output{s}
	o.begin()
	if _, err := unix.Write(left, []byte("last words")); err != nil {
		t.Fatal(err)
	}
	if o.end(); taken.String() != "last words" {
		t.Errorf("passed on: %q", &taken)
	}
}

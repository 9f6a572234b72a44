package eventfile

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestTake: with one byte for each record, poll says whether there are any. The program
// does not read a record that was taken. Records that found no room move up.
func TestTake(t *testing.T) {
	p := must.Get[*Pipe](t)(NewPipe(1, quota.New(quota.Cost{})))
	defer p.Close()
	fd := reader(t, p)
	readable := func() bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n == 1 && err == nil
	}
	if p.Take() || readable() {
		t.Fatal("an empty pipe gives a record")
	}
	const records = 5000 // more than the pipe holds
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	for range records {
		p.Send(Event{Key: p})
	}
	for i := range records {
		if !readable() {
			t.Fatalf("%d of %d records taken, and poll finds none", i, records)
		}
		if !p.Take() {
			t.Fatalf("%d of %d records taken, and none is left", i, records)
		}
	}
	if p.Take() || readable() {
		t.Error("a record too many")
	}
	fds := []unix.PollFd{{Fd: int32(p.Poll())}}
	if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
		t.Errorf("the writing end reports %#x (%v) while the program reads", fds[0].Revents, err)
	}
	if err := unix.Close(must.Get[int](t)(unix.Dup(fd))); err != nil {
		t.Fatal(err)
	}
	if p.ReaderGone() {
		t.Error("gone with a duplicate")
	}
}

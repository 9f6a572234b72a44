package doorbell

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestRouse: Rouse ends Wait, in which the receiver of doorbells may already be when another
// thread puts a device on the list.
func TestRouse(t *testing.T) {
	var w Watch
	if !w.make() {
		t.Skip("no inotify here")
	}
	defer unix.Close(w.notify)
	defer unix.Close(w.wake)
	for _, inClass := range []bool{false, true, false} {
		w.Rouse()
		if n := events(t, &w); n != 1 {
			t.Fatalf("Wait would not return: poll of inotify is %d", n)
		}
		w.Wait(0, inClass)
		if w.Pending() != 0 {
			t.Error("a device is on the list")
		}
	}
}

// events returns what poll says of inotify: 1 if it has something to report, and 0 if not.
func events(t *testing.T, w *Watch) int {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.notify), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

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
	for range 2 {
		w.Rouse()
		fds := []unix.PollFd{{Fd: int32(w.notify), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n != 1 || err != nil {
			t.Fatalf("Wait would not return: poll of inotify is %d, %v", n, err)
		}
		w.Wait(0)
		if w.Pending() != 0 {
			t.Error("a device is on the list")
		}
	}
}

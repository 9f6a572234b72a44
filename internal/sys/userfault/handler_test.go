package userfault

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestBlockingFile: the program has a descriptor of the same file, and can make it one that blocks.
// Neither Next nor Await depends on that.
func TestBlockingFile(t *testing.T) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	h := must.Get[*Handler](t)(New(int(fd)))
	defer h.Close()
	must.OK(t, unix.SetNonblock(int(fd), false))
	next := make(chan bool, 1)
	go func() {
		_, _, ok := h.Next()
		next <- ok
	}()
	select {
	case ok := <-next:
		if ok {
			t.Error("an access waits")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Next waits")
	}
	const d = 20 * time.Millisecond
	awaits := 0
	for start := time.Now(); time.Since(start) < 10*d; awaits++ {
		if h.Await(d) {
			t.Error("an access waits")
		}
	}
	if awaits > 100 { // 10, and some that a signal ended
		t.Errorf("%d times %v took %v", awaits, d, 10*d)
	}
}

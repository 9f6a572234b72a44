package fallback

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/test/must"
)

// ownPipe returns a pidfd of this process, and both ends of a pipe of it.
func ownPipe(t *testing.T) (self int, ends [2]int) {
	t.Helper()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		err = unix.Pipe2(ends[:], unix.O_CLOEXEC)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range []int{self, ends[0], ends[1]} {
			unix.Close(fd)
		}
	})
	return self, ends
}

// TestJam: a doorbell fails in the end, and jam calls rung after each one that succeeds.
func TestJam(t *testing.T) {
	self, ends := ownPipe(t)
	program, err := unix.Open(procfs.SelfFD(ends[1]), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(program)

	// doorbells that succeeded or are in progress, those before rung, calls of rung
	var done, seen, rounds atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	if !jam(self, program, func() { seen.Store(done.Load()); rounds.Add(1) }) {
		t.Fatal("the pipe is not recognized")
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				done.Add(1)
				if _, err := unix.Write(program, []byte{0}); err != nil {
					done.Add(-1)
					if err != unix.EAGAIN {
						t.Errorf("a doorbell: %v", err)
						return
					}
				}
				time.Sleep(jamTime / 50)
			}
		}
	}()
	for start := time.Now(); rounds.Load() < jamRounds; time.Sleep(jamTime) {
		if time.Since(start) > must.Limit {
			t.Fatalf("%d calls of rung, want %d", rounds.Load(), jamRounds)
		}
	}
	close(stop)
	<-ended
	if done.Load() == 0 {
		t.Error("no doorbell found room, so this test shows nothing")
	}
	if seen.Load() < done.Load() {
		t.Errorf("%d doorbells succeeded, and rung was called after %d", done.Load(), seen.Load())
	}
	if _, err := unix.Write(program, []byte{0}); err != unix.EAGAIN {
		t.Errorf("a doorbell in the end: %v, want EAGAIN", err)
	}
}

// TestJamOtherPipes: a pipe that is not open for both is the program's own.
func TestJamOtherPipes(t *testing.T) {
	self, ends := ownPipe(t)
	for _, fd := range ends {
		if jam(self, fd, func() {}) {
			t.Errorf("descriptor %d was taken for a device's", fd)
		}
	}
	if _, err := unix.Write(ends[1], []byte{0}); err != nil {
		t.Errorf("the pipe: %v", err)
	}
}

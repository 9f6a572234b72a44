package sched

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPauseBriefly: a pause lasts as long as it should, unless a signal comes.
func TestPauseBriefly(t *testing.T) {
	const pause = 200 * time.Microsecond
	for range 1000 {
		begin := time.Now()
		PauseBriefly(pause)
		if time.Since(begin) >= pause {
			return
		}
	}
	t.Error("each of 1000 pauses was too short")
}

// TestAwaitBriefly: the wait ends with data, with a signal, and otherwise soon.
func TestAwaitBriefly(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])

	// Go's runtime sends signals too, so some waits may be shorter.
	for deadline := time.Now().Add(10 * time.Second); ; {
		begin := time.Now()
		interrupted := AwaitBriefly(fds[0])
		if took := time.Since(begin); !interrupted && took >= Briefly {
			break
		} else if !interrupted {
			t.Fatalf("nothing came, and the wait took %v", took)
		}
		if time.Now().After(deadline) {
			t.Fatal("each wait was interrupted")
		}
	}

	// Without the signals of the runtime, garbage collection would wait for the end of each wait.
	var interrupted, stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for !stop.Load() {
			if AwaitBriefly(fds[0]) {
				interrupted.Store(true)
			}
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); !interrupted.Load() && time.Now().Before(deadline); {
		runtime.GC()
	}
	stop.Store(true)
	<-done
	if !interrupted.Load() {
		t.Error("garbage collection did not interrupt the wait")
	}

	if _, err := unix.Write(fds[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 100 {
		AwaitBriefly(fds[0])
	}
	if took := time.Since(begin); took >= 100*Briefly {
		t.Errorf("100 waits for what is there took %v", took)
	}
}

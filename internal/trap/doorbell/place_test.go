package doorbell

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// twoProcessors locks the test to its thread, which ends with it, and returns the processors that the thread may use.
func twoProcessors(t *testing.T) unix.CPUSet {
	t.Helper()
	runtime.LockOSThread()
	all := allowed(t)
	if all.Count() < 2 {
		t.Skip("it needs two processors")
	}
	return all
}

// allowed returns the processors that the calling thread may use.
func allowed(t *testing.T) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// startLoop starts a program that polls. It ends with the test, or before.
func startLoop(t *testing.T) *exec.Cmd {
	t.Helper()
	loop := exec.Command("sh", "-c", "while :; do :; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = loop.Process.Kill()
		_ = loop.Wait() // it was killed
	})
	return loop
}

// TestPlace: the thread is bound to the processor of a program that runs, is free again when that
// sleeps, and is given back as it was.
func TestPlace(t *testing.T) {
	all := twoProcessors(t)
	loop := startLoop(t)
	var p Place
	follow := func(tgid, want int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			p.next = 0
			p.Follow(tgid, false)
			if set := allowed(t); set.Count() == want {
				return
			}
			if time.Now().After(deadline) {
				set := allowed(t)
				t.Fatalf("the thread may use %d processors, want %d", set.Count(), want)
			}
		}
	}
	follow(loop.Process.Pid, 1)
	if err := loop.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	follow(loop.Process.Pid, all.Count())
	if err := loop.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	follow(loop.Process.Pid, 1)
	p.Leave()
	if allowed(t) != all {
		t.Error("the thread was not given back as it was")
	}
	follow(loop.Process.Pid, 1)
	_ = loop.Process.Kill()
	_ = loop.Wait() // it was killed
	follow(loop.Process.Pid, all.Count())
}

// TestPlaceSeldom: while the answer stays the same, the program's threads are looked at less and less
// often.
func TestPlaceSeldom(t *testing.T) {
	runtime.LockOSThread()
	var p Place
	at := int64(0)
	for range 20 {
		p.next = 0
		p.Follow(1<<30, false) // not there
		if p.between < at || p.between > placeSeldom {
			t.Fatalf("%d ns until the next look, and %d before", p.between, at)
		}
		at = p.between
	}
	if at != placeSeldom {
		t.Errorf("%d ns until the next look, want %d", at, placeSeldom)
	}
	p.Follow(os.Getpid(), false)
	if p.between != at {
		t.Error("it looked too early")
	}
}

// TestAside: a thread that asks for it is aside, if no more threads are ready than there are processors. It
// stays there as long as it does not wait for its processor.
func TestAside(t *testing.T) {
	all := twoProcessors(t)
	loop := startLoop(t)
	ready, delay := all.Count(), int64(0)
	p := Place{Load: &Load{
		Ready: func() (int, bool) { return ready, true },
		Delay: func() (int64, bool) { return delay, true },
	}}
	follow := func(aside, want bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			p.next = 0
			p.Follow(loop.Process.Pid, aside)
			if p.at != 0 && p.Aside() == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the thread is aside: %t, want %t", p.Aside(), want)
			}
		}
		set, n := allowed(t), 1
		if want {
			n = all.Count() - 1
		}
		if set.Count() != n || set.IsSet(p.at-1) == want {
			t.Errorf("aside is %t, and the thread may use %d processors", want, set.Count())
		}
	}
	follow(false, false)
	follow(true, true)
	delay += int64(time.Hour)
	p.next = 0
	p.Follow(loop.Process.Pid, true)
	if p.Aside() {
		t.Error("a thread that waits for its processor is aside")
	}
	follow(true, true)
	ready++ // a thread that is aside is not among those that wait
	follow(true, true)
	follow(false, false)
	follow(true, false)
	ready--
	follow(true, true)
	p.Leave()
	if p.Aside() {
		t.Error("a thread that has left is aside")
	}
	p.Load = nil
	follow(true, false)
}

// TestAvoid: the thread keeps off the processor of a program that runs. It does not count as one that waits for
// the thread. It may run anywhere when the program sleeps.
func TestAvoid(t *testing.T) {
	all := twoProcessors(t)
	loop := startLoop(t)
	var polled unix.CPUSet
	p := Place{Polling: NewPolling(func(cpus unix.CPUSet) { polled = cpus })}
	try := func(what string, call func(tgid int), done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			p.next = 0
			if call(loop.Process.Pid); done() {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the thread is not %s: it may use %d processors, and the program's is %d", what, allowedCount(t), p.at-1)
			}
		}
	}
	isOff := func() bool {
		set := allowed(t)
		return p.at != 0 && !set.IsSet(p.at-1) && set.Count() == all.Count()-1 && polled.Count() == 0
	}
	follow := func(tgid int) { p.Follow(tgid, false) }
	try("off the program's processor", p.Avoid, isOff)
	if p.Aside() {
		t.Error("the thread would look without a break")
	}
	try("on the program's processor", follow, func() bool {
		set := allowed(t)
		return p.at != 0 && set.Count() == 1 && set.IsSet(p.at-1) && polled == set
	})
	try("off again", p.Avoid, isOff)
	if err := loop.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	try("free", p.Avoid, func() bool { return p.at == 0 && allowed(t) == all })
	if err := loop.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	try("off once more", p.Avoid, isOff)
	if p.Leave(); allowed(t) != all {
		t.Error("the thread was not given back as it was")
	}
}

func allowedCount(t *testing.T) int {
	set := allowed(t)
	return set.Count()
}

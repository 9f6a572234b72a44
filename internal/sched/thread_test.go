package sched

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lock locks the test to its thread, which ends with it.
func lock(t *testing.T) (policy func() uint32) {
	t.Helper()
	runtime.LockOSThread()
	return func() uint32 {
		t.Helper()
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return a.Policy
	}
}

// classOf returns a class that any process may join. Its threads never wait for a processor.
func classOf(most int32) *Class {
	return &Class{
		most: most, attr: &unix.SchedAttr{Policy: unix.SCHED_BATCH},
		waited: func() time.Duration { return 0 },
	}
}

// TestFollows: a thread that takes doorbells is in the class while one that waits for packets has
// begun, even if there is no room for that one. Or it wants the class by itself.
func TestFollows(t *testing.T) {
	policy := lock(t)
	c := classOf(1)
	follower, leader := Thread{Class: c}, Thread{Class: c, Packets: true}
	in := func(want bool) {
		t.Helper()
		follower.UpdateClass(follower.WithPackets())
		if got := policy() == unix.SCHED_BATCH; got != want {
			t.Errorf("the follower is in the class: %v, want %v", got, want)
		}
	}
	for range 2 {
		in(false)
		c.take()
		leader.UpdateClass(true)
		c.used.Add(-1)
		in(true)
		leader.End()
		leader.End()
		in(false)
	}
	if follower.UpdateClass(true); policy() != unix.SCHED_BATCH {
		t.Error("a thread that wants the class by itself is not in it")
	}
	in(false)
	leader.UpdateClass(true)
	leader.End()
	follower.End()
	if n := c.packets.Load(); n != 0 || c.used.Load() != 0 {
		t.Errorf("%d threads lead, %d are in the class", n, c.used.Load())
	}
}

// TestRoom: there is room for so many threads and no more, whether or not they have the right.
func TestRoom(t *testing.T) {
	policy := lock(t)
	c := classOf(1)
	if !c.take() || c.take() {
		t.Error("there is not room for one thread")
	}
	full := Thread{Class: c}
	full.UpdateClass(true)
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 1 {
		t.Errorf("a thread joined a full class: %d threads", c.used.Load())
	}
	full.End()
	var none Thread
	none.UpdateClass(true)
	none.End()
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 1 {
		t.Error("a thread without a class joined one")
	}
}

// TestRights: a thread with the right joins the real-time class. One without it stays as it is,
// takes no room, and does not try again.
func TestRights(t *testing.T) {
	policy := lock(t)
	c := &Class{most: 1}
	th := Thread{Class: c}
	if Permitted() == nil {
		th.UpdateClass(true)
		if policy() != unix.SCHED_FIFO || c.used.Load() != 1 {
			t.Errorf("with the right the policy is %d, with %d threads in the class", policy(), c.used.Load())
		}
		th.End()
	}
	dropRights(t)
	if _, err := c.join(); err == nil {
		t.Fatal("the right is still there")
	}
	th.UpdateClass(true)
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 0 || th.turn.state != refused {
		t.Errorf("the policy is %d, with %d threads in the class", policy(), c.used.Load())
	}
	th.End()
}

// dropRights gives up the right to the class: CAP_SYS_NICE in all threads, and the limit of
// priorities.
func dropRights(t *testing.T) {
	t.Helper()
	const limit = unix.RLIMIT_RTPRIO
	var before unix.Rlimit
	if err := unix.Getrlimit(limit, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(limit, &unix.Rlimit{Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(limit, &before); err != nil {
			t.Error(err)
		}
	})
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	data[unix.CAP_SYS_NICE/32].Effective &^= 1 << (unix.CAP_SYS_NICE % 32)
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
}

// TestProcessorTime: the clock runs while the thread does, and not while it sleeps.
func TestProcessorTime(t *testing.T) {
	lock(t)
	before := processorTime()
	for begin := Now(); processorTime() == before; {
		if Now()-begin > 10*time.Second {
			t.Fatal("the clock stands")
		}
	}
	before = processorTime()
	time.Sleep(100 * time.Millisecond)
	if took := processorTime() - before; took > 50*time.Millisecond {
		t.Errorf("a thread that slept for 100 ms took %v", took)
	}
}

// BenchmarkUpdateClass is what the class costs between two pieces of work.
func BenchmarkUpdateClass(b *testing.B) {
	runtime.LockOSThread()
	th := Thread{Class: &Class{most: 1}}
	defer th.End()
	for b.Loop() {
		th.UpdateClass(true)
	}
}

// TestDelay: the time that a thread waits for a processor grows beside a rival, and does not become
// less.
func TestDelay(t *testing.T) {
	lock(t)
	last, ok := Delay()
	if !ok {
		t.Skip("this kernel does not count delays")
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	bind := func() {
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
		}
	}
	var stop atomic.Bool
	defer stop.Store(true)
	bind()
	go func() {
		lock(t)
		bind()
		for !stop.Load() {
		}
	}()
	for deadline, first := time.Now().Add(10*time.Second), last; last <= first+int64(time.Millisecond); {
		ns, ok := Delay()
		if !ok || ns < last {
			t.Fatalf("the thread has waited for %d, and then for %d, %t", last, ns, ok)
		}
		last = ns
		if time.Now().After(deadline) {
			t.Fatal("the thread did not wait for its processor")
		}
	}
}

package sched

import (
	"runtime"
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

// TestShare: a thread is in the class until it takes more than its share, and joins again later.
func TestShare(t *testing.T) {
	policy := lock(t)
	c := classOf(1)
	var spent time.Duration
	c.spent = func() time.Duration { return spent }
	th := Thread{Class: c}
	for range 2 {
		th.Rest()
		if policy() != unix.SCHED_BATCH || c.used.Load() != 1 {
			t.Fatalf("the policy is %d, with %d threads in the class", policy(), c.used.Load())
		}
		for range 3 {
			time.Sleep(window)
			spent += window * 3 / 4
			th.Rest()
		}
		if policy() != unix.SCHED_BATCH {
			t.Error("a thread that takes its share has left the class")
		}
		time.Sleep(window)
		spent += time.Hour
		th.Rest()
		if policy() != unix.SCHED_NORMAL || c.used.Load() != 0 {
			t.Errorf("after more than its share the policy is %d, with %d threads in the class", policy(), c.used.Load())
		}
		th.Rest()
		if policy() != unix.SCHED_NORMAL && now() < th.later {
			t.Error("the thread is back too soon")
		}
		th.End()
		time.Sleep(barring)
	}
	th.Rest()
	th.End()
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 0 {
		t.Errorf("in the end the policy is %d, with %d threads in the class", policy(), c.used.Load())
	}
}

// TestShareOfMany: a thread that leaves the class and joins it again in one window has one share.
func TestShareOfMany(t *testing.T) {
	policy := lock(t)
	c := classOf(1)
	c.spent = now // it works without a break, whatever else the machine does
	th := Thread{Class: c, Follows: true}
	defer th.End()
	in := 0
	for begin := now(); now()-begin < window+barring/2; {
		th.Busy = !th.Busy
		th.Rest()
		if policy() == unix.SCHED_BATCH {
			in++
		}
	}
	if in == 0 {
		t.Error("the thread was never in the class")
	}
	th.Busy = true
	if th.Rest(); policy() != unix.SCHED_NORMAL && now() < th.later {
		t.Error("the thread works without end, and has not left the class")
	}
	if th.later == 0 {
		t.Error("nothing was measured in a window")
	}
}

// TestFollows: a thread that follows is in the class while another one leads, even if there is no room for
// that one, or while it is busy.
func TestFollows(t *testing.T) {
	policy := lock(t)
	c := classOf(1)
	follower, leader := Thread{Class: c, Follows: true}, Thread{Class: c}
	in := func(want bool) {
		t.Helper()
		follower.Rest()
		if got := policy() == unix.SCHED_BATCH; got != want {
			t.Errorf("the follower is in the class: %v, want %v", got, want)
		}
	}
	for range 2 {
		in(false)
		c.take()
		leader.Rest()
		c.used.Add(-1)
		in(true)
		leader.End()
		leader.End()
		in(false)
	}
	follower.Busy = true
	in(true)
	follower.Busy = false
	in(false)
	leader.Rest()
	leader.End()
	follower.End()
	if n := c.lead.Load(); n != 0 || c.used.Load() != 0 {
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
	full.Rest()
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 1 {
		t.Errorf("a thread joined a full class: %d threads", c.used.Load())
	}
	full.End()
	var none Thread
	none.Rest()
	none.End()
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 1 {
		t.Error("a thread without a class joined one")
	}
}

// TestRights: a thread with the right joins the real-time class. One without it stays as it is, takes no
// room, and does not try again.
func TestRights(t *testing.T) {
	policy := lock(t)
	c := &Class{most: 1}
	th := Thread{Class: c}
	if Permitted() == nil {
		th.Rest()
		if policy() != unix.SCHED_FIFO || c.used.Load() != 1 {
			t.Errorf("with the right the policy is %d, with %d threads in the class", policy(), c.used.Load())
		}
		th.End()
	}
	dropRights(t)
	if _, err := c.join(); err == nil {
		t.Fatal("the right is still there")
	}
	th.Rest()
	if policy() != unix.SCHED_NORMAL || c.used.Load() != 0 || now() > th.later {
		t.Errorf("the policy is %d, with %d threads in the class", policy(), c.used.Load())
	}
	th.End()
}

// dropRights gives up the right to the class: CAP_SYS_NICE in all threads, and the limit of priorities.
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
	for begin := now(); processorTime() == before; {
		if now()-begin > 10*time.Second {
			t.Fatal("the clock stands")
		}
	}
	before = processorTime()
	time.Sleep(100 * time.Millisecond)
	if took := processorTime() - before; took > 50*time.Millisecond {
		t.Errorf("a thread that slept for 100 ms took %v", took)
	}
}

// BenchmarkRest is what the class costs between two pieces of work.
func BenchmarkRest(b *testing.B) {
	runtime.LockOSThread()
	th := Thread{Class: &Class{most: 1}}
	defer th.End()
	for b.Loop() {
		th.Rest()
	}
}

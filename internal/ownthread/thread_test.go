package ownthread

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

func spin(d time.Duration) {
	for begin := processorTime(); processorTime()-begin < d; {
	}
}

// TestShare: a thread is in the class until it takes more than its share, and joins again later.
func TestShare(t *testing.T) {
	if err := Permitted(); err != nil {
		t.Skipf("it needs CAP_SYS_NICE or RLIMIT_RTPRIO: %v", err)
	}
	policy := lock(t)
	c := &Class{most: 1}
	th := Thread{Class: c}
	for range 2 {
		th.Rest()
		if policy() != unix.SCHED_FIFO || c.Threads() != 1 {
			t.Fatalf("the policy is %d, with %d threads in the class", policy(), c.Threads())
		}
		for range 3 {
			time.Sleep(window)
			th.Rest()
		}
		if policy() != unix.SCHED_FIFO {
			t.Error("a thread that sleeps has left the class")
		}
		spin(2 * window)
		th.Rest()
		if policy() != unix.SCHED_NORMAL || c.Threads() != 0 {
			t.Errorf("after more than its share the policy is %d, with %d threads in the class", policy(), c.Threads())
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
	if policy() != unix.SCHED_NORMAL || c.Threads() != 0 {
		t.Errorf("in the end the policy is %d, with %d threads in the class", policy(), c.Threads())
	}
}

// TestFollows: a thread that follows is in the class while another one leads, even if there is no room for
// that one.
func TestFollows(t *testing.T) {
	if err := Permitted(); err != nil {
		t.Skipf("it needs CAP_SYS_NICE or RLIMIT_RTPRIO: %v", err)
	}
	policy := lock(t)
	c := &Class{most: 1}
	follower, leader := Thread{Class: c, Follows: true}, Thread{Class: c}
	in := func(want bool) {
		t.Helper()
		follower.Rest()
		if got := policy() == unix.SCHED_FIFO; got != want {
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
	leader.Rest()
	leader.End()
	follower.End()
	if n := c.lead.Load(); n != 0 || c.Threads() != 0 {
		t.Errorf("%d threads lead, %d are in the class", n, c.Threads())
	}
}

// TestRoom: there is room for so many threads and no more, whether or not they have the right.
func TestRoom(t *testing.T) {
	policy := lock(t)
	c := &Class{most: 1}
	if !c.take() || c.take() {
		t.Error("there is not room for one thread")
	}
	full := Thread{Class: c}
	full.Rest()
	if policy() != unix.SCHED_NORMAL || c.Threads() != 1 {
		t.Errorf("a thread joined a full class: %d threads", c.Threads())
	}
	full.End()
	var none Thread
	none.Rest()
	none.End()
	if policy() != unix.SCHED_NORMAL || c.Threads() != 1 {
		t.Error("a thread without a class joined one")
	}
}

// TestWithoutRights: a thread that may not join stays as it is, takes no room, and does not try again.
func TestWithoutRights(t *testing.T) {
	policy := lock(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur > 0 {
		t.Skip("RLIMIT_RTPRIO gives the right")
	}
	dropNice(t)
	c := &Class{most: 1}
	th := Thread{Class: c}
	th.Rest()
	if policy() != unix.SCHED_NORMAL || c.Threads() != 0 || now() > th.later {
		t.Errorf("the policy is %d, with %d threads in the class", policy(), c.Threads())
	}
	th.End()
}

// dropNice gives up CAP_SYS_NICE in the calling thread.
func dropNice(t *testing.T) {
	t.Helper()
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

// BenchmarkRest is what the class costs between two pieces of work.
func BenchmarkRest(b *testing.B) {
	runtime.LockOSThread()
	th := Thread{Class: &Class{most: 1}}
	defer th.End()
	for b.Loop() {
		th.Rest()
	}
}

package doorbell

import "testing"

// TestSources walks the table of sources: each situation has the source that the table names.
func TestSources(t *testing.T) {
	yes, no := []bool{true}, []bool{false}
	either := []bool{true, false}
	want := make(map[situation]source)
	for _, row := range []struct {
		to                         source
		pending                    []int
		muted, pipe, owner, paused []bool
	}{
		{lookAgain, []int{1}, yes, either, either, no},
		{bothBriefly, []int{1}, yes, either, either, yes},
		{bothBriefly, []int{1}, no, either, either, either},
		{bothBriefly, []int{2}, either, either, either, either},
		{onePipe, []int{0}, either, yes, yes, either},
		{both, []int{0}, either, yes, no, either},
		{onlyInotify, []int{0}, either, no, either, either},
	} {
		for _, n := range row.pending {
			for _, m := range row.muted {
				for _, p := range row.pipe {
					for _, o := range row.owner {
						for _, pause := range row.paused {
							s := situation{n, m, p, o, pause}
							if _, twice := want[s]; twice {
								t.Fatalf("%+v is in two rows", s)
							}
							want[s] = row.to
						}
					}
				}
			}
		}
	}
	if len(want) != 3*2*2*2*2 {
		t.Fatalf("the rows have %d situations", len(want))
	}
	for s, to := range want {
		if got := s.source(); got != to {
			t.Errorf("%+v: source %d, want %d", s, got, to)
		}
	}
}

// TestInotifyWaiter walks the table of inotifyWaiter.
func TestInotifyWaiter(t *testing.T) {
	for _, c := range []struct {
		from  inotifyWaiter
		event string
		do    func(*pipeRig)
		to    inotifyWaiter
	}{
		{byReceiver, "about to wait for the pipe", func(r *pipeRig) { r.w.choose() }, byOwner},
		{byReceiver, "a bypassing doorbell", func(r *pipeRig) { r.w.Bypassed() }, byReceiver},
		{byReceiver, "the owner cannot wait", func(r *pipeRig) { r.w.NoBypass() }, refused},
		{byOwner, "about to wait for the pipe", func(r *pipeRig) { r.w.choose() }, byOwner},
		{byOwner, "another device comes", func(r *pipeRig) { newDevice(r.t, r.w); r.w.choose() }, byReceiver},
		{byOwner, "the device goes", func(r *pipeRig) { r.d.Remove(); r.w.choose() }, byReceiver},
		{byOwner, "a bypassing doorbell", func(r *pipeRig) { r.w.Bypassed() }, bypassed},
		{byOwner, "no receiver is left", func(r *pipeRig) { r.w.Unattended() }, byReceiver},
		{byOwner, "the owner cannot wait", func(r *pipeRig) { r.w.NoBypass() }, refused},
		{bypassed, "the receiver reads it", func(r *pipeRig) { r.w.choose() }, byOwner},
		{bypassed, "the device goes", func(r *pipeRig) { r.d.Remove(); r.w.choose() }, byReceiver},
		{refused, "about to wait for the pipe", func(r *pipeRig) { r.w.choose() }, refused},
		{refused, "a bypassing doorbell", func(r *pipeRig) { r.w.Bypassed() }, refused},
		{refused, "no receiver is left", func(r *pipeRig) { r.w.Unattended() }, refused},
	} {
		r := newPipeRig(t)
		r.w.inotify = c.from
		if c.do(r); r.w.inotify != c.to {
			t.Errorf("from %d, %s: %d, want %d", c.from, c.event, r.w.inotify, c.to)
		}
		if r.w.inotify != byReceiver && r.w.inotify != byOwner {
			continue
		}
		if told := c.from != r.w.inotify && c.event != "no receiver is left"; told && r.owner.bypass != (c.to == byOwner) {
			t.Errorf("from %d, %s: the owner waits: %t", c.from, c.event, r.owner.bypass)
		}
	}
}

// TestDue walks the table of due: a doorbell, Take, and the end of what another thread has in hand.
func TestDue(t *testing.T) {
	for _, c := range []struct {
		from due
		held bool
		do   func(w *Watch, d *Device)
		what string
		to   due
	}{
		{rests, false, func(w *Watch, d *Device) { w.enter(d) }, "a doorbell", listed},
		{rests, true, func(w *Watch, d *Device) { w.enter(d) }, "a doorbell", missed},
		{listed, false, func(w *Watch, d *Device) { w.enter(d) }, "a doorbell", listed},
		{listed, true, func(w *Watch, d *Device) { w.enter(d) }, "a doorbell", listed},
		{missed, true, func(w *Watch, d *Device) { w.enter(d) }, "a doorbell", missed},
		{missed, false, func(w *Watch, d *Device) { w.enterMissed(d) }, "the end", listed},
		{missed, true, func(w *Watch, d *Device) { w.enterMissed(d) }, "the end of another one", missed},
		{rests, false, func(w *Watch, d *Device) { w.enterMissed(d) }, "the end", rests},
	} {
		w := newWatch(t)
		d, _ := newDevice(t, w)
		if c.from == listed {
			w.enter(d)
		}
		d.due = c.from
		if c.held {
			d.taker = new(fakeTaker)
		}
		w.mu.Lock()
		c.do(w, d)
		w.mu.Unlock()
		if d.due != c.to || (c.to == listed) != (len(w.pending) == 1) {
			t.Errorf("%s in state %d: %d, want %d; %d devices on the list", c.what, c.from, d.due, c.to, len(w.pending))
		}
	}
	for _, held := range []bool{false, true} {
		w := newWatch(t)
		d, _ := newDevice(t, w)
		w.enter(d)
		if held {
			d.taker = new(fakeTaker)
		}
		got := w.Take(new(fakeTaker))
		if want := map[bool]due{false: rests, true: missed}[held]; d.due != want || (got == d) == held {
			t.Errorf("Take of a device that another thread has (%t): state %d, want %d", held, d.due, want)
		}
	}
}

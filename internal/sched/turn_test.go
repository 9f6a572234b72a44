package sched

import (
	"testing"
	"time"
)

// taken is what a thread of a test has taken.
type taken struct{ spent, waited time.Duration }

func (u *taken) spentUntil() time.Duration  { return u.spent }
func (u *taken) waitedUntil() time.Duration { return u.waited }

// TestShare: a thread is in the class until it takes more than its share, and joins again later.
func TestShare(t *testing.T) {
	var turn Turn
	var u taken
	at := time.Duration(0)
	for range 2 {
		if !turn.Observe(at, 0, true, &u) {
			t.Fatal("a thread that wants the class is not in it")
		}
		for range 3 {
			at += window
			u.spent += window * 3 / 4
			if !turn.Observe(at, 0, true, &u) {
				t.Error("a thread that takes its share has left the class")
			}
		}
		at += window
		u.spent += time.Hour
		if turn.Observe(at, 0, true, &u) {
			t.Error("after more than its share the thread is in the class")
		}
		if turn.Observe(at+barring-1, 0, true, &u) {
			t.Error("the thread is back too soon")
		}
		at += barring
	}
	if !turn.Observe(at, 0, true, &u) || turn.Observe(at, 0, false, &u) {
		t.Error("the thread does not follow what it wants")
	}
}

// TestShareOfMany: a thread that leaves the class and joins it again in one window has one share.
func TestShareOfMany(t *testing.T) {
	var turn Turn
	var u taken
	joined, wants := 0, false
	for at := time.Duration(0); at <= window; at += window / 64 {
		u.spent = at // it works without a break
		wants = !wants
		if turn.Observe(at, 0, wants, &u) {
			joined++
		}
	}
	u.spent = window
	if joined == 0 {
		t.Error("the thread was never in the class")
	}
	if turn.Observe(window, 0, true, &u) || turn.state != barred {
		t.Errorf("the thread works without end, and is %d", turn.state)
	}
}

// TestCommonBreak: a thread that runs or is ready nearly all the time, and often waits for a
// processor, leaves the class for a while once in a common period. Others stay.
func TestCommonBreak(t *testing.T) {
	for name, s := range map[string]struct {
		ran, waited float64 // of the time
		breaks      bool
	}{
		"two on one processor":  {0.5, 0.5, true},
		"four on one processor": {0.25, 0.75, true},
		"alone":                 {0.7, 0.05, false},
		"waits without need":    {0.05, 0.4, false},
		"idle":                  {0.01, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			const periods = 8
			var turn Turn
			breaks, since := 0, time.Duration(-1)
			for at := time.Duration(0); at < periods*commonPeriod; at += time.Millisecond {
				u := taken{time.Duration(s.ran * float64(at)), time.Duration(s.waited * float64(at))}
				in := turn.Observe(at, int64(at/commonPeriod), true, &u)
				switch {
				case !in && since < 0:
					breaks, since = breaks+1, at
				case in && since >= 0:
					if at-since < commonTime {
						t.Error("the break is too short")
					}
					since = -1
				}
			}
			if breaks > periods || breaks > 0 != s.breaks || s.breaks && breaks < periods-1 {
				t.Errorf("%d breaks in %d periods", breaks, periods)
			}
		})
	}
}

// TestTurn walks the table of Turn: each event in each state.
func TestTurn(t *testing.T) {
	const at = time.Hour
	for _, c := range []struct {
		from, to turnState
		event    string
		do       func(*Turn)
	}{
		{out, in, "wants", func(u *Turn) { u.Observe(at, 0, true, new(taken)) }},
		{out, out, "does not want", func(u *Turn) { u.Observe(at, 0, false, new(taken)) }},
		{in, in, "wants", func(u *Turn) { u.Observe(at, 0, true, new(taken)) }},
		{in, out, "does not want", func(u *Turn) { u.Observe(at, 0, false, new(taken)) }},
		{in, barred, "takes too much", func(u *Turn) { u.Observe(at+window, 0, true, &taken{spent: window}) }},
		{in, barred, "shares its processor", func(u *Turn) {
			u.window.at = at + commonPeriod - 1
			u.Observe(at+commonPeriod, 1, true, &taken{spent: commonPeriod / 2, waited: commonPeriod / 2})
		}},
		{in, barred, "finds no room", func(u *Turn) { u.bar(at, barring) }},
		{in, refused, "has no right", func(u *Turn) { u.refuse() }},
		{barred, barred, "wants too soon", func(u *Turn) { u.Observe(at+barring-1, 0, true, new(taken)) }},
		{barred, in, "wants", func(u *Turn) { u.Observe(at+barring, 0, true, new(taken)) }},
		{barred, out, "no longer wants", func(u *Turn) { u.Observe(at+barring, 0, false, new(taken)) }},
		{refused, refused, "wants", func(u *Turn) { u.Observe(at+time.Hour, 0, true, new(taken)) }},
	} {
		turn := Turn{state: c.from, until: at + barring, measured: true, window: mark{at: at}, common: mark{at: at}}
		if c.do(&turn); turn.state != c.to {
			t.Errorf("a thread in state %d that %s is in state %d, want %d", c.from, c.event, turn.state, c.to)
		}
	}
}

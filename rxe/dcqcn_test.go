package rxe

import (
	"testing"
	"time"
)

const (
	testLine = 5_000_000_000 // bytes a second: 40 Gb/s
	testUS   = Time(time.Microsecond)
)

func (r *reaction) want(t *testing.T, what string, rate int64) {
	t.Helper()
	if d := r.rate - rate; d < -8 || d > 8 { // each step rounds
		t.Errorf("%s: the rate is %d, want %d", what, r.rate, rate)
	}
}

// The rates of the paper's equations (1) to (5), with its parameters.
func TestReaction(t *testing.T) {
	p := DefaultECN()
	var r reaction
	now := Time(1)
	r.notified(&p, testLine, now)
	r.want(t, "a first CNP, with alpha 1", testLine/2)
	if r.alpha != alphaOne {
		t.Errorf("alpha is %d after a first CNP, want 1", r.alpha)
	}
	// Fast recovery: half of the way to the target, four times.
	rate := int64(testLine / 2)
	for i := range p.Threshold - 1 {
		now += 55 * testUS
		r.catchUp(now)
		rate = (rate + testLine) / 2
		r.want(t, "fast recovery "+string(rune('1'+i)), rate)
	}
	alpha := int64(alphaOne)
	for range p.Threshold - 1 {
		alpha = alpha * 1020 / 1024
	}
	if int64(r.alpha) != alpha {
		t.Errorf("alpha is %d, want %d", r.alpha, alpha)
	}
	r.sent = 1 << 33 // as fast as it may
	r.notified(&p, testLine, now)
	r.want(t, "a second CNP", rate-rate/2*alpha/alphaOne)
}

// Additive increase raises the target, once the timer or the byte counter has expired as often as
// rpg_threshold says. Hyper increase begins when both have expired more often.
func TestReactionIncreases(t *testing.T) {
	p := DefaultECN()
	const target = 1_000_000_000
	for _, tc := range []struct {
		timers, counters int
		raise            int64 // of the target, in Mb/s
	}{
		{4, 0, 0}, {0, 4, 0}, {4, 4, 0},
		{5, 0, 40}, {0, 5, 40}, {10, 5, 40}, {6, 5, 40},
		{6, 6, 400}, {8, 6, 400}, {9, 7, 800},
	} {
		r := reaction{rate: target / 2, target: target, line: testLine, params: &p, timers: tc.timers, counters: tc.counters}
		r.increase()
		want := target + tc.raise*bytesPerMbps
		if r.target != want {
			t.Errorf("timer %d, counter %d: the target rises to %d, want %d", tc.timers, tc.counters, r.target, want)
		}
		r.want(t, "towards it", (target/2+want)/2)
	}
}

// The byte counter expires after rpg_byte_reset bytes.
func TestReactionByteCounter(t *testing.T) {
	p := DefaultECN()
	var r reaction
	r.notified(&p, testLine, 1)
	r.count(p.RateBytes - 1)
	r.want(t, "before the counter expires", testLine/2)
	r.count(1)
	r.want(t, "after it", testLine/4*3)
	r.count(2 * p.RateBytes)
	r.want(t, "after two more", testLine/16*15)
}

// Without CNPs the limit ends, in about 50 ms from the floor to 40 Gb/s with the timer alone.
func TestReactionRecovers(t *testing.T) {
	p := DefaultECN()
	var r reaction
	now := Time(1)
	for range 200 {
		r.notified(&p, testLine, now)
		now += 50 * testUS
	}
	r.want(t, "after 200 CNPs", int64(p.MinRate)*bytesPerMbps)
	start := now
	for r.rate != 0 {
		now += 55 * testUS
		r.catchUp(now)
		if now-start > Time(time.Second) {
			t.Fatalf("the limit is still %d after a second", r.rate)
		}
	}
	if took := now - start; took < Time(40*time.Millisecond) || took > Time(70*time.Millisecond) {
		t.Errorf("the limit ended after %v", time.Duration(took))
	}
	// A CNP after that begins with half of the port's rate.
	r.notified(&p, testLine, now)
	r.want(t, "a CNP after the recovery", testLine/2)
}

// The rate that falls is that of the sender, which in software is far below the port's.
func TestReactionMeasures(t *testing.T) {
	p := DefaultECN()
	var r reaction
	r.notified(&p, testLine, 1)
	r.count(100_000) // in 100 µs: 1 GB/s
	r.notified(&p, testLine, 1+100*testUS)
	if r.target != 1_000_000_000 {
		t.Errorf("the target is %d, want the rate that was measured", r.target)
	}
	// A sender that was idle tells nothing.
	before := r.rate
	r.notified(&p, testLine, 1+2000*testUS)
	if r.target < before {
		t.Errorf("the target is %d after a long pause, below %d", r.target, before)
	}
	before = r.rate
	r.notified(&p, testLine, 1+2050*testUS)
	if r.target != before/4 {
		t.Errorf("the target is %d after a short pause, want a quarter of %d", r.target, before)
	}
}

// Threads read the clock at different times. One that comes with an earlier time does no harm.
func TestReactionEarlierTime(t *testing.T) {
	p := DefaultECN()
	var r reaction
	r.notified(&p, testLine, 1000*testUS)
	before := r
	r.catchUp(900 * testUS)
	if r != before {
		t.Errorf("%+v became %+v", before, r)
	}
	r.credit = 0
	if n, wait := r.allow(1024, 900*testUS); n != 0 || wait <= 0 || r.credit != 0 {
		t.Errorf("%d packets, wait %v", n, wait)
	}
	r.notified(&p, testLine, 900*testUS)
	r.catchUp(1000 * testUS)
}

// A sender that was idle may send at once, however fast the port is and however long it was idle.
func TestReactionIdle(t *testing.T) {
	p := DefaultECN()
	p.RateTimer = 1_000_000 // the limit stays
	for _, s := range LinkSpeeds() {
		line := int64(s.Mbps) * bytesPerMbps
		for idle := Time(time.Millisecond); idle < Time(time.Second); idle += Time(7 * time.Millisecond) {
			r := reaction{rate: line / 2, target: line / 2, line: line, params: &p, left: 1 << 40, timerAt: 1, alphaAt: 1, creditAt: 1}
			n, wait := r.allow(4096, 1+idle)
			// The packets that may be sent at once are bounded.
			if most := max(r.rate*int64(creditMax)/second/4096, 2) + 1; n < 1 || int64(n) > most || wait != 0 {
				t.Fatalf("%d Mb/s, idle for %v: %d packets of at most %d, wait %v", s.Mbps, time.Duration(idle), n, most, time.Duration(wait))
			}
		}
	}
}

package rxe

// The reaction point of DCQCN. A CNP lowers the rate, and the share that it takes (alpha) grows
// with the CNPs that came lately. Then the rate rises in steps, when a timer expires and when
// enough was sent. The first steps lead back towards the rate before the CNP (fast recovery).
// Later ones go beyond it by a constant (additive increase), or by more each time (hyper
// increase). No thread waits for the timers: one that needs the rate catches up on what has
// expired.

// reaction is the rate limit of a queue pair's sender.
type reaction struct {
	target int64 // bytes a second, that rate returns to
	line   int64 // bytes a second: what the port can do
	alpha  uint32

	alphaAt  Time  // when the timer of alpha last expired
	timerAt  Time  // when the timer of the rate last expired
	timers   int   // how often that has expired since the last CNP
	left     int64 // bytes until the byte counter expires
	counters int   // how often that has expired since the last CNP
	cnpAt    Time  // of the last CNP
	sent     int64 // bytes since the last CNP
	credit   int64 // what may be sent now, in byte-nanoseconds per second; negative: a debt
	creditAt Time  // when it had that
	params   *ECN  // of the device

	rate int64 // bytes a second; 0: no limit, and nothing above means anything
}

// notified lowers the rate.
func (r *reaction) notified(p *ECN, line int64, now Time) {
	r.catchUp(now)
	if r.rate == 0 {
		*r = reaction{rate: line, line: line, alpha: alphaOne, params: p, creditAt: now}
	} else if gap := now - r.cnpAt; gap >= measureMin && gap <= measureMax {
		r.rate = min(r.rate, max(r.sent*second/int64(gap), r.rate/measuredLeast))
	}
	r.target = r.rate
	r.rate = max(r.rate-r.rate/2*int64(r.alpha)/alphaOne, r.floor())
	r.alpha = uint32(alphaOne - uint64(alphaOne-r.alpha)*uint64(p.AlphaKeep)/alphaKeepOne)
	r.alphaAt, r.timerAt, r.cnpAt = now, now, now
	r.timers, r.counters, r.sent = 0, 0, 0
	r.left = int64(p.RateBytes)
}

// floor returns the least rate. A slow port can go below the parameter.
func (r *reaction) floor() int64 {
	return min(int64(r.params.MinRate)*bytesPerMbps, r.line/lineFloor+1)
}

// catchUp does what the timers that have expired do.
func (r *reaction) catchUp(now Time) {
	if r.rate == 0 {
		return
	}
	for every := Time(r.params.AlphaTimer) * microsecond; now-r.alphaAt >= every; r.alphaAt += every {
		if r.alpha == 0 {
			r.alphaAt = now
			break
		}
		r.alpha = uint32(uint64(r.alpha) * uint64(r.params.AlphaKeep) / alphaKeepOne)
	}
	every := Time(r.params.RateTimer) * microsecond
	for r.rate != 0 && now-r.timerAt >= every {
		r.timerAt += every
		r.timers++
		r.increase()
	}
}

// increase raises the rate by a step. At the port's rate there is no limit any more.
func (r *reaction) increase() {
	threshold := r.params.Threshold
	switch fewest := min(r.timers, r.counters); {
	case max(r.timers, r.counters) < threshold:
	case fewest > threshold:
		r.target += int64(fewest-threshold) * int64(r.params.RateHAI) * bytesPerMbps
	default:
		r.target += int64(r.params.RateAI) * bytesPerMbps
	}
	r.target = min(r.target, r.line)
	r.rate = (r.rate + r.target + 1) / 2
	if r.rate >= r.line-r.line/lineNear {
		r.rate = 0
	}
}

// count subtracts what was sent.
func (r *reaction) count(bytes int) {
	r.sent += int64(bytes)
	r.credit -= int64(bytes) * second
	for r.left -= int64(bytes); r.left <= 0 && r.rate != 0; r.left += int64(r.params.RateBytes) {
		r.counters++
		r.increase()
	}
}

// allow returns how many packets of mtu bytes may be sent now, at least 1, or how long the
// sender has to wait.
func (r *reaction) allow(mtu int, now Time) (packets int, wait Time) {
	r.catchUp(now)
	if r.rate == 0 {
		return groupPackets, 0
	}
	packet := int64(mtu) * second
	if now > r.creditAt {
		// Two packets, so that a slow sender has a whole one when it wakes late.
		most := max(r.rate*int64(creditMax), 2*packet)
		if idle := int64(now - r.creditAt); idle > (most-r.credit)/r.rate {
			r.credit = most // rate times idle may overflow
		} else {
			r.credit += r.rate * idle
		}
		r.creditAt = now
	}
	if r.credit > 0 {
		return int(r.credit/packet) + 1, 0
	}
	quantum := max(r.rate*int64(paceQuantum), packet)
	return 0, Time((quantum-r.credit)/r.rate) + 1
}

package conformance

import (
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// What went wrong on the way without breaking a rule: packets that were lost, refused or sent
// again. No finding is made of it, but a reader who looks for a fault begins there.

// answerTimeout is how long the end of a capture must be away from a request that got no answer.
const answerTimeout = int64(time.Second)

// retryState follows the runs of retransmissions that bring no progress.
type retryState struct {
	runs int      // since the last progress
	last wire.PSN // that was sent again
	at   int64
}

// retried records a packet that was sent again, since nanoseconds after it was sent before.
func (f *Flow) retried(s *subject, since int64) {
	r := f.req
	t := &r.retry
	goesOn := t.runs > 0 && (r.running || r.nak.crosses(s)) && t.last.Less(s.psn)
	t.last, t.at = s.psn, s.at
	if goesOn {
		return
	}
	t.runs++
	if f.Peer != nil && !r.nak.on && !r.rnr.on && since > doubledWithin {
		f.Stats.Timeouts++
	}
}

// gaveUp counts a requester that has sent its last request again and got no acknowledgement of it.
func (f *Flow) gaveUp(now int64) {
	r := f.req
	open := !r.ackedKnown || r.acked.Less(r.next)
	if open && f.Service != wire.ServiceUC && (r.retry.runs > 1 || r.retry.runs == 1 && (now-r.retry.at > answerTimeout || r.retry.at-now > answerTimeout)) {
		f.Stats.GaveUp++
	}
	r.retry = retryState{}
}

// count adds what went wrong in a flow.
func (sum *FlowStats) count(s *FlowStats) {
	sum.Retransmissions += s.Retransmissions
	sum.Timeouts += s.Timeouts
	sum.GaveUp += s.GaveUp
	sum.RNRs += s.RNRs
	sum.NAKs += s.NAKs
	for i, n := range s.NAKCodes {
		sum.NAKCodes[i] += n
	}
	sum.Gaps += s.Gaps
	sum.Rejects += s.Rejects
}

// Happened says what went wrong in the capture without breaking a rule: "962 retransmissions,
// 56 NAKs (PSN sequence error)". It is empty if nothing did.
func (s *Summary) Happened() string {
	all := s.past
	for _, f := range s.Flows {
		all.count(&f.Stats)
	}
	return all.happened()
}

func (s *FlowStats) happened() string {
	var list []string
	add := func(n uint64, noun, rest string) {
		if n > 0 {
			list = append(list, plural.Of(n, noun)+rest)
		}
	}
	add(s.GaveUp, "flow", " whose last request was sent again and not acknowledged")
	add(s.Retransmissions, "retransmission", "")
	add(s.Timeouts, "timeout", "")
	coded := uint64(0)
	for code, n := range s.NAKCodes {
		add(n, "NAK", " ("+wire.NAKCode(code).String()+")")
		coded += n
	}
	add(s.NAKs-coded, "NAK", " (reserved code)")
	add(s.RNRs, "RNR NAK", "")
	add(s.Gaps, "gap", " in the PSNs")
	add(s.Rejects, "REJ", " of a connection")
	return strings.Join(list, ", ")
}

package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// The number of outstanding READs and atomics. A requester must not have more than the
// responder offered to keep state for. If the connection manager's messages were
// captured, that number is known; otherwise the limit is maxDepth.
//
// The capture may lack the response to a request. So outstanding requests are counted
// when one is answered. Responses come in order, so all requests sent since then were
// outstanding together with it.

// maxDepth is the largest initiator depth and number of responder resources: they have
// eight bits in the connection manager's messages (IBA 12.7) and in the verbs.
const maxDepth = 255

type depthState struct {
	reads []outstandingRead // by PSN, at most maxDepth+1
	told  bool              // a finding said that there are too many
}

// outstandingRead is a READ or an atomic that has no response yet.
type outstandingRead struct {
	psn    wire.PSN
	cut    bool
	packet int
	at     int64 // nanoseconds
}

func (o *outstandingRead) about() finding {
	return finding{packet: o.packet, time: time.Unix(0, o.at).UTC(), cut: o.cut}
}

// outstanding counts a READ or an atomic that is sent for the first time.
func (r *requests) outstanding(s *subject) {
	d := &r.depth
	if len(d.reads) > maxDepth {
		d.reads = d.reads[:copy(d.reads, d.reads[1:])]
	}
	d.reads = append(d.reads, outstandingRead{psn: s.psn, cut: s.icrc == ICRCUnknown, packet: s.Number, at: s.at})
}

// underWay returns how many READs and atomics were sent since the one that psn answers,
// that one included, and its place. It returns 0 if that one is not known.
func (d *depthState) underWay(psn wire.PSN) (n, at int) {
	for i := len(d.reads) - 1; i >= 0; i-- {
		if !psn.Less(d.reads[i].psn) {
			return len(d.reads) - i, i
		}
	}
	return 0, 0
}

// answered records that the READ or the atomic of x at psn, and all before it, got
// their last response.
func (c *Checker) answered(x *Flow, psn wire.PSN) {
	d := &x.req.depth
	n, at := d.underWay(psn)
	if n == 0 {
		return
	}
	x.Stats.MaxReads = max(x.Stats.MaxReads, n)
	most, why := maxDepth, "of any device"
	if x.pair.agreed {
		most, why = x.depth, "as agreed"
	}
	if n > most && !d.told {
		d.told = true
		c.emitAbout(d.reads[at+most].about(), x, ruleReadDepth, Violation,
			fmt.Sprintf("at most %d outstanding, %s", most, why), fmt.Sprint(n))
	}
	d.reads = slices.Delete(d.reads, 0, at+1)
}

// refused handles an invalid-request NAK for the READ or the atomic e. A responder
// sends it if it has more of them outstanding than it can keep (IBA 9.7.4). But there
// are other reasons too: access rights, and some that no capture shows.
func (c *Checker) refused(s *subject, f, x *Flow, e *record) {
	n, at := x.req.depth.underWay(s.psn)
	if n == 0 || !e.op.Info().Has(wire.OpRead|wire.OpAtomic) {
		return
	}
	if before := at + 1; before > 1 {
		c.reportAs(Note, s, f, ruleReadDepth, "as many outstanding as the responder keeps",
			fmt.Sprintf("%d, and the last an %v", before, s.pkt.Syndrome()))
	}
}

package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// How many READs and atomics are under way. A requester has no more of them than the
// responder said that it keeps state for; that is known where the connection
// manager's messages were captured. Elsewhere what is known is that no device has
// more than maxDepth.
//
// A request without a response may have been answered unseen. So they are counted
// when one is answered: those sent since it was, and responses come in order, were
// under way together with it.

// maxDepth is the most that an initiator depth and responder resources can say: they
// are of eight bits in the connection manager's messages (IBA 12.7), and in the
// verbs.
const maxDepth = 255

type depthState struct {
	reads []outstandingRead // by PSN, at most maxDepth+1
	told  bool              // that there are too many
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

// underWay returns how many READs and atomics have been sent from the one that psn
// answers on, and where that is; 0 if that one is not known.
func (d *depthState) underWay(psn wire.PSN) (n, at int) {
	for i := len(d.reads) - 1; i >= 0; i-- {
		if !psn.Less(d.reads[i].psn) {
			return len(d.reads) - i, i
		}
	}
	return 0, 0
}

// answered notes the last response to the READ or the atomic of x that psn belongs
// to, and with it to all before.
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

// refused notes that the READ or the atomic e is called an invalid request. A
// responder that gets more of them than it can keep says that (IBA 9.7.4); but it
// also does to a queue pair without the right, or where it has reason that no
// capture shows.
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

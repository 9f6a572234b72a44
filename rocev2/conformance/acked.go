package conformance

import (
	"fmt"

	"github.com/gorxe/gorxe/wire"
)

// Acknowledgements show which requests of a queue pair have arrived, which ones the
// capture lacks, and which ones got no answer.

// askState is the last request that asked for an acknowledgement and has none.
type askState struct {
	on      bool
	psn     wire.PSN
	at      int64
	finding finding
}

// open records PSNs that were not seen.
func (r *requests) open(h hole) {
	if len(r.holes) == maxHoles {
		r.holes = append(r.holes[:0], r.holes[1:]...)
	}
	r.holes = append(r.holes, h)
}

// acknowledge records that everything before psn has arrived.
func (c *Checker) acknowledge(s *subject, x *Flow, psn wire.PSN) {
	r := x.req
	if r.next.Less(psn) {
		psn = r.next
	}
	if !r.ackedKnown || r.acked.Less(psn) {
		r.acked, r.ackedKnown = psn, true
		r.retry.runs = 0
	}
	if r.asked.on && r.asked.psn.Less(r.acked) {
		r.asked.on = false
	}
	if r.nak.on && r.nak.psn.Less(r.acked) {
		r.nak.on = false
	}
	if r.rnr.on && r.rnr.psn.Less(r.acked) {
		r.rnr.on = false
	}
	kept := r.holes[:0]
	for _, h := range r.holes {
		if r.acked.Less(h.to) {
			kept = append(kept, h)
			continue
		}
		r.lossy = true
		c.missing(s.about(), x, h, "acknowledged, but not in the capture")
	}
	r.holes = kept
}

func (c *Checker) missing(about finding, x *Flow, h hole, why string) {
	n := h.to.Diff(h.from)
	x.Stats.Missing += uint64(n)
	c.emitAbout(about, x, rulePSNGap, Note,
		fmt.Sprintf("PSNs 0x%06x to 0x%06x before packet %d", uint32(h.from), uint32(h.to.Sub(1)), h.packet), why)
}

// endRequests judges the requests that are still open at the end.
func (c *Checker) endRequests(f *Flow) {
	r := f.req
	for _, p := range r.pending {
		c.emitAbout(p.finding, p.flow, p.rule, Warning, p.expected, p.seen)
	}
	r.pending = r.pending[:0]
	c.endRun(f, r)
	last := finding{packet: int(c.summary.Packets), time: c.now}
	for _, h := range r.holes {
		c.missing(last, f, h, "never seen")
	}
	r.holes = r.holes[:0]
	if a := r.asked; a.on && f.Peer != nil && r.ackedKnown && c.now.UnixNano()-a.at > answerTimeout {
		c.emitAbout(a.finding, f, ruleAckReq, Warning, fmt.Sprintf("an acknowledgement of PSN 0x%06x", uint32(a.psn)), "none")
	}
	r.asked.on = false
	f.gaveUp(c.now.UnixNano())
}

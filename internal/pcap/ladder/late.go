package ladder

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// maxStarts is how many packets with which messages begin are remembered of a flow: the slowest
// message is known when its acknowledgement comes.
const maxStarts = 64

// remark says what is notable about packets of a flow: one bit for requests, and one for answers.
type remark uint16

const (
	remarkAgain remark = 1 << (2 * iota)
	remarkLost
	remarkHit
	remarkNAK
	remarkRNR
	remarkCNP
)

// remarked reports whether the packet is the first of its kind in its flow. A sentence leads to it.
func (s *stream) remarked(r *Row) bool {
	var m remark
	switch {
	case !r.parsed || r.ICRC == conformance.ICRCBad:
		return false
	case r.Lost():
		m = remarkLost
	case r.Negative() && r.pkt.Syndrome().IsRNR():
		m = remarkRNR
	case r.Negative():
		m = remarkNAK
	case r.pkt.Opcode() == wire.OpCNP:
		m = remarkCNP
	case r.Fault != "":
		m = remarkHit
	case r.again():
		m = remarkAgain
	}
	if r.pkt.Info().Has(wire.OpResponse) {
		m <<= 1
	}
	first := m&^s.kinds != 0
	s.kinds |= m
	return first
}

// begins remembers a packet with which a message begins, if there are charts.
func (c *Collector) begins(s *stream, r *Row) {
	if c.Plot == nil || s.flow == nil || !r.parsed || !r.pkt.Info().Has(wire.OpStart) || r.pkt.Info().Has(wire.OpResponse) || r.again() {
		return
	}
	if s.starts == nil {
		if len(c.order) > plot.MaxFlows {
			return
		}
		s.starts = make([]Row, maxStarts)
	}
	to := &s.starts[s.start]
	head, sample, findings := append(to.head[:0], r.head...), append(to.sample[:0], r.sample...), append(to.Findings[:0], r.Findings...)
	*to = *r
	to.head, to.sample, to.Findings = head, sample, findings
	s.start = (s.start + 1) % maxStarts
}

// isLate remembers the packets that only later ones show to matter.
func (c *Collector) isLate(v *conformance.Verdict) {
	if v.Flow == nil {
		return
	}
	for _, f := range [...]*conformance.Flow{v.Flow, v.Flow.Peer} {
		s := c.streams[streamKey{flow: f}]
		if f == nil || s == nil {
			continue
		}
		for i, number := range c.Plot.Late(f) {
			if number == 0 || s.late[i] != nil && s.late[i].Number == number {
				continue
			}
			if r := c.find(s, number); r != nil {
				s.late[i] = r
			}
		}
	}
}

// find returns a copy of a packet that is kept or remembered; nil: it is neither.
func (c *Collector) find(s *stream, number int) *Row {
	if r := c.rows[number]; r != nil {
		return r.clone()
	}
	for _, list := range [][]Row{s.recent[:], s.starts} {
		for i := range list {
			if list[i].Number == number {
				return list[i].clone()
			}
		}
	}
	return nil
}

// room drops half of the notable packets, with those around them, if there is no room for more.
// Those that stay are spread over the run.
func (c *Collector) room() {
	if len(c.rows) < c.share(notableShare) {
		return
	}
	c.every = max(c.every, 1) * 2
	for number, r := range c.rows {
		if r.group%c.every != 0 && r.Severity() <= conformance.Note {
			c.dropped += uint64(len(r.Findings))
			delete(c.rows, number)
		}
	}
	for _, s := range c.order {
		s.kept = slices.DeleteFunc(s.kept, func(r *Row) bool { return c.rows[r.Number] != r })
	}
}

// settle keeps the packets that turned out to matter.
func (c *Collector) settle() {
	for _, s := range c.order {
		changed := false
		for _, r := range s.late {
			switch {
			case r == nil:
			case c.rows[r.Number] != nil:
				c.rows[r.Number].pinned = true
			case len(c.rows) < c.maxRows() || c.evict():
				r.pinned, r.group, changed = true, 0, true
				c.rows[r.Number] = r
				s.kept = append(s.kept, r)
			}
		}
		if changed {
			slices.SortFunc(s.kept, func(a, b *Row) int { return cmp.Compare(a.Number, b.Number) })
		}
	}
}

// evict drops the last packet that is not notable; false: there is none.
func (c *Collector) evict() bool {
	last := 0
	for number, r := range c.rows {
		if number > last && weight(r) == 0 {
			last = number
		}
	}
	r := c.rows[last]
	if r == nil {
		return false
	}
	delete(c.rows, last)
	for _, s := range c.order {
		s.kept = slices.DeleteFunc(s.kept, func(k *Row) bool { return k == r })
	}
	return true
}

// managed returns the rows with messages of the connection manager.
func (v *Conversation) managed() iter.Seq2[*Row, wire.CMMessage] {
	return func(yield func(*Row, wire.CMMessage) bool) {
		for _, r := range v.Rows {
			m := r.mad()
			if m == nil {
				continue
			}
			if cm, err := wire.ParseCM(m[:]); err == nil && !yield(r, cm) {
				return
			}
		}
	}
}

// answersToItself finds the answers among the messages of the connection manager from a host to
// itself: one flow of datagrams has the messages of both sides.
func (v *Conversation) answersToItself() {
	if len(v.flows) != 1 || v.Left != v.Right || v.Right.QPN != wire.GSIQPN {
		return
	}
	asked := make(map[uint32]bool) // identifiers of those who asked for a connection
	v.left = make(map[*Row]bool)
	for r, cm := range v.managed() {
		switch x := cm.(type) {
		case wire.CMREQ:
			asked[x.LocalCommID()] = true
		case wire.CMSIDRREP:
			v.left[r] = true
		case interface{ RemoteCommID() uint32 }:
			v.left[r] = asked[x.RemoteCommID()]
		}
	}
}

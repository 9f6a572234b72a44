package conformance

import (
	"fmt"
	"math"
	"time"
)

// Congestion (IBA A17.9.3): a switch marks packets. The receiver answers with a CNP
// for each of them or for several (CA17-44), and the sender slows down (CA17-45). The
// devices decide by how much, for how long, and how they pace CNPs; all of it is
// optional. A sender that was slower than necessary need not change. So a finding
// about the effect of a CNP is only a note.

// cnp judges a congestion notification packet. f is the flow to the sender that must
// slow down.
func (c *Checker) cnp(s *subject, f *Flow) {
	c.verdict.Class = ClassNew
	c.cnpFormat(s, f)
	f.dir.cnps++
	c.cnpCause(s, f)
	if gap := time.Duration(s.at - f.lastCNP); f.Stats.CNPs > 1 && gap >= 0 && (f.Stats.CNPs == 2 || gap < f.Stats.CNPGap) {
		f.Stats.CNPGap = gap
	}
	f.lastCNP = s.at
	if x := f.Peer; x != nil {
		x.rate.notified(s)
	}
}

// cnpFormat compares a CNP with figure 6 of A17.9.3. Fields that the figure does not
// have give warnings only.
func (c *Checker) cnpFormat(s *subject, f *Flow) {
	p := s.pkt
	reserved := p.Bytes()[s.info.CNP:s.info.HeaderLen]
	switch {
	case p.PSN() != 0 || p.Solicited() || p.MigReq():
		c.report(s, f, ruleCNPFormat, "PSN 0, SE and M clear",
			fmt.Sprintf("PSN 0x%06x, SE %v, M %v", uint32(p.PSN()), p.Solicited(), p.MigReq()))
	case !zero(reserved):
		c.report(s, f, ruleCNPFormat, "zeros after the BTH", fmt.Sprintf("% x", reserved))
	case !p.BECN() || p.FECN() || p.AckReq():
		c.reportAs(Warning, s, f, ruleCNPFormat, "BECN alone set",
			fmt.Sprintf("BECN %v, FECN %v, AckReq %v", p.BECN(), p.FECN(), p.AckReq()))
	case f.Peer != nil && f.Peer.Stats.PKey != 0 && f.Peer.Stats.PKey != p.PKey():
		c.reportAs(Warning, s, f, ruleCNPFormat, fmt.Sprintf("P_Key %#04x, that of the packets marked", uint16(f.Peer.Stats.PKey)),
			fmt.Sprintf("%#04x", uint16(p.PKey())))
	}
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// cnpCause compares the number of CNPs with that of the marked packets. It counts those
// of the queue pair if that is known, and otherwise all between the two addresses.
func (c *Checker) cnpCause(s *subject, f *Flow) {
	marked, cnps := c.opposite(f).marked, f.dir.cnps
	if x := f.Peer; x != nil {
		marked, cnps = x.Stats.Marked, f.Stats.CNPs
	}
	switch {
	case marked == 0 && f.Stats.CNPs == 1:
		c.report(s, f, ruleCNPCause, "a packet marked CE in the other direction", "none so far")
	case marked > 0 && cnps > marked && !f.manyCNPs:
		f.manyCNPs = true
		c.report(s, f, ruleCNPRate, fmt.Sprintf("at most %d, one for each packet marked CE", marked), fmt.Sprint(cnps))
	}
}

// The rate of a sender is measured in slots of 2^slotBits nanoseconds, 66 µs. After a
// CNP, one slot must have clearly fewer bytes than those right before it. Devices
// behave as DCQCN: they halve the rate, and return to nine tenths of it after 100 µs
// to 1 ms.
const (
	slotBits = 16
	// steady is how many packets a slot needs before its bytes count as a rate.
	steady = 16
	// reaction is the number of slots within which a sender must slow down.
	reaction = 16
	// pause is how many slots without a CNP must come before a CNP that counts.
	// Otherwise the rate before it may be that of a sender that has slowed down.
	pause = 16
	// obstinate is how many CNPs in a row must change nothing before a finding.
	obstinate = 3
)

// slot counts what was sent in one slot.
type slot struct {
	number  int64
	bytes   uint64
	packets uint32
}

// rateState measures the rate of a queue pair, and whether it falls after a CNP.
type rateState struct {
	now    slot
	before [2]slot // the latest first
	last   int64   // the slot of the last CNP
	notice notice
	lasted int // CNPs in a row that changed nothing
	told   bool
}

// notice is a CNP whose effect is not known yet.
type notice struct {
	on    bool
	about finding
	slot  int64
	rate  uint64 // bytes in a slot before it
	least uint64 // bytes in one since
}

// measure counts a packet of a sender.
func (c *Checker) measure(s *subject, f *Flow) {
	m := &f.rate
	if n := s.at >> slotBits; n != m.now.number {
		c.slotEnds(f, n)
	}
	m.now.bytes += uint64(s.TransportLen)
	m.now.packets++
}

// slotEnds advances to slot n.
func (c *Checker) slotEnds(f *Flow, n int64) {
	m := &f.rate
	gap := n != m.now.number+1 // or the clock was set back
	if m.notice.on && m.now.number > m.notice.slot {
		c.heeded(f, gap)
	}
	switch {
	case gap:
		m.before = [2]slot{}
		m.notice.on = false
	default:
		m.before = [2]slot{m.now, m.before[0]}
	}
	m.now = slot{number: n}
}

// notified begins to watch for the effect of a CNP, if the rate before it is known.
func (m *rateState) notified(s *subject) {
	n := s.at >> slotBits
	calm := n-m.last >= pause || n < m.last
	m.last = n
	a, b := &m.before[0], &m.before[1]
	if m.notice.on || !calm || m.now.number != n || a.packets < steady || b.packets < steady {
		return
	}
	rate := max(a.bytes, b.bytes)
	m.notice = notice{on: true, about: s.about(), slot: n, rate: rate, least: math.MaxUint64}
}

// heeded looks for the effect of a CNP in a slot that has ended. If nothing was sent
// for a while after the CNP, it has had its effect.
func (c *Checker) heeded(f *Flow, gap bool) {
	m := &f.rate
	w := &m.notice
	w.least = min(w.least, m.now.bytes)
	switch {
	case gap || w.least < w.rate-w.rate/8:
		w.on, m.lasted = false, 0
	case m.now.number >= w.slot+reaction:
		w.on = false
		m.lasted++
		if m.lasted >= obstinate && !m.told {
			m.told = true
			c.emitAbout(w.about, f, ruleCNPReaction, ruleCNPReaction.Severity,
				fmt.Sprintf("less than the %d bytes in %v before it, as after %d CNPs before", w.rate, slotTime, obstinate-1),
				fmt.Sprintf("%d bytes at least", w.least))
		}
	}
}

const slotTime = time.Duration(1 << slotBits)

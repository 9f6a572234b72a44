package conformance

import "fmt"

// datagram judges what only datagrams have.
func (c *Checker) datagram(s *subject, f *Flow) {
	c.verdict.Class = ClassNew
	f.SourceQPN = s.pkt.SrcQP()
	f.Stats.QKey = s.pkt.QKey()
	f.Stats.Messages++
	if f.QPN == 1 && s.whole {
		c.connectionManager(s, f)
	}
}

// cnp judges a congestion notification packet. How a sender reacts to one, and how
// often a receiver sends one, the specification leaves to them; but each has a
// cause, a packet marked CE that came the other way.
func (c *Checker) cnp(s *subject, f *Flow) {
	c.verdict.Class = ClassNew
	p := s.pkt
	switch b := p.Bytes(); {
	case !p.BECN() || p.FECN() || p.Solicited() || p.AckReq() || p.PSN() != 0:
		c.report(s, f, ruleCNPFormat, "BECN alone set, and PSN 0",
			fmt.Sprintf("BECN %v, FECN %v, SE %v, AckReq %v, PSN %#x", p.BECN(), p.FECN(), p.Solicited(), p.AckReq(), uint32(p.PSN())))
	default:
		for _, v := range b[s.info.CNP:s.info.HeaderLen] {
			if v != 0 {
				c.report(s, f, ruleCNPFormat, "zeros behind the BTH", fmt.Sprintf("% x", b[s.info.CNP:s.info.HeaderLen]))
				break
			}
		}
	}
	f.dir.cnps++
	marked, cnps := c.opposite(f).marked, f.dir.cnps
	switch {
	case marked == 0 && f.Stats.CNPs == 1:
		c.report(s, f, ruleCNPCause, "a packet marked CE the other way", "none so far")
	case marked > 0 && cnps > marked && !f.manyCNPs:
		f.manyCNPs = true
		c.report(s, f, ruleCNPRate, fmt.Sprintf("at most %d, one for each packet marked CE", marked), fmt.Sprint(cnps))
	}
}

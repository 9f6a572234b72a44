package conformance

import (
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// network judges the IP and UDP headers of a packet whose ICRC is right. The sender or
// a router caused their faults.
func (c *Checker) network(s *subject, f *Flow) {
	if s.Kind != capture.RoCEv2 {
		return
	}
	if v4 := s.IP.Version == 4; v4 && !s.IP.DF {
		c.report(s, f, ruleIPHeader, "don't-fragment set", "it clear")
	} else if int(s.IP.HeaderLen) != ipHeaderLen(s.Packet) {
		c.report(s, f, ruleIPHeader, "no options or extension headers", fmt.Sprintf("a header of %d bytes", s.IP.HeaderLen))
	}
	if s.IP.MF {
		c.report(s, f, ruleIPHeader, "no fragments", "the first of several")
	}
	if s.IP.Checksum == capture.ChecksumBad {
		c.report(s, f, ruleIPChecksum, "a checksum that fits", "one that does not")
	}
	if s.UDP.Checksum == capture.ChecksumBad {
		c.report(s, f, ruleUDPChecksum, "a checksum that fits, or 0", "one that does not")
	}
	if want := s.IP.Length - int(s.IP.HeaderLen); s.UDP.Length != want && s.IP.Length != 0 && !s.IP.MF {
		c.report(s, f, ruleLength, fmt.Sprintf("a UDP length of %d, by the IP header", want), fmt.Sprint(s.UDP.Length))
	}
	if f.Service == wire.ServiceRC && s.UDP.SrcPort != f.port {
		if f.port != 0 && !f.portChanged {
			f.portChanged = true
			c.report(s, f, ruleSourcePort, fmt.Sprintf("source port %d", f.port), fmt.Sprint(s.UDP.SrcPort))
		}
		f.port = s.UDP.SrcPort
	}
}

func ipHeaderLen(p *capture.Packet) int {
	if p.IP.Version == 4 {
		return 20
	}
	return 40
}

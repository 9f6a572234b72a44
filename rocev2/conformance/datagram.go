package conformance

// datagram judges what only datagrams have.
func (c *Checker) datagram(s *subject, f *Flow) {
	c.verdict.Class = ClassNew
	f.SourceQPN = s.pkt.SrcQP()
	f.Stats.QKey = s.pkt.QKey()
	f.Stats.Messages++
	if f.QPN != 1 || !s.whole {
		return
	}
	if m := c.management(s, f); m != nil {
		c.hold(s, f, m)
		c.connectionManager(f, m)
	}
}

package conformance

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

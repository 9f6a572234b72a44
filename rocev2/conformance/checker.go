package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// Options configure a Checker. The zero value applies every rule.
type Options struct {
	// Ignore names rules that are not applied.
	Ignore []string
	// OnFinding, if set, gets every finding as it is made. It must not keep the
	// *Finding.
	OnFinding func(*Finding)
	// MaxFlows bounds memory. If there are more flows, the checker forgets those
	// without packets for the longest time. A later packet of such a flow begins a
	// new one. 0 means 8192.
	MaxFlows int
}

const defaultMaxFlows = 8192

// Checker applies the rules to packets. It takes them in the order of the capture, and
// is for one goroutine.
type Checker struct {
	opts     Options
	ignore   ruleSet
	icrc     icrcCache
	flows    map[flowKey]*Flow
	between  map[hosts]*direction
	agreed   agreements
	talks    talks
	recent   *Flow // of the last packet
	seq      uint64
	flowID   int
	budget   int // records that the streams' histories may still take
	closed   bool
	verdict  Verdict
	now      time.Time
	stepped  int // the packet at which the clock last went back
	summary  Summary
	findings []Finding // of the current packet
	cut      []byte    // the headers of a packet that was captured in part
}

// New returns a checker. It fails if Options.Ignore has a name that no rule has.
func New(opts Options) (*Checker, error) {
	ignore, err := newRuleSet(opts.Ignore)
	if err != nil {
		return nil, err
	}
	if opts.MaxFlows <= 0 {
		opts.MaxFlows = defaultMaxFlows
	}
	return &Checker{
		opts:    opts,
		ignore:  ignore,
		flows:   make(map[flowKey]*Flow),
		between: make(map[hosts]*direction),
		talks:   newTalks(),
		budget:  historyBudget,
		summary: Summary{PerRule: make([]RuleCount, len(allRules))},
	}, nil
}

// subject is the packet under judgement.
type subject struct {
	*capture.Packet
	pkt     wire.Packet
	info    *wire.OpInfo
	psn     wire.PSN
	payload int // bytes without pad, also of a cut packet
	whole   bool
	// headless: cut after the BTH, so that the other headers are not known.
	headless bool
	icrc     ICRC
	at       int64 // nanoseconds
	// contiguous: a request that takes the very next PSN.
	contiguous bool
}

// Add judges the next packet. It keeps nothing of p.
func (c *Checker) Add(p *capture.Packet) *Verdict {
	c.findings = c.findings[:0]
	c.verdict = Verdict{}
	c.now = p.Time
	c.count(p)
	if p.Kind != capture.Other {
		c.transport(p)
	}
	c.verdict.Findings = c.findings
	return &c.verdict
}

func (c *Checker) transport(p *capture.Packet) {
	s := subject{Packet: p, at: p.Time.UnixNano()}
	s.icrc = c.checkICRC(p)
	c.verdict.ICRC = s.icrc
	if s.icrc == ICRCBad {
		c.damaged(&s)
		return
	}
	if len(p.Transport) < wire.BTHLen {
		if !p.Truncated() {
			c.report(&s, nil, ruleLength, "a BTH and an ICRC, 16 bytes", bytesSeen(len(p.Transport)))
		}
		return
	}
	f := c.flow(p)
	c.verdict.Flow = f
	f.touch(c, &s)
	c.network(&s, f)
	if !c.parse(&s, f) {
		if s.headless {
			c.headless(&s, f)
		}
		return
	}
	c.verdict.Packet, c.verdict.Parsed = s.pkt, true
	c.headers(&s, f)
	f.Stats.Bytes += uint64(s.payload)
	c.measure(&s, f)
	switch s.info.Service {
	case wire.ServiceRC, wire.ServiceXRC, wire.ServiceUC:
		c.half(&s, f)
		if s.info.Has(wire.OpRequest) {
			f.Stats.Requests++
			c.request(&s, f)
		} else {
			f.Stats.Responses++
			c.response(&s, f)
		}
	case wire.ServiceUD:
		f.Stats.Requests++
		c.datagram(&s, f)
	case wire.ServiceCNP:
		f.Stats.CNPs++
		c.cnp(&s, f)
	default:
	}
}

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
		if m.CMAttribute() == wire.AttrREJ {
			f.Stats.Rejects++
		}
		c.followTalk(s, f, m)
		c.connectionManager(f, m)
	}
}

// damaged reports a packet that did not arrive as it was sent. Its fields may have any
// value, so it joins no flow. The finding names the flow that it seems to belong to,
// if there is one.
func (c *Checker) damaged(s *subject) {
	var f *Flow
	if len(s.Transport) >= wire.BTHLen {
		f = c.flows[keyOf(s.Packet)]
	}
	c.verdict.Flow = f
	c.report(s, f, ruleICRC, "the ICRC of the packet", fmt.Sprintf("another, in %v from %v to %v",
		wire.Opcode(s.Transport[0]), s.Src, s.Dst))
}

// report makes a finding about the packet under judgement.
func (c *Checker) report(s *subject, f *Flow, r *Rule, expected, seen string) {
	c.reportAs(r.Severity, s, f, r, expected, seen)
}

// reportAs makes a finding of less than the rule's severity.
func (c *Checker) reportAs(severity Severity, s *subject, f *Flow, r *Rule, expected, seen string) {
	if s.icrc == ICRCUnknown {
		severity = min(severity, Warning) // it may be damaged
	}
	c.emit(Finding{
		Packet: s.Number, Time: s.Time, Flow: f, Rule: r, Severity: severity, Expected: expected, Seen: seen,
	})
}

func (c *Checker) emit(x Finding) {
	if c.ignore[x.Rule.index] {
		return
	}
	if x.Flow.doubtful() {
		x.Severity = min(x.Severity, Warning)
	}
	c.summary.add(&x)
	if x.Flow != nil {
		x.Flow.Stats.found(x.Severity)
	}
	c.findings = append(c.findings, x)
	if c.opts.OnFinding != nil {
		c.opts.OnFinding(&x)
	}
}

// keyOf returns the flow key of a packet with a BTH.
func keyOf(p *capture.Packet) flowKey {
	b := p.Transport
	return flowKey{
		src: p.Src.As16(), dst: p.Dst.As16(), kind: p.Kind,
		qpn: wire.QPN(b[5])<<16 | wire.QPN(b[6])<<8 | wire.QPN(b[7]),
	}
}

// flow returns the flow of a packet, which may be a new one.
func (c *Checker) flow(p *capture.Packet) *Flow {
	key := keyOf(p)
	if f := c.recent; f != nil && f.key == key {
		return f
	}
	f := c.flows[key]
	if f == nil {
		f = c.newFlow(key, p)
	}
	c.recent = f
	return f
}

func (c *Checker) newFlow(key flowKey, p *capture.Packet) *Flow {
	if len(c.flows) >= c.opts.MaxFlows {
		c.evict()
	}
	c.flowID++
	f := &Flow{
		ID: c.flowID, Kind: p.Kind, Service: wire.Opcode(p.Transport[0]).Service(),
		Src: p.Src, Dst: p.Dst, QPN: key.qpn, key: key,
	}
	f.Stats.First, f.Stats.FirstPacket = p.Time, p.Number
	c.flows[key] = f
	f.dir = c.direction(key.hosts())
	f.dir.flows++
	f.dir.unpaired = append(f.dir.unpaired, f)
	c.agreed.link(c, f)
	return f
}

// evict forgets a quarter of the flows: those without packets for the longest time. Both
// directions of a connection are forgotten at once, because later packets make new flows, and a
// new flow cannot be the opposite of an old one.
func (c *Checker) evict() {
	flows := c.list()
	slices.SortFunc(flows, func(a, b *Flow) int { return cmp.Compare(a.lastUsed(), b.lastUsed()) })
	n := max(1, len(flows)/4)
	if f := flows[n-1]; f.Peer != nil && n < len(flows) && flows[n] == f.Peer {
		n++
	}
	forgotten := flows[:n]
	for _, f := range forgotten {
		c.forget(f)
	}
	c.summary.Forgotten += len(forgotten)
	isForgotten := func(f *Flow) bool { return f.forgotten }
	for h, d := range c.between {
		d.unpaired = slices.DeleteFunc(d.unpaired, isForgotten)
		if d.flows == 0 {
			delete(c.between, h)
		}
	}
	for _, f := range flows[len(forgotten):] {
		if f.pair.candidate != nil && f.pair.candidate.forgotten {
			f.pair = pairing{}
		}
	}
}

// lastUsed says when a connection last had a packet. Its two directions are equal, so they are
// neighbours in a sorted list.
func (f *Flow) lastUsed() uint64 {
	if f.Peer != nil {
		return max(f.seq, f.Peer.seq)
	}
	return f.seq
}

func (c *Checker) forget(f *Flow) {
	c.finish(f)
	c.summary.past.count(&f.Stats)
	if f.req != nil {
		c.budget += len(f.req.ring)
	}
	f.forgotten = true
	f.dir.flows--
	delete(c.flows, f.key)
	if c.recent == f {
		c.recent = nil
	}
}

// list returns the flows in order of appearance.
func (c *Checker) list() []*Flow {
	flows := make([]*Flow, 0, len(c.flows))
	for _, f := range c.flows {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(a, b *Flow) int { return a.ID - b.ID })
	return flows
}

// Close ends the capture. It returns the findings about packets that never came, which
// OnFinding gets as well.
func (c *Checker) Close() []Finding {
	if c.closed {
		return nil
	}
	c.closed = true
	c.findings = c.findings[:0]
	for _, f := range c.list() {
		c.finish(f)
	}
	return c.findings
}

// finish judges what a flow has left open at its end.
func (c *Checker) finish(f *Flow) {
	if f.req != nil {
		c.endRequests(f)
	}
}

// touch counts a packet.
func (f *Flow) touch(c *Checker, s *subject) {
	c.seq++
	f.seq = c.seq
	f.Stats.Packets++
	f.Stats.Last = s.Time
	if s.Truncated() {
		f.Stats.Truncated++
	}
	if s.IP.Version != 0 && s.IP.ECN() == capture.ECNCE {
		f.Stats.Marked++
		f.dir.marked++
	}
}

func (s *FlowStats) found(severity Severity) {
	switch severity {
	case Note:
		s.Notes++
	case Warning:
		s.Warnings++
	default:
		s.Violations++
	}
}

func bytesSeen(n int) string { return plural.Of(n, "byte") }

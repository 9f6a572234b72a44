package ladder

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

//go:embed page.html page.css page.js chart.js
var files embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{"packets": packets, "counted": plural.Of[uint64]}).ParseFS(files, "page.html"))

// page is the data of the template. All text in it may come from a hostile capture;
// html/template escapes it.
type page struct {
	Name          string
	Story         *Story // nil: only packets are known
	Title         []span // of the story
	Badges        []Badge
	Sides, Events []pageSentence
	Wire          []pageSentence // what the packets of each connection show
	Opcodes       []string       // of the packets shown
	QPs           []string
	Trouble       string  // why the file could not be read to its end
	Charts        *charts // nil: there is nothing to draw
	Style         template.CSS
	Script        template.JS
	Facts         []Field
	Verdict       string // class of what happened
	Happened      string
	Rules         []ruleLine
	Conversations []pageConversation
	MorePackets   uint64
	Every         int  // one in so many notable packets is there; 0: all are
	TooLarge      bool // packets were dropped because of maxPage
	summary       *conformance.Summary
	MoreFindings  uint64
	Quiet         uint64 // conversations of which no packet is kept
}

type ruleLine struct {
	*conformance.Rule
	conformance.RuleCount
	Worst string
}

type pageConversation struct {
	*Conversation
	Facts []Field
	Items []pageItem
	Rest  uint64 // packets that are not shown
	Worst string
}

// pageLine is a packet, or a count of packets that are left out.
type pageLine struct {
	*Row
	Skipped uint64
	Clock   string
	Delta   string // since the packet before it in the conversation
	Took    string // until the acknowledgement
	Class   string // of the element
	Arrow   string // for readers who do not see the arrow
	Text    string
}

// WriteHTML writes the conversations as one page that loads nothing. name is the name
// of the capture, and trouble the error that ended the reading.
func (c *Collector) WriteHTML(w io.Writer, name string, s conformance.Summary, trouble error) error {
	p := page{Name: printable(name), Story: c.Story, Happened: happened(&s), summary: &s}
	style, err := files.ReadFile("page.css")
	if err != nil {
		return err
	}
	script, err := scripts()
	if err != nil {
		return err
	}
	p.Style, p.Script = template.CSS(style), script
	if trouble != nil {
		p.Trouble = printable(trouble.Error())
	}
	p.Facts = summaryFacts(&s)
	p.Rules = ruleLines(&s)
	p.MorePackets, p.MoreFindings = c.LeftOut()
	p.Every = c.every
	if st := c.Story; st != nil && !st.Started.IsZero() && st.Started.Before(c.start) {
		c.start = st.Started // the sentences count from there
	}
	all := c.Conversations()
	p.Facts = append(p.Facts, c.runFacts(all)...)
	p.tell(c, &s, all)
	if p.Charts, err = c.charts(&p, all); err != nil {
		return err
	}
	return c.fit(w, &p, all)
}

// maxPage bounds a page, in bytes. Browsers are slow with larger ones.
const maxPage = 50 << 20

// fit writes the page. If it is too large it has fewer packets, and says so.
func (c *Collector) fit(w io.Writer, p *page, all []*Conversation) error {
	most := maxPage
	if c.MaxPage > 0 {
		most = c.MaxPage
	}
	var b bytes.Buffer
	for {
		p.Conversations, p.Quiet = nil, 0
		for _, v := range all {
			if len(v.Rows) == 0 && len(v.Other) == 0 {
				p.Quiet++
				continue
			}
			p.Conversations = append(p.Conversations, c.pageConversation(v))
		}
		p.Opcodes, p.QPs = choices(all)
		b.Reset()
		if err := pageTemplate.Execute(&b, p); err != nil {
			return err
		}
		if b.Len() <= most {
			_, err := b.WriteTo(w)
			return err
		}
		dropped := thin(all)
		if dropped == 0 {
			return fmt.Errorf("the page would have %d MB, above its limit of %d MB: choose queue pairs or hosts", b.Len()>>20, most>>20)
		}
		p.MorePackets += uint64(dropped)
		p.TooLarge = true
		p.tell(c, p.summary, all) // links lead to what is left
	}
}

// thin drops half of the packets: those that matter least to a reader, and of these the last ones.
func thin(all []*Conversation) (dropped int) {
	var rows []*Row
	for _, v := range all {
		rows = append(rows, v.Rows...)
	}
	slices.SortFunc(rows, func(a, b *Row) int { return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.Number, b.Number)) })
	drop := make(map[*Row]bool)
	for _, r := range rows[(len(rows)+1)/2:] {
		drop[r] = true
	}
	for _, v := range all {
		v.Rows = slices.DeleteFunc(slices.Clone(v.Rows), func(r *Row) bool { return drop[r] })
		v.countSkipped()
	}
	return len(drop)
}

// weight is how much a packet matters.
func weight(r *Row) int {
	switch {
	case r.Severity() > conformance.Note, r.pinned:
		return 2
	case r.Notable():
		return 1
	}
	return 0
}

// scripts are those of the page, in marks that make them text for a reader of XML, too.
func scripts() (template.JS, error) {
	all := "//<![CDATA[\n"
	for _, name := range []string{"page.js", "chart.js"} {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		all += string(text)
	}
	return template.JS(all + "//]]>"), nil
}

// tell fills in what the head of the page says.
func (p *page) tell(c *Collector, s *conformance.Summary, all []*Conversation) {
	p.Badges = nil
	if c.Story != nil {
		for i := range c.Story.QPs {
			c.Story.QPs[i].index = i
		}
		p.Title = spans(c.Story.Title)
		p.Sides, p.Events = c.sentences(c.Story.Sides, "side", all), c.sentences(c.Story.Events, "event", all)
		p.Badges = append(p.Badges, c.Story.Badges...)
	}
	p.Badges = append(p.Badges, wireBadge(s), protocolBadge(s))
	if b, ok := congestionBadge(s); ok {
		p.Badges = append(p.Badges, b)
	}
	if b, ok := c.stallBadge(all); ok {
		p.Badges = append(p.Badges, b)
	}
	p.Verdict = worstClass(p.Badges)
	p.Wire = c.saw(all)
}

// choices returns the opcodes and the queue pairs that a reader can choose.
func choices(all []*Conversation) (opcodes, qps []string) {
	ops, numbers := make(map[string]bool), make(map[string]bool)
	for _, v := range all {
		for _, r := range v.Rows {
			ops[r.Opcode()] = true
		}
		for _, e := range [...]End{v.Left, v.Right} {
			if e.Known {
				numbers[qpName(e.QPN)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ops)), slices.Sorted(maps.Keys(numbers))
}

func summaryFacts(s *conformance.Summary) []Field {
	facts := []Field{count(s.Packets, "packet")}
	for _, n := range [...]struct {
		name string
		n    uint64
	}{
		{capture.RoCEv2.String(), s.RoCEv2}, {capture.RoCEv1.String(), s.RoCEv1}, {capture.InfiniBand.String(), s.InfiniBand},
		{"other", s.Other}, {"cut", s.Truncated},
	} {
		if n.n > 0 && (n.n < s.Packets || n.name != capture.RoCEv2.String()) {
			facts = append(facts, Field{n.name, fmt.Sprint(n.n)})
		}
	}
	if d := s.Last.Sub(s.First); d > 0 {
		facts = append(facts, Field{"from the first packet to the last", duration(d)})
	}
	if s.ClockSteps > 0 {
		facts = append(facts, Field{plural.Noun(s.ClockSteps, "time") + " the clock goes back", fmt.Sprint(s.ClockSteps)})
	}
	return append(facts, count(uint64(len(s.Flows)+s.Forgotten), "flow"))
}

// runFacts are how many connections there are, and how long the run took.
func (c *Collector) runFacts(all []*Conversation) (facts []Field) {
	n := uint64(0)
	for _, v := range all {
		if v.Service != wire.ServiceUD && v.Left.Known && v.Right.Known {
			n++
		}
	}
	if n > 0 {
		facts = append(facts, count(n, "connection"))
	}
	if c.Story != nil && c.Story.Ran > 0 {
		facts = append(facts, Field{"run", duration(c.Story.Ran)})
	}
	return facts
}

func count(n uint64, noun string) Field { return Field{plural.Noun(n, noun), fmt.Sprint(n)} }

// classes are those of badges, from the best to the worst.
var classes = []string{"empty", "clean", "warning", "violation"}

// worstClass colors the head of the page: it is clean only if nothing happened.
func worstClass(badges []Badge) string {
	worst := 0
	for _, b := range badges {
		worst = max(worst, slices.Index(classes, b.Class))
	}
	return classes[worst]
}

// empty reports whether there was nothing to judge.
func empty(s *conformance.Summary) bool { return len(s.Flows)+s.Forgotten == 0 && s.Violations == 0 }

// happened says what went wrong, by the packets.
func happened(s *conformance.Summary) string {
	switch text := s.Happened(); {
	case text != "":
		return text
	case empty(s):
		return "No packet to judge"
	}
	return "No packet was sent again, and there was no NAK"
}

// wireBadge says whether packets were sent again or refused.
func wireBadge(s *conformance.Summary) Badge {
	b := Badge{"clean", "Packets", happened(s)}
	switch {
	case s.Happened() != "":
		b.Class = "warning"
	case empty(s):
		b.Class = "empty"
	}
	return b
}

// congestionBadge says how often a sender was told to slow down.
func congestionBadge(s *conformance.Summary) (b Badge, congested bool) {
	var cnps, marked uint64
	for _, f := range s.Flows {
		cnps, marked = cnps+f.Stats.CNPs, marked+f.Stats.Marked
	}
	if cnps+marked == 0 {
		return b, false
	}
	return Badge{"warning", "Congestion", plural.Of(marked, "packet") + " marked (CE), " + plural.Of(cnps, "CNP")}, true
}

// longStall is a silence that a reader of the run notices.
const longStall = time.Second

// stallBadge says how long a connection was silent until a timer ended.
func (c *Collector) stallBadge(all []*Conversation) (b Badge, stalled bool) {
	if c.Plot == nil {
		return b, false
	}
	longest := time.Duration(0)
	for _, v := range all {
		for _, f := range v.flows {
			longest = max(longest, c.Plot.Told(f).Silence)
		}
	}
	return Badge{"warning", "Waits", "up to " + duration(longest) + " of silence on a connection, until the sender's timeout"}, longest >= longStall
}

// protocolBadge says how many rules the packets break.
func protocolBadge(s *conformance.Summary) Badge {
	b := Badge{"clean", "Protocol", ""}
	switch {
	case s.Violations > 0:
		b.Class = "violation"
	case s.Warnings > 0:
		b.Class = "warning"
	case empty(s):
		return Badge{"empty", "Protocol", "nothing to judge"}
	}
	var list []string
	for _, n := range [...]struct {
		n    uint64
		noun string
	}{{s.Violations, "violation"}, {s.Warnings, "warning"}, {s.Notes, "note"}} {
		if n.n > 0 {
			list = append(list, plural.Of(n.n, n.noun))
		}
	}
	if s.Violations == 0 {
		list = append([]string{"no violation"}, list...)
	}
	b.Text = strings.Join(list, ", ")
	return b
}

// ruleLines returns the rules with findings, the most severe first.
func ruleLines(s *conformance.Summary) []ruleLine {
	var lines []ruleLine
	for _, r := range conformance.Rules() {
		n := s.Of(r.Name)
		worst := conformance.Note
		switch {
		case n.Total() == 0:
			continue
		case n.Violations > 0:
			worst = conformance.Violation
		case n.Warnings > 0:
			worst = conformance.Warning
		}
		lines = append(lines, ruleLine{Rule: r, RuleCount: n, Worst: worst.String()})
	}
	weight := map[string]int{"violation": 0, "warning": 1, "note": 2}
	slices.SortStableFunc(lines, func(a, b ruleLine) int { return cmp.Compare(weight[a.Worst], weight[b.Worst]) })
	return lines
}

func (c *Collector) pageConversation(v *Conversation) pageConversation {
	p := pageConversation{Conversation: v, Rest: v.Packets - uint64(len(v.Rows))}
	p.Facts = conversationFacts(v)
	if worst := v.worst(); worst > conformance.Note {
		p.Worst = worst.String()
	}
	p.Items = c.items(v)
	return p
}

func (c *Collector) line(v *Conversation, r *Row, delta time.Duration) pageLine {
	at := strings.TrimSpace(clock(r.Time.Sub(c.start)))
	return pageLine{
		Row: r, Skipped: r.skipped, Clock: at, Delta: "+" + strings.TrimSpace(clock(delta)),
		Class: rowClass(r, v.ToRight(r)), Arrow: arrowText(v, r), Text: rung(r),
	}
}

// worst returns the highest severity of a conversation's findings, also of those whose
// packets are not shown.
func (v *Conversation) worst() conformance.Severity {
	var worst conformance.Severity
	switch {
	case v.Sum(func(s *conformance.FlowStats) uint64 { return s.Violations }) > 0:
		return conformance.Violation
	case v.Sum(func(s *conformance.FlowStats) uint64 { return s.Warnings }) > 0:
		worst = conformance.Warning
	}
	for _, r := range v.Rows { // no flow counts damaged packets
		worst = max(worst, r.Severity())
	}
	return worst
}

func conversationFacts(v *Conversation) []Field {
	facts := []Field{count(v.Packets, "packet")}
	for i := range v.Stats {
		if mtu := v.Stats[i].PathMTU; mtu > 0 {
			facts = append(facts, Field{"path MTU", fmt.Sprint(mtu)})
			break
		}
	}
	for _, n := range sums {
		if k := v.Sum(n.count); k > 0 {
			rest := n.rest
			if again := v.Sum(func(s *conformance.FlowStats) uint64 { return s.Retransmissions }); n.noun == payload && again > 0 {
				rest = ", with those of " + plural.Of(again, "packet") + " sent again"
			}
			facts = append(facts, Field{plural.Noun(k, n.noun) + rest, fmt.Sprint(k)})
		}
	}
	return facts
}

// rowClass returns the CSS classes of a row: its direction and its highest severity.
func rowClass(r *Row, right bool) string {
	class := "left"
	if right {
		class = "right"
	}
	switch {
	case r.Lost():
		class += " bad lost"
	case r.ICRC == conformance.ICRCBad:
		class += " bad"
	case r.Negative():
		class += " nak"
	case r.again():
		class += " again"
	case len(r.Tags()) > 0:
		class += " odd"
	}
	if s := r.Severity(); s > conformance.Note {
		class += " " + s.String()
	}
	if r.Notable() {
		class += " notable"
	}
	return class
}

func arrowText(v *Conversation, r *Row) string {
	to := "to the left"
	if v.ToRight(r) {
		to = "to the right"
	}
	if r.Lost() {
		to += ", and lost"
	}
	return to
}

package ladder

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

//go:embed page.html page.css page.js
var files embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{"packets": packets, "counted": plural.Of[uint64]}).ParseFS(files, "page.html"))

// page is the data of the template. All text in it may come from a hostile capture;
// html/template escapes it.
type page struct {
	Name          string
	Trouble       string // why the file could not be read to its end
	Style         template.CSS
	Script        template.JS
	Facts         []Field
	Verdict       string // class of what happened
	Happened      string
	Judged        string // how many rules were broken
	Rules         []ruleLine
	Conversations []pageConversation
	MorePackets   uint64
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
	Lines []pageLine
	Rest  uint64 // packets that are not shown
	Worst string
}

// pageLine is a packet, or a count of packets that are left out.
type pageLine struct {
	*Row
	Skipped uint64
	Clock   string
	Class   string // of the element
	Arrow   string // for readers who do not see the arrow
	Text    string
}

// WriteHTML writes the conversations as one page that loads nothing. name is the name
// of the capture, and trouble the error that ended the reading.
func (c *Collector) WriteHTML(w io.Writer, name string, s conformance.Summary, trouble error) error {
	p := page{Name: name, Verdict: verdictClass(&s, c.Outcome), Happened: happened(&s, c.Outcome), Judged: judged(&s)}
	style, err := files.ReadFile("page.css")
	if err != nil {
		return err
	}
	script, err := files.ReadFile("page.js")
	if err != nil {
		return err
	}
	p.Style, p.Script = template.CSS(style), template.JS(script)
	if trouble != nil {
		p.Trouble = trouble.Error()
	}
	p.Facts = summaryFacts(&s)
	p.Rules = ruleLines(&s)
	p.MorePackets, p.MoreFindings = c.LeftOut()
	for _, v := range c.Conversations() {
		if len(v.Rows) == 0 && len(v.Other) == 0 {
			p.Quiet++
			continue
		}
		p.Conversations = append(p.Conversations, c.pageConversation(v))
	}
	return pageTemplate.Execute(w, &p)
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
		if n.n > 0 {
			facts = append(facts, Field{n.name, fmt.Sprint(n.n)})
		}
	}
	if d := s.Last.Sub(s.First); d > 0 {
		facts = append(facts, Field{"time", d.Round(time.Microsecond).String()})
	}
	if s.ClockSteps > 0 {
		facts = append(facts, Field{plural.Noun(s.ClockSteps, "time") + " the clock goes back", fmt.Sprint(s.ClockSteps)})
	}
	return append(facts, count(uint64(len(s.Flows)+s.Forgotten), "flow"))
}

func count(n uint64, noun string) Field { return Field{plural.Noun(n, noun), fmt.Sprint(n)} }

// verdictClass returns the class that colors the head of the page: clean only if nothing happened.
func verdictClass(s *conformance.Summary, outcome string) string {
	switch {
	case s.Violations > 0:
		return "violation"
	case s.Warnings > 0 || outcome != "" || s.Happened() != "":
		return "warning"
	case empty(s):
		return "empty"
	}
	return "clean"
}

// empty reports whether there was nothing to judge.
func empty(s *conformance.Summary) bool { return len(s.Flows)+s.Forgotten == 0 && s.Violations == 0 }

// happened says what went wrong, by the outcome of the run and by the packets.
func happened(s *conformance.Summary, outcome string) string {
	wire := s.Happened()
	switch {
	case wire != "" && outcome != "":
		return outcome + "; " + wire
	case wire != "":
		return wire
	case outcome != "":
		return outcome
	case empty(s):
		return "No packet to judge"
	}
	return "No packet was sent again or refused"
}

// judged says how many rules the packets break.
func judged(s *conformance.Summary) string {
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
	return "The protocol's rules: " + strings.Join(list, ", ") + "."
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
	for _, r := range v.Rows {
		p.Lines = append(p.Lines, pageLine{
			Row: r, Skipped: r.skipped, Clock: strings.TrimSpace(clock(r.Time.Sub(c.start))),
			Class: rowClass(r, v.ToRight(r)), Arrow: arrowText(v, r), Text: rung(r),
		})
	}
	return p
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
			facts = append(facts, Field{plural.Noun(k, n.noun) + n.rest, fmt.Sprint(k)})
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
	case r.Class == conformance.ClassRetransmission || r.Class == conformance.ClassDuplicate:
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

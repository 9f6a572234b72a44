package ladder

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// laneWidth is the least distance between the uprights of a text ladder.
const laneWidth = 64

func (e End) String() string {
	if !e.Known {
		return e.Addr.String()
	}
	return fmt.Sprintf("%v qp 0x%06x", e.Addr, uint32(e.QPN))
}

// WriteText draws each conversation as text. color is for a terminal.
func (c *Collector) WriteText(w io.Writer, color bool) error {
	t := textWriter{w: w, color: color, start: c}
	all := c.Conversations()
	for _, v := range all {
		if len(v.Rows) > 0 || len(v.Other) > 0 {
			t.conversation(v)
		}
	}
	if n, findings := c.LeftOut(); n > 0 || findings > 0 {
		t.printf("%s and %s left out: --limit keeps more.\n", packets(n), plural.Of(findings, "finding"))
	}
	return t.err
}

type textWriter struct {
	w     io.Writer
	color bool
	start *Collector
	err   error
}

func (t *textWriter) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func (t *textWriter) conversation(v *Conversation) {
	width := laneWidth
	for _, r := range v.Rows {
		width = max(width, utf8.RuneCountInString(rung(r))+4)
	}
	left, right := v.Left.String(), v.Right.String()
	t.printf("%d. %s\n", v.ID, v.title())
	t.printf("%19s%s%*s\n", "", left, max(1, width+2-len(left)), right)
	for _, r := range v.Rows {
		if r.skipped > 0 {
			t.printf("%19s:  %-*s:\n", "", width-2, fmt.Sprintf("… %s left out …", packets(r.skipped)))
		}
		t.rung(v, r, width)
	}
	if rest := v.Packets - uint64(len(v.Rows)); rest > 0 {
		t.printf("%19s  not shown: %d of %s\n", "", rest, packets(v.Packets))
	}
	for i := range v.Other {
		t.printf("%19s  packet %d, not shown: %s\n", "", v.Other[i].Packet, findingText(&v.Other[i]))
	}
	t.printf("\n")
}

func packets(n uint64) string { return plural.Of(n, "packet") }

// Arrow returns the arrow between the names of the ends.
func (c *Conversation) Arrow() string {
	if c.OneWay() {
		return "→"
	}
	return "↔"
}

// payload is one of the sums.
const payload = "payload byte"

// sums are the counts of a conversation; its title has those that are titled.
var sums = [...]struct {
	noun   string
	rest   string
	titled bool
	count  func(*conformance.FlowStats) uint64
}{
	{"message", "", false, func(s *conformance.FlowStats) uint64 { return s.Messages }},
	{payload, "", false, func(s *conformance.FlowStats) uint64 { return s.Bytes }},
	{"retransmission", "", true, func(s *conformance.FlowStats) uint64 { return s.Retransmissions }},
	{"NAK", "", true, func(s *conformance.FlowStats) uint64 { return s.NAKs }},
	{"RNR NAK", "", true, func(s *conformance.FlowStats) uint64 { return s.RNRs }},
	{"CNP", "", false, func(s *conformance.FlowStats) uint64 { return s.CNPs }},
	{"PSN", " missing", false, func(s *conformance.FlowStats) uint64 { return s.Missing }},
	{"note", "", false, func(s *conformance.FlowStats) uint64 { return s.Notes }},
	{"warning", "", true, func(s *conformance.FlowStats) uint64 { return s.Warnings }},
	{"violation", "", true, func(s *conformance.FlowStats) uint64 { return s.Violations }},
}

// title returns a summary of a conversation.
func (v *Conversation) title() string {
	var b strings.Builder
	if len(v.Stats) > 0 {
		fmt.Fprintf(&b, "%v ", v.Service)
	}
	fmt.Fprintf(&b, "%v %s %v: %s", v.Left, v.Arrow(), v.Right, packets(v.Packets))
	for _, n := range sums {
		if k := v.Sum(n.count); k > 0 && n.titled {
			fmt.Fprintf(&b, ", %s", plural.Of(k, n.noun)+n.rest)
		}
	}
	if v.Guessed {
		b.WriteString(" (paired by their PSNs)")
	}
	return b.String()
}

// rung returns the text on a rung: the words without the destination, to which the
// arrow points, and the tags.
func rung(r *Row) string {
	words := r.Words()
	if r.parsed {
		words = strings.Replace(words, fmt.Sprintf(" qp 0x%06x psn", uint32(r.pkt.DestQP())), " psn", 1)
	}
	return words + tagText(r)
}

func (t *textWriter) rung(v *Conversation, r *Row, width int) {
	style, end := "", ""
	if t.color {
		style, end = terminalStyle(r)
	}
	text := " " + rung(r) + " "
	dashes := strings.Repeat("-", max(0, width-1-utf8.RuneCountInString(text)))
	to, from := ">", "<"
	if r.Lost() { // it does not arrive
		to, from = "x", "x"
	}
	if v.ToRight(r) {
		text = "-" + text + dashes[min(1, len(dashes)):] + to
	} else {
		text = from + dashes[min(1, len(dashes)):] + text + "-"
	}
	t.printf("%6d %s |%s%s%s|\n", r.Number, clock(r.Time.Sub(t.start.start)), style, text, end)
	for i := range r.Findings {
		t.printf("%19s|   %s\n", "", findingText(&r.Findings[i]))
	}
}

package ladder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/wire"
)

// Story is what is known, besides its packets, of the run whose packets a page shows.
type Story struct {
	Title   string // how the run ended, as one line of Markdown
	Command string
	Started time.Time // times of the page count from here
	Ran     time.Duration
	Badges  []Badge
	Sides   []Sentence // which side was at fault
	Events  []Sentence // errors, and ends of processes, in their order
	QPs     []QPAtEnd
	Steps   []Step // in their order
	Work    []QPWork

	places map[place]bool
}

// Badge says what is true of one part of the run.
type Badge struct {
	Class string // clean, warning, violation or empty
	Name  string
	Text  string
}

// Sentence is one line of Markdown: words, **bold words**, `code` and backslash escapes.
type Sentence struct {
	At   time.Time // zero: it is not known when
	Text string
	Bad  bool     // something is wrong
	Work *Work    // nil: it is about no work request
	QPN  wire.QPN // that it is about; 0: none
}

// Work names a work request, or a request of the peer.
type Work struct {
	QPN, PeerQPN wire.QPN
	PSN          wire.PSN
	FromPeer     bool
	ID           string // of the work request, as its journal has it; empty: it is none
	Rule         bool   // it is the first packet that a fault rule hit, of which QPN is one end
}

// QPAtEnd is a queue pair as its process left it.
type QPAtEnd struct {
	Process, Device, Type, State string
	QPN, PeerQPN                 wire.QPN // PeerQPN is 0 if it has no peer
	Queued                       uint32   // work requests

	index int
}

// Step is a queue pair that came to a state.
type Step struct {
	At             time.Time
	QPN            wire.QPN
	Process, State string
}

// QPWork is what a queue pair did with its work requests. Its times count from Since.
type QPWork struct {
	QPN   wire.QPN
	Since time.Time
	plot.Work
}

// place is where a packet goes to.
type place struct {
	qpn wire.QPN
	psn wire.PSN
}

// request and answer are where the packets of the work go to.
func (w *Work) request() place {
	if w.FromPeer {
		return place{w.QPN, w.PSN}
	}
	return place{w.PeerQPN, w.PSN}
}

func (w *Work) answer() place {
	if w.FromPeer {
		return place{w.PeerQPN, w.PSN}
	}
	return place{w.QPN, w.PSN}
}

// wants reports whether a sentence is about the packet.
func (s *Story) wants(r *Row) bool {
	if s == nil || !r.parsed {
		return false
	}
	if s.places == nil {
		s.places = make(map[place]bool)
		for _, list := range [][]Sentence{s.Sides, s.Events} {
			for i := range list {
				if w := list[i].Work; w != nil {
					s.places[w.request()], s.places[w.answer()] = true, true
				}
			}
		}
	}
	return s.places[r.place()]
}

func (r *Row) place() place { return place{r.pkt.DestQP(), r.pkt.PSN()} }

// span is a part of a sentence.
type span struct {
	Text       string
	Bold, Code bool
}

// spans takes a line of Markdown apart.
func spans(text string) (list []span) {
	var b strings.Builder
	bold, code := false, false
	end := func() {
		if b.Len() > 0 {
			list = append(list, span{printable(entities.Replace(b.String())), bold, code})
			b.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '`':
			end()
			code = !code
		case code:
			b.WriteByte(text[i])
		case strings.HasPrefix(text[i:], "**"):
			end()
			bold = !bold
			i++
		case text[i] == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(text[i])
		}
	}
	end()
	return list
}

// entities are those that the verdict's Markdown has.
var entities = strings.NewReplacer("&lt;", "<", "&amp;", "&")

// printable replaces what changes the text around it: control characters, and marks that change
// the direction of writing. Programs, files and captures choose their names.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if strconv.IsPrint(c) {
			return c
		}
		return '?'
	}, s)
}

// pageSentence is a sentence with what it leads to.
type pageSentence struct {
	ID    string
	Spans []span
	Bad   bool
	Links []link
}

// link leads to a place of the page. Work names a queue pair and its work request, for the charts.
type link struct{ To, Text, Work string }

// sentences finds the packets that sentences are about.
func (c *Collector) sentences(list []Sentence, name string, all []*Conversation) (out []pageSentence) {
	for i := range list {
		s := &list[i]
		p := pageSentence{ID: fmt.Sprintf("%s-%d", name, i+1), Spans: spans(s.Text), Bad: s.Bad}
		if s.Work != nil {
			p.Links = c.links(s.Work, all)
		}
		out = append(out, p)
	}
	return out
}

// links returns links to the first packet of a work request, to the packet that refused it, and to
// the queue pairs.
func (c *Collector) links(w *Work, all []*Conversation) (list []link) {
	var request, refusal *Row
	flow := 0
	for _, v := range all {
		if !v.about(w) {
			continue
		}
		flow = v.ID
		for _, r := range v.Rows {
			switch {
			case !r.parsed:
			case w.Rule: // either way
				if request == nil && r.Fault != "" && r.pkt.PSN() == w.PSN {
					request = r
				}
			case request == nil && r.place() == w.request() && r.pkt.Info().Has(wire.OpRequest):
				request = r
			case r.place() == w.answer() && r.Negative():
				refusal = r
			}
		}
	}
	if request != nil {
		list = append(list, link{To: fmt.Sprintf("#packet-%d", request.Number), Text: fmt.Sprintf("its packet %d", request.Number)})
	}
	if refusal != nil {
		list = append(list, link{To: fmt.Sprintf("#packet-%d", refusal.Number), Text: fmt.Sprintf("refused by packet %d", refusal.Number)})
	}
	if flow != 0 {
		list = append(list, link{To: fmt.Sprintf("#flow-%d", flow), Text: fmt.Sprintf("flow %d", flow)})
	}
	for i := range c.Story.Work {
		if q := &c.Story.Work[i]; c.Plot != nil && w.ID != "" && q.QPN == w.QPN && slices.ContainsFunc(q.Requests, func(r plot.Request) bool { return r.ID == w.ID }) {
			list = append(list, link{To: "#timeline", Text: "work request " + w.ID, Work: qpName(w.QPN) + " " + w.ID})
		}
	}
	for i := range c.Story.QPs {
		if q := &c.Story.QPs[i]; q.QPN == w.QPN {
			return append(list, link{To: "#" + q.ID(), Text: fmt.Sprintf("queue pair 0x%06x", uint32(q.QPN))})
		}
	}
	return list
}

// about reports whether the conversation may be that of a work request.
func (v *Conversation) about(w *Work) bool {
	if w.Rule {
		return v.Left.Known && v.Left.QPN == w.QPN || v.Right.Known && v.Right.QPN == w.QPN
	}
	is := func(e End, q wire.QPN) bool { return !e.Known || e.QPN == q }
	return is(v.Left, w.QPN) && is(v.Right, w.PeerQPN) || is(v.Left, w.PeerQPN) && is(v.Right, w.QPN)
}

// ID is that of the queue pair's row on the page.
func (q QPAtEnd) ID() string { return fmt.Sprintf("qp-%06x-%d", uint32(q.QPN), q.index) }

package ladder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxTold is how many directions have a sentence of their own.
	maxTold = 8
	// maxQuiet is how many directions in which all went well have one.
	maxQuiet = 4
	// maxTalk is how many messages of the connection manager one sentence has.
	maxTalk = 8
)

// direction is one direction of a conversation: its requests, and the answers to them.
type direction struct {
	from, to End
	service  wire.Service
	section  int
	requests conformance.FlowStats
	answers  conformance.FlowStats
	told     plot.Told // of the requests
	back     plot.Told // of the flow that has the answers
	// what fault rules did to requests and to answers, without those that they lost
	hits [2]string
}

// trouble is how much went wrong.
func (d *direction) trouble() uint64 {
	return d.requests.Retransmissions + d.requests.Timeouts + d.requests.Marked + d.told.Lost.Seen + d.told.Hit.Seen + d.told.Open +
		d.answers.NAKs + d.answers.Retransmissions + d.answers.RNRs + d.answers.CNPs + d.back.LostAnswers.Seen + d.back.HitAnswers.Seen
}

// saw says what the packets of each connection show, the worst first.
func (c *Collector) saw(all []*Conversation) []pageSentence {
	if c.Plot == nil {
		return nil
	}
	var list []direction
	var out []pageSentence
	there := make(map[int]bool) // packets on the page
	for _, v := range all {
		for _, r := range v.Rows {
			there[r.Number] = true
		}
		if s, ok := c.talk(v); ok {
			if len(out) < maxTold {
				out = append(out, s)
			}
			continue
		}
		for i, f := range v.flows {
			if f == nil || f.Stats.Requests == 0 {
				continue
			}
			d := direction{from: v.Left, to: v.Right, service: v.Service, section: v.ID, requests: f.Stats, told: c.Plot.Told(f)}
			d.hits[0] = c.deeds.of(f, false)
			if i == 1 {
				d.from, d.to = d.to, d.from
			}
			if len(v.flows) == 2 && v.flows[1-i] != nil {
				d.answers, d.back = v.flows[1-i].Stats, c.Plot.Told(v.flows[1-i])
				d.hits[1] = c.deeds.of(v.flows[1-i], true)
			}
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b direction) int { return cmp.Compare(b.trouble(), a.trouble()) })
	bad := slices.IndexFunc(list, func(d direction) bool { return d.trouble() == 0 })
	if bad < 0 {
		bad = len(list)
	}
	processes := c.processes()
	shown := min(bad, maxTold)
	if quiet := len(list) - bad; quiet <= maxQuiet && bad <= maxTold {
		shown = len(list)
	}
	for i := range list[:shown] {
		out = append(out, list[i].sentence(processes, there))
	}
	if n := bad - shown; n > 0 {
		out = append(out, pageSentence{Spans: []span{{Text: fmt.Sprintf("In %s, too, packets were lost, sent again or refused: see the flows below.", plural.Of(n, "more direction"))}}})
	}
	if shown <= bad && bad < len(list) {
		out = append(out, quiet(list[bad:], processes, there))
	}
	for i := range out {
		out[i].ID = fmt.Sprintf("wire-%d", i+1)
	}
	return out
}

// quiet says that all went well in some directions.
func quiet(list []direction, processes map[wire.QPN]string, there map[int]bool) pageSentence {
	packets, messages, slowest := uint64(0), uint64(0), &list[0]
	sections := make(map[int]bool)
	for i := range list {
		d := &list[i]
		packets, messages = packets+d.requests.Requests, messages+d.told.Messages
		sections[d.section] = true
		if d.told.Slowest > slowest.told.Slowest {
			slowest = d
		}
	}
	where := "On " + plural.Of(len(sections), "connection")
	if len(sections) < len(list) {
		where = fmt.Sprintf("In %s of %s", plural.Of(len(list), "direction"), plural.Of(len(sections), "connection"))
	}
	text := fmt.Sprintf("%s nothing was lost, sent again or refused: %s in %s", where, plural.Of(messages, "message"), plural.Of(packets, "request packet"))
	if slowest.told.Slowest == 0 {
		return pageSentence{Spans: []span{{Text: text + "."}}}
	}
	s := pageSentence{Spans: []span{{Text: text + ", each acknowledged within " + duration(slowest.told.Slowest) + ", the slowest that of "}}}
	s.Spans = append(append(s.Spans, slowest.from.name(processes)...), span{Text: "."})
	if n := slowest.told.SlowestNumber; there[n] {
		s.Links = append(s.Links, to(n, "slowest"))
	}
	s.Links = append(s.Links, link{To: fmt.Sprintf("#flow-%d", slowest.section), Text: fmt.Sprintf("flow %d", slowest.section)})
	return s
}

// name writes an end with its process.
func (e End) name(processes map[wire.QPN]string) []span {
	if !e.Known {
		return []span{{Text: e.Addr.String()}}
	}
	if process := processes[e.QPN]; process != "" {
		return []span{{Text: process + " "}, {Text: qpName(e.QPN), Bold: true}}
	}
	return []span{{Text: e.Addr.String() + " "}, {Text: qpName(e.QPN), Bold: true}}
}

// sentence says what happened in one direction.
func (d *direction) sentence(processes map[wire.QPN]string, there map[int]bool) pageSentence {
	s := pageSentence{Spans: slices.Concat(d.from.name(processes), []span{{Text: " → "}}, d.to.name(processes))}
	clauses := []string{fmt.Sprintf("%s in %s", plural.Of(d.told.Messages, "message"), plural.Of(d.requests.Requests, "request packet"))}
	add := func(n uint64, first plot.First, what, link string) {
		if n == 0 {
			return
		}
		text := what
		if first.Number > 0 {
			text += fmt.Sprintf(", first after %.3f s", first.At.Seconds())
			if there[first.Number] {
				s.Links = append(s.Links, to(first.Number, link))
			}
		}
		clauses = append(clauses, text)
	}
	q, a := &d.requests, &d.answers
	add(d.told.Lost.Seen, d.told.Lost, "fault rules lost "+plural.Of(d.told.Lost.Seen, "packet")+" on the way", "lost")
	if d.hits[0] != "" {
		add(1, d.told.Hit, "fault rules "+d.hits[0], "hit")
	}
	add(d.back.LostAnswers.Seen, d.back.LostAnswers, "fault rules lost "+plural.Of(d.back.LostAnswers.Seen, "answer"), "lost answer")
	if d.hits[1] != "" {
		add(1, d.back.HitAnswers, "fault rules "+d.hits[1], "hit answer")
	}
	add(q.Marked, plot.First{}, plural.Of(q.Marked, "packet")+" came marked for congestion (CE)", "")
	add(a.CNPs, d.back.CNP, "the receiver asked "+often(a.CNPs)+" to slow down (CNP)", "CNP")
	if a.Requests == 0 { // else they may be about requests
		add(a.Marked, plot.First{}, plural.Of(a.Marked, "answer")+" came marked for congestion (CE)", "")
		add(q.CNPs, d.told.CNP, "the sender asked "+often(q.CNPs)+" to slow down (CNP)", "CNP of the sender")
	}
	gaps := a.NAKCodes[wire.NAKPSNSequence]
	add(gaps, d.back.NAK, "the receiver missed a packet "+often(gaps)+" (NAK: PSN sequence error)", "NAK")
	if gaps > 0 {
		d.back.NAK = plot.First{} // it may be the first of the others
	}
	add(a.NAKs-gaps, d.back.NAK, "the receiver refused "+often(a.NAKs-gaps)+" ("+nakWords(a)+")", "NAK")
	add(a.RNRs, d.back.RNR, "the receiver answered "+often(a.RNRs)+" that it had no receive (RNR NAK)", "RNR NAK")
	if d.back.LostAnswers.Seen == 0 {
		add(q.Timeouts, d.told.Timeout, "the sender waited "+often(q.Timeouts)+" until its timeout", "sent again after a timeout")
	} else { // the checker takes a NAK that was lost for the reason
		add(q.Timeouts, plot.First{}, "the sender waited at least "+often(q.Timeouts)+" until its timeout", "")
		if there[d.told.Timeout.Number] {
			s.Links = append(s.Links, to(d.told.Timeout.Number, "sent again after a timeout"))
		}
	}
	if d.told.Silence > 0 {
		clauses[len(clauses)-1] += d.silence(&s, there)
	}
	add(q.Retransmissions, d.told.Again, plural.Of(q.Retransmissions, "packet")+" "+was(q.Retransmissions)+" sent again", "sent again")
	if a.Requests == 0 { // else they may be requests
		add(a.Retransmissions, plot.First{}, plural.Of(a.Retransmissions, "answer")+" "+was(a.Retransmissions)+" sent again", "")
	}
	if len(clauses) == 1 && d.unanswered() > 0 {
		clauses = append(clauses, "no packet was lost, sent again or refused")
	} else if len(clauses) == 1 {
		clauses = append(clauses, "nothing was lost, sent again or refused")
	}
	clauses = append(clauses, d.acknowledged())
	s.Bad = d.unanswered() > 0
	if n := d.told.SlowestNumber; there[n] {
		s.Links = append(s.Links, to(n, "slowest"))
	}
	s.Spans = append(s.Spans, span{Text: fmt.Sprintf(" (%v): ", d.service) + strings.Join(slices.DeleteFunc(clauses, func(s string) bool { return s == "" }), "; ") + "."})
	s.Links = append(s.Links, link{To: fmt.Sprintf("#flow-%d", d.section), Text: fmt.Sprintf("flow %d", d.section)})
	return s
}

// unanswered is how many messages have no acknowledgement.
func (d *direction) unanswered() uint64 {
	if d.service == wire.ServiceUC || d.service == wire.ServiceUD {
		return 0
	}
	return d.told.Open
}

// silence says how long neither end sent a packet before a timer ended.
func (d *direction) silence(s *pageSentence, there map[int]bool) string {
	if d.told.Stall.Number != d.told.Timeout.Number && there[d.told.Stall.Number] {
		s.Links = append(s.Links, to(d.told.Stall.Number, "after the longest silence"))
	}
	if d.requests.Timeouts == 1 {
		return ", with " + duration(d.told.Silence) + " of silence before"
	}
	return fmt.Sprintf(", the longest with %s of silence before packet %d", duration(d.told.Silence), d.told.Stall.Number)
}

// acknowledged says how long acknowledgements took, and whether all came.
func (d *direction) acknowledged() string {
	if d.service == wire.ServiceUC || d.service == wire.ServiceUD {
		return ""
	}
	text := ""
	if d.told.Slowest > 0 {
		text = fmt.Sprintf("half of the messages were acknowledged within %s, the slowest, sent after %.3f s, within %s", duration(d.told.Median), d.told.SlowestFrom.Seconds(), duration(d.told.Slowest))
	}
	switch {
	case d.told.Open > 0 && text == "":
		return plural.Of(d.told.Open, "message") + " " + was(d.told.Open) + " never acknowledged"
	case d.told.Open > 0:
		return text + ", but " + plural.Of(d.told.Open, "message") + " " + was(d.told.Open) + " never acknowledged"
	case text != "":
		return text + "; every message was acknowledged"
	}
	return ""
}

// often says how many times.
func often(n uint64) string {
	if n == 1 {
		return "once"
	}
	return plural.Of(n, "time")
}

func was(n uint64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// nakWords says what NAKs say.
func nakWords(s *conformance.FlowStats) string {
	var words []string
	for code, n := range s.NAKCodes {
		if n > 0 && wire.NAKCode(code) != wire.NAKPSNSequence {
			words = append(words, wire.NAKCode(code).String())
		}
	}
	if len(words) == 0 {
		return "a NAK with a reserved code"
	}
	return "NAK: " + strings.Join(words, ", ")
}

func to(number int, what string) link {
	return link{To: fmt.Sprintf("#packet-%d", number), Text: fmt.Sprintf("%s: packet %d", what, number)}
}

// talk says what the connection manager's messages of a conversation are; false: it has none.
func (c *Collector) talk(v *Conversation) (s pageSentence, ok bool) {
	n := 0
	for r, cm := range v.managed() {
		if n++; n > maxTalk {
			continue
		}
		words := cm.CMAttribute().String()
		if cm.CMAttribute() == wire.AttrREJ {
			s.Bad, words = true, printable(cm.String())
			s.Links = append(s.Links, to(r.Number, "REJ"))
		}
		before := "; "
		if n == 1 {
			before = "The connection manager: "
		}
		s.Spans = append(s.Spans, span{Text: fmt.Sprintf("%s%v sent ", before, r.Src)}, span{Text: words, Bold: true},
			span{Text: fmt.Sprintf(" after %.6f s", r.Time.Sub(c.start).Seconds())})
	}
	if n == 0 {
		return s, false
	}
	end := "."
	if n > maxTalk {
		end = fmt.Sprintf("; and %s more.", plural.Of(n-maxTalk, "message"))
	}
	s.Spans = append(s.Spans, span{Text: end})
	s.Links = append(s.Links, link{To: fmt.Sprintf("#flow-%d", v.ID), Text: fmt.Sprintf("flow %d", v.ID)})
	return s, true
}

package fault

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Event is one hit.
type Event struct {
	Time   time.Time `json:"time"`
	Device string    `json:"device,omitempty"`
	QP     wire.QPN  `json:"qp,omitempty"`
	PSN    uint32    `json:"psn"`
	Opcode string    `json:"opcode,omitempty"`
	Verb   string    `json:"verb,omitempty"`
	Work   string    `json:"work,omitempty"`  // the operation of a work request
	Limit  string    `json:"limit,omitempty"` // that was exceeded
}

// note records a hit.
func (e *entry) note(ev Event) {
	if e.tally != nil {
		e.tally.n[e.rule.Where][e.rule.What].Add(1)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first.Time.IsZero() {
		e.first = ev
	}
	e.last = ev
	if ev.QP != 0 && !slices.Contains(e.hit[:], ev.QP) {
		e.hit[e.hits%len(e.hit)] = ev.QP
		e.hits++
	}
}

// Blame returns rules that hit one of two queue pairs, each with its number and its text. They are
// those for packets that may explain why no answer came. With rnr they are those that kept messages
// from finding a receive.
func (s *Set) Blame(one, other wire.QPN, rnr bool) (rules []string) {
	for _, e := range s.published() {
		if may := e.rule.mayLose(); rnr && e.rule.What != RNR || !rnr && !may {
			continue
		}
		e.mu.Lock()
		hit := slices.Contains(e.hit[:], one) || other != 0 && slices.Contains(e.hit[:], other)
		e.mu.Unlock()
		if hit {
			rules = append(rules, e.label())
		}
	}
	return rules
}

// mayLose reports whether a packet that the rule hits may not arrive, or not in time.
func (r *Rule) mayLose() bool {
	return r.asked() == WherePacket && r.What != Mark && r.What != Duplicate
}

// label returns the rule's number, with its text.
func (e *entry) label() string { return fmt.Sprintf("%d (%s)", e.id, &e.rule) }

// Status is a rule and what it did.
type Status struct {
	ID         uint64 `json:"id"`
	Name       string `json:"name,omitempty"`
	Rule       string `json:"rule"`
	Candidates uint64 `json:"candidates"`
	Fired      uint64 `json:"fired"`
	// packets lost, because there was no room to keep them
	NoRoom uint64 `json:"no_room,omitempty"`
	First  *Event `json:"first,omitempty"`
	Last   *Event `json:"last,omitempty"`
}

func (e *entry) status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		ID: e.id, Name: e.rule.Name, Rule: e.rule.String(),
		Candidates: e.candidates.Load(), Fired: e.fired.Load(), NoRoom: e.lost.Load(),
	}
	if first, last := e.first, e.last; !first.Time.IsZero() {
		s.First, s.Last = &first, &last
	}
	return s
}

// Missed returns the rules that never fired.
func Missed(list []Status) (missed []Status) {
	for _, s := range list {
		if s.Fired == 0 {
			missed = append(missed, s)
		}
	}
	return missed
}

// WriteTable writes a table of rules for people.
func WriteTable(w io.Writer, list []Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tCANDIDATES\tFIRED\tFIRST\tLAST\tRULE")
	for _, s := range list {
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\n", s.ID, s.Candidates, s.Fired, s.First, s.Last, s.Rule)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		if s.NoRoom == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "rule %d lost %s: there was no room to keep more\n", s.ID, plural(s.NoRoom, "packet")); err != nil {
			return err
		}
	}
	return nil
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// String returns the time and the packet; a dash for nil.
func (e *Event) String() string {
	if e == nil {
		return "-"
	}
	s := e.Time.Format("15:04:05.000000")
	if e.Device != "" {
		s += " " + e.Device
	}
	if e.QP != 0 {
		s += fmt.Sprintf(" qp 0x%06x", uint32(e.QP))
	}
	if what := e.Verb + e.Work + e.Limit; what != "" {
		s += " " + what
	}
	if e.Opcode != "" {
		s += fmt.Sprintf(" psn 0x%06x", e.PSN)
	}
	return s
}

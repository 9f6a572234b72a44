package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// event is what happened at a time; the zero time is not known.
type event struct {
	at     time.Time
	text   string
	bad    bool            // something is wrong
	record *explain.Record // that it is about; nil: about none
	hit    *fault.Event    // the first of a fault rule
}

// sortEvents puts events in their order. Those of unknown time stay in front.
func sortEvents(list []event) {
	slices.SortStableFunc(list, func(a, b event) int { return a.at.Compare(b.at) })
}

// after says how long after the start of the program something happened.
func (r *Run) after(at time.Time) string {
	return fmt.Sprintf("%.3f s", max(at.Sub(r.Started), 0).Seconds())
}

// ends are the ends of processes that had a device open, in their order. The daemon learns of an
// end some time after it. If an error says that the process had ended before, the end has the
// error's time.
func (r *Run) ends() []proto.ProcessEnd {
	if r.Report == nil {
		return nil
	}
	ends, records := slices.Clone(r.Report.Ends), r.records()
	for i := range ends {
		for j := range records {
			if x := &records[j]; x.AfterEnd && x.PID == ends[i].PID && x.Time.Before(ends[i].Time) {
				ends[i].Time = x.Time
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b proto.ProcessEnd) int { return a.Time.Compare(b.Time) })
	return ends
}

// nameOf returns the name of a process for the page.
func nameOf(role, program string, pid int) string {
	if role == "" {
		return "`" + code(explain.NameOf("", cmp.Or(program, "?"), pid)) + "`"
	}
	return fmt.Sprintf("the %s (`%s`, pid %d)", plain(role), code(program), pid)
}

// whose returns the name of the process that a record is of.
func whose(x *explain.Record) string { return nameOf(x.Role, x.Program, x.PID) }

// start begins a sentence.
func start(s string) string {
	if strings.HasPrefix(s, "the ") {
		return "The " + s[len("the "):]
	}
	return s
}

// howEnded says how a process ended.
func (r *Run) howEnded(e *proto.ProcessEnd) string {
	switch {
	case r.ordered(e):
		return "was killed by the fault rule (SIGKILL)"
	case e.Stopped:
		return "was ended by gorxe pair"
	case e.Signal != "":
		return "was killed by " + e.Signal
	case e.Status != nil:
		return fmt.Sprintf("exited with status %d", *e.Status)
	}
	return "ended (this kernel does not say how)"
}

// bad reports whether a process ended otherwise than by itself and with success, and gorxe did not
// end it.
func bad(e *proto.ProcessEnd) bool {
	return !e.Stopped && (e.Signal != "" || e.Status != nil && *e.Status != 0)
}

// notable returns the ends of processes that the page names: bad ends, ends that gorxe caused, and
// ends that an error followed.
func (r *Run) notable() (list []*proto.ProcessEnd) {
	var last time.Time
	for _, x := range r.records() {
		if x.Time.After(last) {
			last = x.Time
		}
	}
	ends := r.ends()
	for i := range ends {
		if bad(&ends[i]) || ends[i].Stopped || ends[i].Time.Before(last) {
			list = append(list, &ends[i])
		}
	}
	return list
}

// firstDeath is the first process that a signal killed or that exited with an error, if nothing
// went wrong before. It is nil if the first errors are not kept any more.
func (r *Run) firstDeath() *proto.ProcessEnd {
	ends, records := r.ends(), r.records()
	if r.Report != nil && r.kept() < r.Report.Errors.Total {
		return nil
	}
	i := slices.IndexFunc(ends, func(e proto.ProcessEnd) bool { return bad(&e) })
	if i < 0 || len(records) > 0 && records[0].Time.Before(ends[i].Time) {
		return nil
	}
	return &ends[i]
}

// wentWell reports whether the program ended with success and the device saw no error.
func (r *Run) wentWell() bool {
	return !r.Failed() && r.Report != nil && r.Report.Errors.Total == 0 && r.misuse() == 0
}

// ended reports whether a signal is one that a script sends to a server when its work is done. The
// others say that the program itself is wrong.
func ended(signal string) bool {
	return slices.Contains([]string{"SIGTERM", "SIGINT", "SIGHUP", "SIGKILL", "SIGPIPE"}, signal)
}

// deaths are the sentences about processes that signals killed, for the list of the sides at fault.
func (r *Run) deaths() (list []event) {
	first := r.firstDeath()
	for _, e := range r.notable() {
		isFirst := first != nil && *e == *first
		if e.Stopped || e.Signal == "" && !isFirst || r.wentWell() && ended(e.Signal) {
			continue
		}
		what := ""
		if isFirst && len(r.records()) > 0 {
			what = " first. What is below came later, and may follow from it"
		}
		name := fmt.Sprintf("**Process %d** (`%s`)", e.PID, code(e.Name))
		if e.Role != "" {
			name = fmt.Sprintf("**The %s** (`%s`, pid %d)", plain(e.Role), code(e.Name), e.PID)
		}
		list = append(list, event{at: e.Time, text: fmt.Sprintf("%s, after %s: it %s%s.", name, r.after(e.Time), r.howEnded(e), what), bad: !r.ordered(e)})
		if len(list) == maxRows {
			break
		}
	}
	return list
}

// ordered reports whether a fault rule killed the process.
func (r *Run) ordered(e *proto.ProcessEnd) bool {
	return !e.Stopped && e.Signal == "SIGKILL" && slices.ContainsFunc(r.Faults, func(f fault.Status) bool { return f.Fired > 0 && strings.HasPrefix(f.Rule, "peer killed") })
}

// ending is the title: how the program ended, and what went wrong in it.
func (r *Run) ending() string {
	trouble := r.trouble()
	var s string
	switch {
	case r.Signal != "":
		s = r.subject() + " was killed by " + r.Signal
	case r.Missed && r.Exit == 0 && trouble == "":
		s = "a fault rule never fired"
	case r.Missed && r.Exit == 0:
		s = "a fault rule never fired, and " + trouble
	case r.Exit != 0:
		s = fmt.Sprintf("%s failed with exit status %d", r.subject(), r.Exit)
	case trouble != "":
		return r.subject() + " exited with status 0, but " + trouble + r.afterDeath()
	default:
		return r.subject() + " ended well"
	}
	return s + r.afterDeath()
}

// subject names what has ended. The exit status of a pair is that of one end.
func (r *Run) subject() string {
	if len(r.Hosts) > 0 {
		return r.ofLab()
	}
	if r.Role != "" {
		return "the " + plain(r.Role)
	}
	if !r.Pair {
		return "the program"
	}
	if r.Exit != 0 {
		for _, role := range []string{proto.RoleClient, proto.RoleServer} {
			if slices.ContainsFunc(r.ends(), func(e proto.ProcessEnd) bool { return e.Role == role && e.Status != nil && *e.Status == r.Exit }) {
				return "the " + role
			}
		}
	}
	return "the pair"
}

// afterDeath names the process that died before anything else went wrong.
func (r *Run) afterDeath() string {
	d := r.firstDeath()
	if d == nil || d.Signal == r.Signal && r.Signal != "" || d.Signal == "" && len(r.records()) == 0 {
		return "" // that is the program itself, or the title says it already
	}
	return fmt.Sprintf(", after %s %s", nameOf(d.Role, d.Name, d.PID), r.howEnded(d))
}

// troubleKinds are what trouble counts, in this order.
var troubleKinds = [...]struct {
	kind      explain.Kind
	one, many string
}{
	{explain.Completion, "1 work request failed", "%d work requests failed"},
	{explain.Refusal, "1 verb was refused", "%d verbs were refused"},
	{explain.Request, "1 request of a peer was refused", "%d requests of peers were refused"},
	{explain.Overflow, "1 completion queue was full", "completion queues were full %d times"},
}

// trouble counts the errors; empty: there were none.
func (r *Run) trouble() string {
	if n := r.misuse(); n > 0 {
		return "the sanitizer found " + plural.Of(n, "error")
	}
	if r.Report == nil || r.Report.Errors.Total == 0 {
		return ""
	}
	kinds := make(map[explain.Kind]uint64)
	for _, x := range r.records() {
		kinds[x.Kind] += x.Count
	}
	var parts []string
	for _, k := range troubleKinds {
		switch n := kinds[k.kind]; n {
		case 0:
		case 1:
			parts = append(parts, k.one)
		default:
			parts = append(parts, fmt.Sprintf(k.many, n))
		}
	}
	if r.kept() != r.Report.Errors.Total || len(parts) == 0 {
		return "the device saw " + plural.Of(r.Report.Errors.Total, "error")
	}
	return strings.Join(parts, " and ")
}

// peerEnded says when the process ended whose queue pair did not answer; empty: it is not known to
// have ended before.
func (r *Run) peerEnded(x *explain.Record) string {
	for _, e := range r.ends() {
		if !e.Time.Before(x.Time) || !r.had(e.PID, x.PeerQPN) {
			continue
		}
		owner := fmt.Sprintf("process %d (`%s`)", e.PID, code(e.Name))
		if e.Role != "" {
			owner = nameOf(e.Role, e.Name, e.PID)
		}
		return fmt.Sprintf(" That queue pair was of %s, which %s after %s.", owner, r.howEnded(&e), r.after(e.Time))
	}
	return ""
}

// had reports whether a process left a queue pair behind.
func (r *Run) had(pid int, qpn uint32) bool {
	for i := range r.Report.Ended {
		p := &r.Report.Ended[i]
		if p.PID != pid {
			continue
		}
		for j := range p.Files {
			if slices.ContainsFunc(p.Files[j].QPs, func(q proto.QPStatus) bool { return q.QPN == qpn }) {
				return true
			}
		}
	}
	return false
}

// happened is the list of errors and of ends, in their order.
func (r *Run) happened() (events []event) {
	records := r.records()
	for i := range records {
		x := &records[i]
		times := ""
		if x.Count > 1 {
			times = fmt.Sprintf(" (%d times)", x.Count)
		}
		what := x.String()
		if nobodyListens(x) != "" {
			what = x.What + "." // the sides at fault have the advice
		}
		killed := x.AfterEnd && slices.ContainsFunc(r.ends(), func(e proto.ProcessEnd) bool { return e.PID == x.PID && r.ordered(&e) })
		events = append(events, event{x.Time, fmt.Sprintf("%s: %s%s", whose(x), cell(what), times), !killed, x, nil})
	}
	var ends []event
	for _, e := range r.notable() {
		ends = append(ends, event{at: e.Time, text: fmt.Sprintf("%s %s.", nameOf(e.Role, e.Name, e.PID), r.howEnded(e)), bad: bad(e) && !r.ordered(e)})
	}
	events = append(ends, events...) // at the same time, an end comes first
	sortEvents(events)
	for i := range events {
		e := &events[i]
		if e.at.IsZero() {
			e.text = start(e.text)
		} else {
			e.text = "After " + r.after(e.at) + ", " + e.text
		}
	}
	return events
}

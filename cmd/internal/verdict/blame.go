package verdict

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// sender is what one address sent.
type sender struct {
	address                       netip.Addr
	packets, violations, warnings uint64
}

// senders returns what each address sent, in the order of the addresses.
func senders(c *report.Capture) []sender {
	by := make(map[netip.Addr]*sender)
	for _, f := range c.Flows {
		s := by[f.Src]
		if s == nil {
			s = &sender{address: f.Src}
			by[f.Src] = s
		}
		s.packets += f.Stats.Packets
		s.violations += f.Stats.Violations
		s.warnings += f.Stats.Warnings
	}
	list := make([]sender, 0, len(by))
	for _, s := range by {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b sender) int { return a.address.Compare(b.address) })
	return list
}

// damaged returns a rule that damaged packets; empty: none did.
func damaged(faults []fault.Status) string {
	for i := range faults {
		if f := &faults[i]; f.Fired > 0 && (strings.HasPrefix(f.Rule, "packet corrupt") || strings.HasPrefix(f.Rule, "packet truncate")) {
			return f.Rule
		}
	}
	return ""
}

// blame returns sentences about which side was at fault, as far as it can be known.
func (r *Run) blame(c *report.Capture) []event {
	list := slices.Concat(r.blameMisuse(), r.blameRules(), blameDevices(c, r.Faults), r.deaths(), r.blameSides(c))
	sortEvents(list)
	switch {
	case len(list) > 0 && (len(r.records()) > 0 || r.Report == nil || !r.Failed()):
	case len(list) > 0:
		list = append(list, event{text: "The device refused no verb, and no work request failed. See the program's own output, too."})
	case r.Report == nil:
		list = append(list, event{text: "It is not known, because the daemon is gone: " + cell(r.Trouble) + ".", bad: true})
	case !r.Failed():
		list = append(list, event{text: "No one: " + r.subject() + " ended well, and the device saw no error."})
	case r.Missed && r.Exit == 0 && r.Signal == "":
		list = append(list, event{text: "No one: " + r.subject() + " ended well. A fault rule found nothing to hit: see the table below."})
	case r.Signal == "SIGTERM" && r.Role != "":
		list = append(list, event{text: "gorxe pair ends an end so when the other one has failed, or by --stop-server: see the verdict of the other end. Here, the device refused no verb, and no work request failed.", bad: true})
	case r.Signal != "":
		list = append(list, event{text: "Who sent " + r.Signal + " to " + r.subject() + " is not known. The device refused no verb, and no work request failed.", bad: true})
	default:
		list = append(list, event{text: "**" + start(r.subject()) + "**, outside of RDMA: the device refused no verb and no work request failed. See the program's own output.", bad: true})
	}
	return list
}

// blameSides says of each side what the first error was for which it was at fault.
func (r *Run) blameSides(c *report.Capture) (list []event) {
	for _, side := range []struct {
		side explain.Side
		says string
	}{
		{explain.Both, "**Both ends**, which do not agree. %s: %s"},
		{explain.Program, "%s: %s"},
		{explain.Limit, "**A limit of the machine or of the daemon**, which %s met: %s"},
		{explain.Peer, "**The peer** of %s: %s"},
		{explain.Network, "**The network**, for %s: %s"},
		{explain.Unreachable, "**The peer or the network**, for %s: %s"},
	} {
		x, n := r.first(side.side)
		if x == nil {
			continue
		}
		name := "`" + code(cmp.Or(x.Program, "a process")) + "`"
		switch {
		case x.Role != "" && side.side == explain.Program:
			name = fmt.Sprintf("**The %s** (`%s`, pid %d)", plain(x.Role), code(x.Program), x.PID)
		case x.Role != "" && side.side == explain.Both:
			name = start(whose(x))
		case x.Role != "":
			name = whose(x)
		case side.side == explain.Program:
			name = "**The program** " + name
		}
		s := fmt.Sprintf(side.says, name, cell(x.String()))
		if where := nobodyListens(x); where != "" {
			s = fmt.Sprintf("**Nobody listens** at %s, where %s connects by RDMA CM; %s.", cell(where), name, cell(advice(x)))
		}
		if n > 1 {
			s += fmt.Sprintf(" This is the first of %d errors of this kind.", n)
		}
		if o := x.Refuser(r.records()); o != nil {
			s += fmt.Sprintf(" %s: %s.", start(whose(o)), cell(o.What))
		}
		if side.side == explain.Unreachable {
			s += r.silence(c, x) + r.peerEnded(x)
		}
		// One error often has a record on each side. So the sides stay together, in their order.
		list = append(list, event{r.records()[0].Time, s, true, x, nil})
	}
	return list
}

// nobodyListens says where a program connected in vain; empty: the record says something else.
func nobodyListens(x *explain.Record) string {
	if x.Fault != explain.Peer {
		return ""
	}
	_, where, _ := strings.Cut(x.What, ": nothing listens by RDMA CM at ")
	return where
}

// advice is how to mend an error; without that for perftest, if the program is another one.
func advice(x *explain.Record) string {
	if strings.Contains(x.Program, "ib_") {
		return x.Fix
	}
	before, _, _ := strings.Cut(x.Fix, " (perftest: ")
	return before
}

// asTyped is a fault rule as the command has it; a rule of a file is as gorxe writes it.
func (r *Run) asTyped(rule string) string {
	for _, arg := range r.Command {
		text := strings.TrimPrefix(arg, "--fault=")
		if typed, err := fault.Parse(text); err == nil && typed.String() == rule {
			return text
		}
	}
	return rule
}

// first returns the first record with a side at fault, and how many there are.
func (r *Run) first(side explain.Side) (x *explain.Record, n uint64) {
	list := r.records()
	for i := range list {
		if list[i].Fault == side && !r.toldTwice(&list[i]) && !r.ofTheDead(&list[i]) {
			if x == nil {
				x = &list[i]
			}
			n += list[i].Count
		}
	}
	return x, n
}

// ofTheDead reports whether the program had ended badly before the error: its end says it.
func (r *Run) ofTheDead(x *explain.Record) bool {
	return x.AfterEnd && slices.ContainsFunc(r.ends(), func(e proto.ProcessEnd) bool { return e.PID == x.PID && bad(&e) })
}

// toldTwice reports whether the peer of this error is a program of this run that has a record of
// the same mistake, which names the side at fault.
func (r *Run) toldTwice(x *explain.Record) bool {
	if o := x.Refuser(r.records()); o != nil && o.Fault == explain.Both {
		return true
	}
	return x.Fault == explain.Peer && slices.ContainsFunc(r.records(), func(o explain.Record) bool {
		return o.Fault == explain.Program && o.QPN == x.PeerQPN && o.PeerQPN == x.QPN
	})
}

// blameRules says what fault rules did.
func (r *Run) blameRules() (list []event) {
	for i := range r.Faults[:min(len(r.Faults), maxRows)] {
		if f := &r.Faults[i]; f.Fired > 0 {
			var at time.Time
			if f.First != nil {
				at = f.First.Time
			}
			list = append(list, event{at: at, hit: f.First, text: r.blameRule(f)})
		}
	}
	return list
}

// times says how often.
func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return plural.Of(n, "time")
}

// blameRule says what a fault rule did, and since when.
func (r *Run) blameRule(f *fault.Status) string {
	text := fmt.Sprintf("**The fault rule** `%s`, on purpose: it fired %s", code(r.asTyped(f.Rule)), times(f.Fired))
	if f.First != nil && !f.First.Time.IsZero() {
		first := ", first after "
		if f.Fired == 1 {
			first = ", after "
		}
		text += first + r.after(f.First.Time)
		if f.First.QP != 0 {
			text += fmt.Sprintf(", at queue pair 0x%06x", uint32(f.First.QP))
		}
	}
	if len(r.records()) > 0 || r.Failed() {
		return text + ". Errors below may follow from it."
	}
	return text + "."
}

// blameDevices names the senders that broke the protocol.
func blameDevices(c *report.Capture, faults []fault.Status) (list []event) {
	for _, s := range senders(c) {
		if s.violations == 0 {
			continue
		}
		if damaged(faults) != "" {
			list = append(list, event{text: fmt.Sprintf("The packets of %v break the protocol, and a fault rule damaged packets.", s.address)})
			continue
		}
		list = append(list, event{bad: true, text: fmt.Sprintf("**The device** at %v: it broke the protocol, with %s.", s.address, plural.Of(s.violations, "violation"))})
	}
	return list
}

// silence says what the wire saw of a peer that did not answer.
func (r *Run) silence(c *report.Capture, x *explain.Record) string {
	var sent, answers uint64
	for _, f := range c.Flows {
		switch {
		case uint32(f.QPN) == x.PeerQPN && f.Peer != nil && uint32(f.Peer.QPN) == x.QPN, uint32(f.QPN) == x.PeerQPN && f.Peer == nil:
			sent += f.Stats.Packets
		case uint32(f.QPN) == x.QPN:
			answers += f.Stats.Packets
		}
	}
	switch {
	case sent == 0:
		return " The capture has no packet to the peer's queue pair."
	case answers == 0:
		return fmt.Sprintf(" On the wire, %s went to the peer's queue pair, and none came back.", plural.Of(sent, "packet"))
	}
	return fmt.Sprintf(" On the wire, %s went to the peer's queue pair, and %s came back.", plural.Of(sent, "packet"), plural.Of(answers, "packet"))
}

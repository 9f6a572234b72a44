package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/explain/work"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/wire"
)

// story is what the page of HTML says of the run, without the sides at fault: the capture tells
// them later.
func (r *Run) story() *ladder.Story {
	return &ladder.Story{
		Title: capital(r.title()), Command: plain(commandLine(r.Command)), Started: r.Started, Ran: r.Duration,
		Badges: []ladder.Badge{r.programBadge(), faultsBadge(r.Faults)},
		Events: sentences(r.happened()), QPs: r.queuePairs(), Steps: r.steps(), Work: r.work(),
	}
}

// title is how the run ended. It says why its color is not that of a run in which nothing happened.
func (r *Run) title() string {
	title := r.ending()
	fired := slices.ContainsFunc(r.Faults, func(f fault.Status) bool { return f.Fired > 0 })
	if strings.HasSuffix(title, " ended well") && fired {
		title += ", despite the faults that were ordered"
	}
	return title
}

// programBadge says how the program fared.
func (r *Run) programBadge() ladder.Badge {
	trouble := r.trouble()
	switch {
	case r.Exit != 0 || r.Signal != "":
		return ladder.Badge{Class: "violation", Name: "Program", Text: "failed"}
	case r.Report == nil:
		return ladder.Badge{Class: "warning", Name: "Program", Text: "ended well, but what the device saw is not known"}
	case trouble != "":
		return ladder.Badge{Class: "violation", Name: "Program", Text: "exited with status 0, but " + trouble}
	case slices.ContainsFunc(r.notable(), func(e *proto.ProcessEnd) bool { return bad(e) && !ended(e.Signal) }):
		return ladder.Badge{Class: "warning", Name: "Program", Text: "ended well, but not all of its processes did"}
	}
	return ladder.Badge{Class: "clean", Name: "Program", Text: "ended well"}
}

// faultsBadge says what fault rules were ordered, and whether they did anything.
func faultsBadge(faults []fault.Status) ladder.Badge {
	b := ladder.Badge{Class: "clean", Name: "Faults", Text: "none ordered"}
	if len(faults) == 0 {
		return b
	}
	fired := uint64(0)
	for i := range faults {
		fired += faults[i].Fired
	}
	b.Text = fmt.Sprintf("%s ordered, fired %s", plural.Of(len(faults), "rule"), times(fired))
	b.Class = "warning"
	if missed := len(fault.Missed(faults)); missed > 0 {
		b.Class = "violation"
		b.Text += fmt.Sprintf("; %s never fired", plural.Of(missed, "rule"))
	}
	return b
}

// sentences makes the page's sentences of events.
func sentences(list []event) (out []ladder.Sentence) {
	for _, e := range list {
		s := ladder.Sentence{At: e.at, Text: e.text, Bad: e.bad}
		if e.record != nil {
			s.QPN = wire.QPN(e.record.QPN)
		}
		if x := e.record; x != nil && x.PeerQPN != 0 && (x.Kind == explain.Completion || x.Kind == explain.Request) {
			s.Work = &ladder.Work{QPN: wire.QPN(x.QPN), PeerQPN: wire.QPN(x.PeerQPN), PSN: wire.PSN(x.PSN), FromPeer: x.Kind == explain.Request}
			if x.Kind == explain.Completion {
				s.Work.ID = workID(x.WRID)
			}
		}
		if e.hit != nil && e.hit.QP != 0 && e.hit.Opcode != "" {
			s.Work = &ladder.Work{QPN: e.hit.QP, PSN: wire.PSN(e.hit.PSN), Rule: true}
		}
		out = append(out, s)
	}
	return out
}

// steps are the states that the queue pairs came to.
func (r *Run) steps() (list []ladder.Step) {
	if r.Report == nil {
		return nil
	}
	for i := range r.Report.Steps {
		s := &r.Report.Steps[i]
		list = append(list, ladder.Step{
			At: s.Time, QPN: wire.QPN(s.QPN), State: s.State,
			Process: plain(explain.NameOf(s.Role, cmp.Or(s.Name, "?"), s.PID)),
		})
	}
	return list
}

// work is what the queue pairs did with their work requests.
func (r *Run) work() (list []ladder.QPWork) {
	if r.Report == nil {
		return nil
	}
	for _, rep := range append([]*work.Report{r.Report.Work}, r.Report.WorkOfOthers...) {
		if rep == nil {
			continue
		}
		for i := range rep.Queues {
			q := &rep.Queues[i]
			w := ladder.QPWork{QPN: wire.QPN(q.QPN), Since: rep.Started}
			depth := q.Depth.Until(rep.Until)
			w.Stride, w.LeftOut, w.Depth.Start, w.Depth.Width = q.Stride, q.LeftOut, depth.Start, depth.Width
			for _, s := range depth.Steps {
				w.Depth.Most = append(w.Depth.Most, s.Most)
			}
			for k := range q.Requests {
				x := &q.Requests[k]
				y := plot.Request{ID: workID(x.ID), Op: x.Op, Status: x.Status, Failed: x.Failed, Receive: x.Receive,
					Bytes: x.Bytes, Posted: x.Posted, Done: x.Done}
				if x.Began {
					y.PSNs = []uint32{x.First, x.Last}
				}
				w.Requests = append(w.Requests, y)
			}
			list = append(list, w)
		}
	}
	return list
}

// workID names a work request.
func workID(id uint64) string { return fmt.Sprintf("0x%x", id) }

// queuePairs are the queue pairs as their processes left them.
func (r *Run) queuePairs() (list []ladder.QPAtEnd) {
	if r.Report == nil {
		return nil
	}
	for _, proc := range slices.Concat(r.Report.Ended, r.Report.Session.Processes) {
		for i := range proc.Files {
			for _, q := range proc.Files[i].QPs {
				end := ladder.QPAtEnd{
					Process: plain(explain.NameOf(proc.Role, cmp.Or(proc.Name, "?"), proc.PID)), Device: plain(proc.Files[i].Device),
					Type: q.Type, State: q.State, QPN: wire.QPN(q.QPN), Queued: q.SendQueue,
				}
				if q.Peer != nil {
					end.PeerQPN = wire.QPN(q.Peer.QPN)
				}
				list = append(list, end)
			}
		}
	}
	return list
}

// capital begins a title.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

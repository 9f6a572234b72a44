package ladder

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// charts are the timeline and the charts of a page.
type charts struct {
	Data    template.JS // of the script
	Thinned string      // what the charts lack; empty: nothing
	Work    bool        // they have work requests
}

// plotted gives a packet to the charts.
func (c *Collector) plotted(p *capture.Packet, v *conformance.Verdict) {
	if c.Plot == nil {
		return
	}
	if c.Plot.Start.IsZero() {
		if c.Plot.Start = c.start; c.Story != nil && !c.Story.Started.IsZero() && c.Story.Started.Before(c.start) {
			c.Plot.Start = c.Story.Started
		}
	}
	effect := plot.Untouched
	switch text := faultOf(p.Comment); {
	case lost(text):
		effect = plot.Dropped
	case text != "":
		effect = plot.Changed
		if c.streams[streamKey{flow: v.Flow}] != nil && v.Flow != nil { // they are bounded
			c.deeds.add(v.Flow, v.Parsed && (v.Packet.Info().Has(wire.OpResponse) || v.Packet.Opcode() == wire.OpCNP), text)
		}
	}
	c.Plot.Add(p, v, effect)
	c.isLate(v)
}

// charts returns what the page draws; nil if there is nothing.
func (c *Collector) charts(p *page, all []*Conversation) (*charts, error) {
	if c.Plot == nil {
		return nil, nil
	}
	if c.Plot.Start.IsZero() && c.Story != nil {
		c.Plot.Start = c.Story.Started // there was no packet
	}
	d := c.Plot.Data(c.lanes(all), append(c.marks(p), c.connections(all)...))
	if len(d.Lanes) == 0 {
		return nil, nil
	}
	text, err := d.JSON()
	if err != nil {
		return nil, err
	}
	out, part, failed := &charts{Data: template.JS(text)}, uint64(1), uint64(0)
	if d.Thinned > 1 {
		out.Thinned = fmt.Sprintf("The charts have one of up to %d packets: the capture has more than they can show.", d.Thinned)
	}
	if d.Unseen > 0 {
		out.Thinned += fmt.Sprintf(" %s, of those that began last, %s not in the charts.", plural.Of(d.Unseen, "flow"), map[bool]string{true: "is", false: "are"}[d.Unseen == 1])
	}
	if d.Idle > 0 {
		out.Thinned += fmt.Sprintf(" %s that sent no request %s not in the charts.", plural.Of(d.Idle, "queue pair"), map[bool]string{true: "is", false: "are"}[d.Idle == 1])
	}
	for i := range d.Lanes {
		w := d.Lanes[i].Work
		if out.Work = out.Work || w != nil; w != nil && w.Stride > 1 {
			part = max(part, w.Stride)
		}
		if w != nil {
			failed += w.LeftOut
		}
	}
	if part > 1 {
		out.Thinned += fmt.Sprintf(" Of work requests that succeeded, the charts have one of up to %d.", part)
	}
	if failed > 0 {
		out.Thinned += " They lack " + plural.Of(failed, "work request") + " that failed."
	}
	return out, nil
}

// knownQP is what the story knows of a queue pair.
type knownQP struct {
	process, service string
	peer             wire.QPN // 0: it is not known
	states           []plot.State
	work             *plot.Work
	shown            bool
}

// processes are those of the story's queue pairs.
func (c *Collector) processes() map[wire.QPN]string {
	list := make(map[wire.QPN]string)
	if c.Story == nil {
		return list
	}
	for i := range c.Story.QPs {
		list[c.Story.QPs[i].QPN] = printable(c.Story.QPs[i].Process)
	}
	for i := range c.Story.Steps {
		list[c.Story.Steps[i].QPN] = printable(c.Story.Steps[i].Process)
	}
	return list
}

// known are the queue pairs of the story.
func (c *Collector) known() map[wire.QPN]*knownQP {
	list := make(map[wire.QPN]*knownQP)
	at := func(q wire.QPN) *knownQP {
		if list[q] == nil {
			list[q] = new(knownQP)
		}
		return list[q]
	}
	if c.Story == nil {
		return list
	}
	for q, process := range c.processes() {
		at(q).process = process
	}
	for i := range c.Story.QPs {
		q := &c.Story.QPs[i]
		k := at(q.QPN)
		k.service, k.peer = printable(q.Type), q.PeerQPN
	}
	for i := range c.Story.Steps {
		s := &c.Story.Steps[i]
		k := at(s.QPN)
		k.states = append(k.states, plot.State{At: max(s.At.Sub(c.Plot.Start), 0), Name: printable(s.State)})
	}
	for q, w := range c.work() {
		at(q).work = w
	}
	return list
}

// lanes are the directions of the conversations, and the queue pairs that sent nothing, by host and
// process.
func (c *Collector) lanes(all []*Conversation) (lanes []plot.Lane) {
	known := c.known()
	hosts := make(map[string]netip.Addr) // of processes
	for _, v := range all {
		for i, f := range v.flows {
			if f == nil {
				continue
			}
			from, to, l := v.Left, v.Right, plot.Lane{Requests: f, Host: f.Src.String(), Service: v.Service.String(), Section: v.ID}
			if i == 1 {
				from, to = to, from
			}
			if len(v.flows) == 2 {
				l.Responses = v.flows[1-i]
			}
			l.QP, l.Peer = "queue pair not known", to.Addr.String()
			if from.Known {
				l.QP = qpName(from.QPN)
				if k := known[from.QPN]; k != nil {
					l.Process, l.States, l.Work, l.Idle, k.shown = k.process, k.states, k.work, true, true
					hosts[k.process] = f.Src
				}
			}
			if to.Known {
				l.Peer += " " + qpName(to.QPN)
			}
			lanes = append(lanes, l)
		}
	}
	for _, qpn := range slices.Sorted(maps.Keys(known)) {
		k := known[qpn]
		if k.shown {
			continue
		}
		l := plot.Lane{QP: qpName(qpn), Process: k.process, Service: k.service, States: k.states, Work: k.work, Idle: true, Peer: "no packets"}
		if host, ok := hosts[k.process]; ok {
			l.Host = host.String()
		}
		if k.peer != 0 {
			l.Peer = qpName(k.peer)
		}
		lanes = append(lanes, l)
	}
	slices.SortStableFunc(lanes, func(a, b plot.Lane) int {
		return cmp.Or(hostOf(a).Compare(hostOf(b)), cmp.Compare(a.Process, b.Process))
	})
	return lanes
}

// hostOf is the address of a lane; it is not valid if none is known.
func hostOf(l plot.Lane) netip.Addr {
	a, _ := netip.ParseAddr(l.Host)
	return a
}

// work are the work requests of queue pairs, with times as those of the packets.
func (c *Collector) work() map[wire.QPN]*plot.Work {
	of := make(map[wire.QPN]*plot.Work)
	if c.Story == nil {
		return of
	}
	for i := range c.Story.Work {
		w := c.Story.Work[i].Work
		shift := c.Story.Work[i].Since.Sub(c.Plot.Start)
		w.Depth.Start += shift
		w.Requests = slices.Clone(w.Requests)
		for k := range w.Requests {
			r := &w.Requests[k]
			r.Op, r.Status = printable(r.Op), printable(r.Status)
			r.Posted = max(r.Posted+shift, 0)
			if r.Status != "" {
				r.Done = max(r.Done+shift, r.Posted)
			}
		}
		of[c.Story.Work[i].QPN] = &w
	}
	return of
}

// maxConnections bounds the messages of the connection manager that the timeline shows.
const maxConnections = 1000

// connections are the messages of the connection manager among the packets that are kept.
func (c *Collector) connections(all []*Conversation) (list []plot.Event) {
	for _, v := range all {
		for _, r := range v.Rows {
			m := r.mad()
			if m == nil || len(list) == maxConnections {
				continue
			}
			text := printable(madWords(m))
			list = append(list, plot.Event{
				At: max(r.Time.Sub(c.Plot.Start), 0), Text: fmt.Sprintf("Packet %d from %v: %s", r.Number, r.Src, text),
				Bad: strings.HasPrefix(text, "CM REJ"), To: fmt.Sprintf("packet-%d", r.Number),
			})
		}
	}
	return list
}

// marks are the sentences of the story whose time is known.
func (c *Collector) marks(p *page) (list []plot.Event) {
	if c.Story == nil {
		return nil
	}
	for i, s := range c.Story.Events {
		if s.At.IsZero() {
			continue
		}
		text := ""
		for _, x := range p.Events[i].Spans {
			text += x.Text
		}
		e := plot.Event{At: max(s.At.Sub(c.Plot.Start), 0), Text: text, Bad: s.Bad, To: p.Events[i].ID}
		if s.QPN != 0 {
			e.QP = qpName(s.QPN)
		}
		list = append(list, e)
	}
	return list
}

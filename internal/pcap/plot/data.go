package plot

import (
	"encoding/json"
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// Lane is a direction of a connection, as the page shows it.
type Lane struct {
	Requests, Responses *conformance.Flow // Responses is nil if they are not known
	Host, Process       string
	QP, Peer, Service   string
	Section             int  // of the page that has its packets; 0: none has
	Idle                bool // it has a lane even if it sent no request
	States              []State
	Work                *Work // of the sender; nil: it is not known
}

// State is what a queue pair came to.
type State struct {
	At   time.Duration `json:"at"`
	Name string        `json:"name"`
}

// Data is what the script of a page draws. Times are in nanoseconds.
type Data struct {
	Span    time.Duration `json:"span"`
	Lanes   []laneData    `json:"lanes"`
	Events  []Event       `json:"events"`
	Thinned uint64        `json:"thinned"` // one of so many points is there
	Unseen  int           `json:"unseen"`  // flows that are not there
	Idle    int           `json:"idle"`    // queue pairs without requests that are not there
}

// Event is a mark on all lanes, or on one.
type Event struct {
	At   time.Duration `json:"at"`
	Text string        `json:"text"`
	Bad  bool          `json:"bad"`
	To   string        `json:"to"` // the id of an element of the page
	QP   string        `json:"qp,omitempty"`
}

type laneData struct {
	Host    string `json:"host"`
	Process string `json:"process"`
	QP      string `json:"qp"`
	Peer    string `json:"peer"`
	Service string `json:"service"`
	Section int    `json:"section"`

	States []State `json:"states,omitempty"`
	Work   *Work   `json:"work,omitempty"`

	Base     uint32     `json:"base"` // the PSN that counts as 0
	Kinds    []packed   `json:"kinds"`
	Bytes    seriesData `json:"bytes"`
	Latency  seriesData `json:"latency"`
	Depth    seriesData `json:"depth"`
	Messages uint64     `json:"messages"`
	Took     *tookData  `json:"took,omitempty"`
}

// seriesData has only the bins in which something happened: index, count, sum, most.
type seriesData struct {
	Width time.Duration `json:"width"`
	Start time.Duration `json:"start"` // of bin 0
	Bins  [][4]uint64   `json:"bins"`
}

// tookData says how long acknowledgements took.
type tookData struct {
	Count     uint64      `json:"count"`
	P50       uint64      `json:"p50"`
	P90       uint64      `json:"p90"`
	P99       uint64      `json:"p99"`
	Most      uint64      `json:"most"`
	Histogram [][3]uint64 `json:"histogram"` // from, below, count
}

func (b *bins) data() seriesData {
	d := seriesData{Width: b.width, Start: b.start, Bins: [][4]uint64{}}
	for i, x := range b.list {
		if x.n > 0 {
			d.Bins = append(d.Bins, [4]uint64{uint64(i), x.n, x.sum, x.most})
		}
	}
	return d
}

func (h *histogram) data() *tookData {
	if h.n == 0 {
		return nil
	}
	d := &tookData{Count: h.n, P50: h.percentile(50), P90: h.percentile(90), P99: h.percentile(99), Most: h.most}
	for i, n := range h.counts {
		if n > 0 {
			d.Histogram = append(d.Histogram, [3]uint64{lower(i), lower(i + 1), n})
		}
	}
	return d
}

// begun reports whether the lane has requests, or answers to some.
func (c *Collector) begun(l *Lane) bool {
	f, o := c.flows[l.Requests], c.flows[l.Responses]
	return f != nil && (f.requests.begun || o == nil && f.responses.begun || o != nil && o.responses.begun)
}

// Data returns what a page draws of the lanes and events. Lanes without a packet are left out,
// except for those that say otherwise, up to MaxFlows.
func (c *Collector) Data(lanes []Lane, events []Event) *Data {
	d := &Data{Lanes: []laneData{}, Events: append([]Event{}, events...), Thinned: 1, Unseen: len(c.unseen)}
	for _, e := range events {
		d.Span = max(d.Span, e.At)
	}
	shown, idle := make(map[string]bool), 0
	for i := range lanes {
		shown[lanes[i].QP] = shown[lanes[i].QP] || c.begun(&lanes[i])
	}
	for _, l := range lanes {
		f, o := c.flows[l.Requests], c.flows[l.Responses]
		if f != nil && o == nil && !f.requests.begun {
			o = f // the capture has the answers only
		}
		if !c.begun(&l) {
			if !l.Idle || shown[l.QP] {
				continue
			}
			shown[l.QP] = true
			if idle++; idle > MaxFlows {
				d.Idle++
				continue
			}
			f, o = new(Flow), nil
		}
		d.Span = max(d.Span, f.last)
		for _, s := range l.States {
			d.Span = max(d.Span, s.At)
		}
		if o != nil {
			for _, e := range o.early { // the two are one connection by a guess
				f.answered(e, c.done)
			}
			o.early = nil
		}
		x := laneData{
			Host: l.Host, Process: l.Process, QP: l.QP, Peer: l.Peer, Service: l.Service, Section: l.Section, States: l.States, Work: l.Work,
			Bytes: f.bytes.data(), Latency: f.latency.data(), Depth: f.depth.data(), Messages: f.messages, Took: f.latencies.data(),
			Base: uint32(f.requests.first), Kinds: []packed{},
		}
		if l.Work != nil {
			x.Depth = l.Work.Depth.data()
			d.Span = max(d.Span, l.Work.last())
		}
		shift := int64(0)
		if o != nil {
			d.Span = max(d.Span, o.last)
			switch {
			case !f.requests.begun:
				x.Base = uint32(o.responses.first)
			case o.responses.begun:
				shift = int64(o.responses.first.Diff(f.requests.first))
			}
		}
		for k := range kinds {
			if l := &f.sent[k]; len(l.points) > 0 {
				x.Kinds, d.Thinned = append(x.Kinds, l.pack(k, 0)), max(d.Thinned, l.stride)
			}
			if o == nil {
				continue
			}
			if l := &o.came[k]; len(l.points) > 0 {
				x.Kinds, d.Thinned = append(x.Kinds, l.pack(k, shift)), max(d.Thinned, l.stride)
			}
		}
		d.Lanes = append(d.Lanes, x)
	}
	return d
}

// JSON returns the data for a script. No character of it has a meaning in HTML.
func (d *Data) JSON() ([]byte, error) { return json.Marshal(d) }

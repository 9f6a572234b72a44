package ladder

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// chartLane is what the tests read of a lane.
type chartLane struct {
	Host, Process, QP, Peer, Service string
	Messages                         uint64
	Kinds                            []struct {
		Kind  string
		Count int
	}
	States []struct{ Name string }
	Took   *struct{ Count uint64 }
	Work   *struct {
		Requests []struct{ Posted, Done int64 }
	}
	Depth struct {
		Start int64
		Bins  [][4]uint64
	}
}

type chartData struct {
	Span   int64
	Lanes  []chartLane
	Events []struct {
		Text, To, QP string
		At           int64
		Bad          bool
	}
}

// chartsOf returns the data of a page's charts.
func chartsOf(t *testing.T, page []byte) (d chartData) {
	t.Helper()
	_, text, ok := bytes.Cut(page, []byte(`type="application/json">`))
	text, _, ended := bytes.Cut(text, []byte("</script>"))
	if !ok || !ended {
		t.Fatal("the page has no charts")
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return d
}

// firstPacket returns the time of a capture's first packet.
func firstPacket(t *testing.T, name string) time.Time {
	t.Helper()
	r := must.Get[*capture.Reader](t)(capture.NewReader(bytes.NewReader(contents(t, name))))
	var p capture.Packet
	must.OK(t, r.Next(&p))
	return p.Time
}

// TestChartsOfWork: work requests are on the lane of their queue pair, with the times of the page.
// The page says what it lacks of them, and draws how many were under way as the story knows it.
func TestChartsOfWork(t *testing.T) {
	start := firstPacket(t, "netem_corrupt2.pcap")
	c := Collector{Plot: new(plot.Collector), Story: &Story{Title: "x", Started: start.Add(-time.Second), Work: []QPWork{
		{QPN: 0x26, Since: start.Add(-time.Second / 2), Work: plot.Work{
			Stride: 4, LeftOut: 1, Depth: plot.Depth{Width: time.Second, Most: []uint64{3, 0, 2}},
			Requests: []plot.Request{{ID: "0x1", Op: "<b>\x1b", Status: "IBV_WC_SUCCESS", Posted: 5, Done: 6}, {ID: "0x2", Op: "SEND", Posted: 7}},
		}},
		{QPN: 0xbad, Work: plot.Work{Stride: 1}}, // it sent nothing
	}, Steps: []Step{{start, 0x26, "p", "RTS"}, {start, 0xbad, "p", "INIT"}}, QPs: []QPAtEnd{{QPN: 0xbad, PeerQPN: 0x77, Type: "RC", Process: "p"}},
		Events: []Sentence{{At: start, Text: "it failed", Bad: true, QPN: 0xbad}}}}
	page := htmlPage(t, contents(t, "netem_corrupt2.pcap"), "x", &c)
	if !bytes.Contains(page, []byte("the charts have one of up to 4. They lack 1 work request that failed.")) || bytes.ContainsRune(page, 0x1b) {
		t.Error("the page does not say what it lacks")
	}
	found, idle := 0, 0
	d := chartsOf(t, page)
	if len(d.Events) != 1 || d.Events[0].QP != "0x000bad" {
		t.Errorf("events: %+v", d.Events)
	}
	for _, l := range d.Lanes {
		if l.QP == "0x000bad" {
			if idle++; len(l.Kinds) != 0 || len(l.States) != 1 || l.Work == nil || l.Host != "10.77.0.2" || l.Process != "p" || l.Peer != "0x000077" || l.Service != "RC" {
				t.Errorf("the lane of a queue pair that sent nothing: %+v", l)
			}
			continue
		}
		if l.QP != "0x000026" {
			if l.Work != nil {
				t.Errorf("%s has work requests", l.QP)
			}
			continue
		}
		found++
		const half = int64(time.Second / 2)
		if w := l.Work; w == nil || len(w.Requests) != 2 || w.Requests[0].Posted != half+5 || w.Requests[0].Done != half+6 || w.Requests[1].Done != 0 {
			t.Errorf("%+v", l.Work)
		}
		if d := l.Depth; d.Start != half || len(d.Bins) != 2 || d.Bins[1] != [4]uint64{2, 1, 2, 2} {
			t.Errorf("%+v", d)
		}
	}
	if found != 1 || idle != 1 {
		t.Errorf("%d lanes, %d of a queue pair that sent nothing", found, idle)
	}
}

// TestCharts: lanes are in the order of hosts and processes, with states from the story, and events
// lead to sentences and to messages of the connection manager.
func TestCharts(t *testing.T) {
	var at time.Time
	if _, err := conformance.Read(bytes.NewReader(contents(t, "rping.pcap")), conformance.Options{}, func(p *capture.Packet, _ *conformance.Verdict) error {
		if at.IsZero() {
			at = p.Time
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const hostile = "</script><b>\x1b[2J\u202e"
	c := Collector{Plot: new(plot.Collector), Story: &Story{
		Title: "x", Started: at.Add(-time.Second),
		Steps: []Step{
			{at, wire.QPN(0x20), hostile, "RTS"}, {at.Add(time.Hour), wire.QPN(0x20), hostile, hostile},
		},
		Events: []Sentence{{At: at, Text: "it `" + hostile + "`", Bad: true}, {Text: "when?"}},
	}}
	page := htmlPage(t, contents(t, "rping.pcap"), "x", &c)
	if _, err := parsePage(page); err != nil || bytes.ContainsAny(page, "\x1b\u202e") || bytes.Contains(page, []byte("</script><b>")) {
		t.Errorf("%v; a name changes the page", err)
	}
	d := chartsOf(t, page)
	if d.Span < int64(time.Hour) {
		t.Errorf("the charts end after %v", time.Duration(d.Span))
	}
	states, cm := 0, 0
	for i, l := range d.Lanes {
		if i > 0 && d.Lanes[i-1].Host > l.Host {
			t.Errorf("host %s is behind %s", l.Host, d.Lanes[i-1].Host)
		}
		if l.QP == "0x000020" {
			states = len(l.States)
			if !strings.HasPrefix(l.Process, "</script><b>?") || l.States[0].Name != "RTS" || l.Took == nil || l.Took.Count != l.Messages {
				t.Errorf("%+v", l)
			}
		}
	}
	for _, e := range d.Events[1:] {
		if strings.Contains(e.Text, ": CM ") && bytes.Contains(page, []byte(`id="`+e.To+`"`)) {
			cm++
		}
	}
	if e := d.Events[0]; len(d.Events) < 2 || e.At != int64(time.Second) || e.To != "event-1" || !e.Bad || states != 2 || cm < 5 {
		t.Errorf("%d events, the first %+v; %d states, %d messages of the connection manager", len(d.Events), d.Events[0], states, cm)
	}
}

// TestChartsWithoutPackets: a run that sent nothing has a timeline, too.
func TestChartsWithoutPackets(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	c := Collector{Plot: new(plot.Collector), Story: &Story{Title: "x", Started: start, Steps: []Step{{start.Add(time.Second), 0x11, "p", "INIT"}},
		Events: []Sentence{{At: start.Add(2 * time.Second), Text: "it failed", Bad: true, QPN: 0x11}}}}
	var page bytes.Buffer
	if err := c.WriteHTML(&page, "x", conformance.Summary{}, nil); err != nil {
		t.Fatal(err)
	}
	d := chartsOf(t, page.Bytes())
	if len(d.Lanes) != 1 || d.Lanes[0].Process != "p" || d.Span != int64(2*time.Second) || len(d.Events) != 1 || d.Events[0].At != int64(2*time.Second) {
		t.Errorf("%+v", d)
	}
}

// TestChartsOfOneSide: a capture of one direction has charts, too: of what it has.
func TestChartsOfOneSide(t *testing.T) {
	for _, src := range []string{"10.77.0.1", "10.77.0.2"} {
		c := Collector{Plot: new(plot.Collector)}
		checker, err := conformance.New(conformance.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := capture.NewReader(bytes.NewReader(contents(t, "netem_corrupt2.pcap")))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 1161 {
			var p capture.Packet
			if err := r.Next(&p); err != nil {
				t.Fatal(err)
			}
			if p.Src.String() == src {
				if n%100 == 99 {
					p.Time = p.Time.Add(-time.Hour) // and the clock goes back
				}
				c.Add(&p, checker.Add(&p))
			}
		}
		var page bytes.Buffer
		if err := c.WriteHTML(&page, "x", checker.Summary(), nil); err != nil {
			t.Fatal(err)
		}
		d, points := chartsOf(t, page.Bytes()), 0
		for _, l := range d.Lanes {
			for _, k := range l.Kinds {
				points += k.Count
			}
			if l.Took != nil {
				t.Errorf("%s: %d messages were acknowledged", src, l.Took.Count)
			}
		}
		if len(d.Lanes) != 1 || points < 400 {
			t.Errorf("%s: %d lanes, %d points", src, len(d.Lanes), points)
		}
	}
}

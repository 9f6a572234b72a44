package ladder

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// chartLane is what the tests read of a lane.
type chartLane struct {
	Host, Process, QP, Peer string
	Messages                uint64
	Kinds                   []struct {
		Kind  string
		Count int
	}
	States []struct{ Name string }
	Took   *struct{ Count uint64 }
}

type chartData struct {
	Span   int64
	Lanes  []chartLane
	Events []struct {
		Text, To string
		At       int64
		Bad      bool
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

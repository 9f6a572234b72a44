package plot

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// traceOf exports a capture.
func traceOf(t *testing.T, path string) ([]byte, *conformance.Report) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	tr := NewTrace(&out)
	tr.Management = func(*capture.Packet, *conformance.Verdict) string { return "CM REQ <" }
	r, err := conformance.Read(f, conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
		tr.Add(p, v, "", false)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if messages, flows := tr.LeftOut(); messages+uint64(flows) > 0 {
		t.Errorf("%s: %d messages and %d flows are left out", path, messages, flows)
	}
	return out.Bytes(), r
}

// inFormat decodes a trace strictly, by the document "Trace Event Format": each phase has the
// fields that it needs, and complete events of one thread do not overlap.
func inFormat(t *testing.T, text []byte) (events []traceEvent) {
	t.Helper()
	var file struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil || file.Unit != "ns" || d.More() {
		t.Fatalf("%v, unit %q", err, file.Unit)
	}
	number := func(n json.Number) float64 {
		v, err := n.Float64()
		if err != nil || v < 0 {
			t.Errorf("the number %q: %v", n, err)
		}
		return v
	}
	type thread struct{ pid, tid int }
	type span struct{ from, to float64 }
	spans, named := make(map[thread][]span), make(map[thread]bool)
	for _, e := range file.Events {
		th := thread{e.PID, e.TID}
		switch {
		case e.Name == "" || e.PID < 1:
			t.Errorf("no name or process: %+v", e)
		case e.Phase == "X":
			from := number(e.At)
			spans[th] = append(spans[th], span{from, from + number(e.For)})
		case e.Phase == "i" && e.Scope == "t":
			number(e.At)
			spans[th] = append(spans[th], span{})
		case e.Phase == "C":
			number(e.At)
			if _, ok := e.Args["value"].(float64); !ok {
				t.Errorf("a counter without a value: %+v", e)
			}
		case e.Phase == "M" && e.Name == "thread_name":
			named[th] = e.Args["name"] != ""
		case e.Phase == "M":
		default:
			t.Errorf("an event of no phase: %+v", e)
		}
	}
	for th, list := range spans {
		slices.SortFunc(list, func(a, b span) int {
			if a.from != b.from {
				return int(1e3 * (a.from - b.from))
			}
			return int(1e3 * (a.to - b.to))
		})
		for i := range list {
			if i > 0 && list[i-1].to > list[i].from+1e-3 {
				t.Errorf("thread %v: %v and %v overlap", th, list[i-1], list[i])
			}
		}
		if !named[th] {
			t.Errorf("thread %v has no name", th)
		}
	}
	return file.Events
}

// TestTrace: each capture of testdata becomes a trace in the format. A message is one span, and
// what went wrong is an instant.
func TestTrace(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/pcaps/*.pcap")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, r := traceOf(t, path)
		seen := make(map[string]int)
		for _, e := range inFormat(t, text) {
			if e.Phase != "M" && e.Phase != "C" {
				seen[e.Phase+" "+e.Name]++
			}
		}
		var naks, again, cnps uint64
		for _, f := range r.Flows {
			naks, cnps = naks+f.Stats.NAKs, cnps+f.Stats.CNPs
			again += f.Stats.Retransmissions
		}
		if uint64(seen["i NAK"]) != naks || uint64(seen["i CNP"]) != cnps || uint64(seen["i sent again"]) > again+10 {
			t.Errorf("%s: %v, want %d NAKs, %d CNPs, about %d sent again", path, seen, naks, cnps, again)
		}
		switch filepath.Base(path) {
		case "netem_corrupt2.pcap":
			if n := seen["X RC_RDMA_WRITE_FIRST"] + seen["X RC_RDMA_WRITE_ONLY"] + seen["X RC_RDMA_READ_REQUEST"] + seen["X RC_FETCH_ADD"]; n < 40 || n > 45 {
				t.Errorf("%d messages: %v", n, seen)
			}
		case "rping.pcap":
			if seen["X CM REQ <"] == 0 {
				t.Errorf("%s: no message of the connection manager: %v", path, seen)
			}
		}
	}
	var out bytes.Buffer
	if err := NewTrace(&out).Close(); err != nil || len(inFormat(t, out.Bytes())) != 0 {
		t.Errorf("no packet: %v, %s", err, &out)
	}
}

package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

const captures = "../../testdata/pcaps/"

// excuse is an expected finding in a capture of real devices: one rule, in packets of
// these opcodes (nil for all), so many times.
type excuse struct {
	rule    *Rule
	opcodes []wire.Opcode
	times   uint64
}

// shown are the captures with findings: the network damaged them on purpose, or they
// show a defect that the text beside them describes.
var shown = map[string]excuse{
	"netem_corrupt2.pcap":        {rule: ruleICRC, times: 26}, // TestICRCVerdicts says which
	"interop-flush.pcap":         {rule: ruleICRC, times: 12, opcodes: []wire.Opcode{wire.RCFlush}},
	"interop-kernels-flush.pcap": {rule: ruleICRC, times: 2, opcodes: []wire.Opcode{wire.RCFlush}},
	"interop-delay.pcap":         {rule: ruleRestart},       // a note
	"interop-crossed.pcap":       {rule: ruleCMTransaction}, // a warning
}

// excuses reports whether a finding is the expected one.
func (e excuse) excuses(x *Finding, p *capture.Packet) bool {
	return x.Rule == e.rule && (e.opcodes == nil || slices.Contains(e.opcodes, wire.Opcode(p.Transport[0])))
}

// TestKernelCaptures: the packets of Linux, and of our own captures, obey the protocol, except for
// known defects.
func TestKernelCaptures(t *testing.T) {
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	defects, err := filepath.Glob(captures + "defects/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	size := map[bool]int{} // in bytes, of captures that gorxe made (true) or not
	for _, name := range append(files, defects...) {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.Base(name)
		size[strings.HasPrefix(name, "gorxe-")] += len(file)
		packets := load(t, name, file).packets
		r, err := Check(bytes.NewReader(file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		known, ok := shown[name]
		if ok {
			used++
		}
		if ok && len(r.Findings) == 0 {
			t.Errorf("%s: no finding, want %s", name, known.rule.Name)
		}
		for i := range r.Findings {
			if x := &r.Findings[i]; !known.excuses(x, &packets[x.Packet-1]) {
				t.Errorf("%s: %v", name, x)
			}
		}
		if r.Violations != known.times {
			t.Errorf("%s: %d violations, want %d", name, r.Violations, known.times)
		}
	}
	if size[false] > 2<<20 || size[true] > 64<<10 {
		t.Errorf("%v bytes of captures: a clone must stay small", size)
	}
	if used != len(shown) {
		t.Errorf("%d of the %d captures that are excused exist", used, len(shown))
	}
}

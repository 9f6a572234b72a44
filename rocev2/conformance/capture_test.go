package conformance

import (
	"path/filepath"
	"testing"
)

const captures = "../../testdata/pcaps/"

// shown are the rules that a capture of a real device breaks: damaged by the
// network on purpose, or by a defect that the text beside it describes.
var shown = map[string]*Rule{
	"netem_corrupt2.pcap": ruleICRC,
	"interop-flush.pcap":  ruleICRC,
}

// TestKernelCaptures: what Linux sent obeys the protocol, but for what is known.
func TestKernelCaptures(t *testing.T) {
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	defects, err := filepath.Glob(captures + "defects/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, defects...) {
		r, err := CheckFile(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := shown[filepath.Base(file)]
		for i := range r.Findings {
			if x := &r.Findings[i]; x.Rule != want {
				t.Errorf("%s: %v", filepath.Base(file), x)
			}
		}
		if want != nil && r.Of(want.Name).Violations == 0 {
			t.Errorf("%s: %s was not found", filepath.Base(file), want.Name)
		}
	}
}

package conformance

import (
	"path/filepath"
	"testing"
)

const captures = "../../testdata/pcaps/"

// TestKernelCaptures: what Linux sent obeys the protocol, but for the frames that
// the network damaged on purpose.
func TestKernelCaptures(t *testing.T) {
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		r, err := CheckFile(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Findings {
			if x := &r.Findings[i]; x.Rule != ruleICRC || filepath.Base(file) != "netem_corrupt2.pcap" {
				t.Errorf("%s: %v", filepath.Base(file), x)
			}
		}
	}
}

package conformance

import (
	"path/filepath"
	"testing"
)

const captures = "../../testdata/pcaps/"

// shown are the findings that a capture was made to have: frames that the network
// damaged on purpose, and requests whose answer did not come, or was lost.
var shown = map[string]*Rule{
	"netem_corrupt2.pcap":    ruleICRC,
	"interop-loss.pcap":      ruleAckReq,
	"interop-mistakes.pcap":  ruleAckReq,
	"interop-not-ready.pcap": ruleAckReq,
	"interop-windows.pcap":   ruleAckReq,
}

// TestKernelCaptures: what Linux sent obeys the protocol, but for what was done on
// purpose.
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
			if x := &r.Findings[i]; x.Rule != shown[filepath.Base(file)] {
				t.Errorf("%s: %v", filepath.Base(file), x)
			}
		}
	}
}

package interop

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// defect is a violation of the specification by rdma_rxe. The row of a case that meets it
// names the defect and the capture that shows it.
type defect struct {
	what    string
	capture string // in testdata/pcaps
}

var (
	defectFlush      = defect{"the ICRC of its FLUSH covers the headers twice, and it drops those that are right (sealed again here)", "defects/interop-flush"}
	defectInvalidate = defect{"it marks the completion with its own flag (4, for users IP_CSUM_OK), not with WITH_INV", "interop-windows"}
	defectWindow     = defect{"it checks the range of the region, not of the window, and writes", "interop-windows"}
	defectStray      = defect{"success, of a READ that has read nothing", "defects/interop-stray"}

	defectZeroWrite = faultDefect{
		defect{"after a timeout its requester sends a WRITE of which all was acknowledged again, as one of zero bytes with the PSN of the READ behind it; " +
			"every PSN from there on is one too high, and the queue pair ends with FATAL_ERR", "defects/interop-delay"},
		since{6, 12}, "fatal error"}
	defectEmptyRead = faultDefect{
		defect{"its requester completes a READ with success whose data have not come, and what is behind it with WR_FLUSH_ERR, although each answer was right; opposite another rdma_rxe as well",
			"defects/interop-kernels-reordering"},
		since{6, 12}, "Work Request Flushed Error; READs before that, of other data: 1"}
)

// defects are all of them.
var defects = []*defect{&defectFlush, &defectInvalidate, &defectWindow, &defectStray, &defectZeroWrite.defect, &defectEmptyRead.defect}

func (d *defect) String() string {
	return fmt.Sprintf("**defect of the kernel**: %s (testdata/pcaps/%s.pcap)", d.what, d.capture)
}

// faultDefect is a defect that ends the work of a requester under faults.
type faultDefect struct {
	defect
	from since  // where it was seen
	ends string // as testdata/endpoint says it
}

// TestDefects: each defect has its capture.
func TestDefects(t *testing.T) {
	for _, d := range defects {
		if _, err := os.Stat("../../../testdata/pcaps/" + d.capture + ".pcap"); err != nil {
			t.Errorf("%s: %v", d.what, err)
		}
	}
}

// irreproachable fails the case if gorxe's packets so far violate the protocol. If they do
// not, gorxe did not cause the bad end.
func (tr *trial) irreproachable() {
	tr.Helper()
	tr.collect()
	for _, x := range tr.findings() {
		if x.Severity == conformance.Violation && (kernels || tr.packets[x.Packet-1].sent) {
			tr.Errorf("%v", &x)
		}
	}
}

// checked fails the case if `gorxe pcap check` would find anything in its packets, those of
// gorxe or of the kernel.
func (tr *trial) checked() {
	tr.Helper()
	for _, x := range tr.findings() {
		tr.Errorf("%v", &x)
	}
}

// findings are what `gorxe pcap check` finds in the packets so far.
func (tr *trial) findings() []conformance.Finding {
	tr.Helper()
	var file bytes.Buffer
	if err := write(&file, tr.packets); err != nil {
		tr.Fatal(err)
	}
	r, err := conformance.Check(&file, conformance.Options{})
	if err != nil {
		tr.Fatal(err)
	}
	return r.Findings
}

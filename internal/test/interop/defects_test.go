package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
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
	// cm_dreq_handler and cm_format_drep, drivers/infiniband/core/cm.c.
	defectCrossed = defect{"in TIMEWAIT it answers a DREQ with the transaction ID of its own messages", "defects/interop-crossed"}

	defectZeroWrite = faultDefect{
		defect{"after a timeout its requester sends a WRITE of which all was acknowledged again, as one of zero bytes with the PSN of the READ behind it; " +
			"every PSN from there on is one too high, and the queue pair ends with FATAL_ERR", "defects/interop-delay"},
		since{6, 12}, "fatal error"}
	defectEmptyRead = faultDefect{
		defect{"its requester completes a READ with success whose data have not come, and what is behind it with WR_FLUSH_ERR, although each answer was right; opposite another rdma_rxe as well",
			"defects/interop-kernels-reordering"},
		since{6, 12}, "Work Request Flushed Error; READs before that, of other data: 1"}
)

// verbsDefects are those of the device, and cmDefects those of the connection manager.
var (
	verbsDefects = []*defect{&defectFlush, &defectInvalidate, &defectWindow, &defectStray, &defectZeroWrite.defect, &defectEmptyRead.defect}
	cmDefects    = []*defect{&defectCrossed}
)

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
	for _, d := range slices.Concat(verbsDefects, cmDefects) {
		if _, err := os.Stat("../../../testdata/pcaps/" + d.capture + ".pcap"); err != nil {
			t.Errorf("%s: %v", d.what, err)
		}
	}
}

// TestCrossed: the DREP in the capture shows the defect. It would not if gorxe had sent it, if
// only one side had sent a DREQ, or with any other transaction ID.
func TestCrossed(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/pcaps/" + defectCrossed.capture + ".pcap")
	if err != nil {
		t.Fatal(err)
	}
	r, err := capture.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var packets []packet
	gorxe := netip.MustParseAddr("10.77.0.1")
	for {
		var p capture.Packet
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, packet{data: slices.Clone(p.Frame), sent: p.Src == gorxe})
	}
	last := len(packets)
	if !crossed(packets, last) {
		t.Fatal("the last packet does not show the defect")
	}
	for n := 1; n < last; n++ {
		if crossed(packets, n) {
			t.Errorf("packet %d shows the defect", n)
		}
	}
	for i := range packets {
		if _, ok := cmMessage(&packets[i]).(wire.CMDREQ); ok && crossed(slices.Delete(slices.Clone(packets), i, i+1), last-1) {
			t.Errorf("it shows without the DREQ, packet %d", i+1)
		}
	}
	for i := range packets {
		packets[i].sent = !packets[i].sent
	}
	if crossed(packets, last) {
		t.Error("a DREP of gorxe shows it")
	}
	for i := range packets {
		packets[i].sent = !packets[i].sent
	}
	q, _ := transport(packets[last-1].data)
	q.Payload()[tidEnd]++
	if crossed(packets, last) {
		t.Error("it shows with another transaction ID")
	}
}

// tidEnd is the offset of the last byte of a MAD's transaction ID.
const tidEnd = 15

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
// gorxe or of the kernel, that is not defectCrossed.
func (tr *trial) checked() {
	tr.Helper()
	for _, x := range tr.findings() {
		if x.Rule.Name == "cm-transaction" && crossed(tr.packets, x.Packet) {
			tr.row.Note, tr.moment = defectCrossed.String(), tr.packets
			continue
		}
		tr.Errorf("%v", &x)
	}
}

// crossed reports whether a packet, counted from 1, is a DREP of the kernel that shows
// defectCrossed. Both sides have sent a DREQ, and the DREP repeats the transaction ID that the
// kernel chose for its DREQ.
func crossed(packets []packet, number int) bool {
	from := &packets[number-1]
	rep, ok := cmMessage(from).(wire.CMDREP)
	if !ok || from.sent && !kernels {
		return false
	}
	own, peer := false, false
	for i := range packets[:number-1] {
		p := &packets[i]
		switch req, ok := cmMessage(p).(wire.CMDREQ); {
		case !ok:
		case p.sent == from.sent:
			own = own || req.LocalCommID() == rep.LocalCommID() && req.TID() == rep.TID()
		default:
			peer = peer || req.RemoteCommID() == rep.LocalCommID() && req.LocalCommID() == rep.RemoteCommID()
		}
	}
	return own && peer
}

// cmMessage returns the message of a connection manager in a packet, or nil.
func cmMessage(p *packet) wire.CMMessage {
	q, ok := transport(p.data)
	if !ok || q.DestQP() != 1 {
		return nil
	}
	m, err := wire.ParseCM(q.Payload())
	if err != nil {
		return nil
	}
	return m
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

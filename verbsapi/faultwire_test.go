package verbsapi

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	testmust "github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// stream does WRITEs, eight at a time, and checks their data.
func stream(t *testing.T, a, b *end, count, size int) {
	ctx := testContext(t)
	fill(a.buf, 3)
	const depth = 8
	for i := range count + depth {
		if i >= depth {
			a.expect(ctx, uint64(i-depth), WCSuccess)
		}
		if i < count {
			a.post(SendWR{ID: uint64(i), Op: WRWrite, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		}
	}
	if !bytes.Equal(a.buf[:size], b.buf[:size]) {
		t.Error("the bytes that arrived are others")
	}
}

// TestFaultyCapture: under loss, reordering and duplication all data is right, and the checker
// finds nothing in a capture. The network is at fault, and neither end.
func TestFaultyCapture(t *testing.T) {
	for _, rule := range []string{
		"packet drop,p=1%,seed=1", "packet drop,p=5%,seed=2", "packet reorder,p=5%,by=3,seed=3", "packet duplicate,p=5%,seed=4",
	} {
		t.Run(rule, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "capture.pcapng")
			tap := must(rocev2.OpenTap(path, "lo"))(t)
			x := openTest(t, Config{Tap: tap, Faults: faults(t, rule)})
			a, b := pair(t, x, x, endConfig{bufSize: 20000}, ConnectAttr{Timeout: hasty, PathMTU: 1024})
			stream(t, a, b, 40, 20000)
			if err := errors.Join(x.Close(), tap.Close()); err != nil {
				t.Error(err)
			}
			sent, findings := captured(t, path)
			if len(findings) > 0 {
				t.Errorf("%d findings, the first %q", len(findings), findings[0])
			}
			if len(sent[wire.RCWriteMiddle]) != 40*18 {
				t.Errorf("%d MIDDLE packets are in the capture", len(sent[wire.RCWriteMiddle]))
			}
		})
	}
}

// TestCongestion: the receiver answers marked packets with CNPs, and the sender slows down, on each
// way from one queue pair to another. The checker finds nothing in the CNPs. With ECN off there
// are none.
func TestCongestion(t *testing.T) {
	off := DefaultECN()
	off.Off = true
	for _, same := range []bool{true, false} {
		for name, ecn := range map[string]*ECN{"on": nil, "off": &off} {
			t.Run(map[bool]string{true: "one device, ", false: "two devices, "}[same]+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "capture.pcapng")
				tap := must(rocev2.OpenTap(path, "lo"))(t)
				x := openTest(t, Config{Tap: tap, ECN: ecn, Faults: faults(t, "packet mark,opcode=RC_RDMA_WRITE_*,every=10")})
				y := x
				if !same {
					y = openTest(t, Config{ECN: ecn})
				}
				a, b := pair(t, x, y, endConfig{bufSize: 20000}, ConnectAttr{Timeout: patient, PathMTU: 1024})
				stream(t, a, b, 40, 20000)
				marked, notes := y.counter(t, "np_ecn_marked_roce_packets"), y.counter(t, "np_cnp_sent")
				handled, ignored := x.counter(t, "rp_cnp_handled"), x.counter(t, "rp_cnp_ignored")
				fired := x.Faults()[0].Fired
				if err := errors.Join(x.Close(), tap.Close()); err != nil {
					t.Error(err)
				}
				sent, findings := captured(t, path)
				if len(findings) > 0 {
					t.Errorf("%d findings, the first %q", len(findings), findings[0])
				}
				// All 40 WRITEs are acknowledged, so no CNP is on its way. Some packets may have
				// been sent again.
				if marked < 40*20/10 || marked > fired || handled != notes || ignored != 0 || sent[wire.OpCNP][0] != int(notes) || (notes > 0) != (name == "on") || notes > marked {
					t.Errorf("%d marked, %d CNPs, %d in the capture, %d handled, %d ignored", marked, notes, sent[wire.OpCNP][0], handled, ignored)
				}
			})
		}
	}
}

// counter reads a counter of the context's device.
func (c *Context) counter(t *testing.T, name string) uint64 {
	t.Helper()
	for _, n := range c.eng.dev.Counters() {
		if n.Name == name {
			return n.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// TestShapedLink: a link marks packets when its queue is long, and their receiver notifies the
// sender.
func TestShapedLink(t *testing.T) {
	const rule = "packet shape,rate=400kbit,ecn=2,opcode=RC_RDMA_WRITE_*" // 21 ms for a packet
	x := openTest(t, Config{Faults: faults(t, rule)})
	a, b := pair(t, x, x, endConfig{bufSize: 20000}, ConnectAttr{Timeout: patient, PathMTU: 1024})
	stream(t, a, b, 1, 20000)
	if marked, notes := x.counter(t, "np_ecn_marked_roce_packets"), x.counter(t, "np_cnp_sent"); marked == 0 || notes == 0 || notes > marked {
		t.Errorf("%d packets were marked, and %d CNPs sent", marked, notes)
	}
}

// TestFaultNoted: a capture says of each packet what rules did to it.
func TestFaultNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture.pcapng")
	tap := must(rocev2.OpenTap(path, "lo"))(t)
	rules := []string{
		"packet drop,opcode=RC_RDMA_WRITE_FIRST,first=1", "packet delay,time=1ms,opcode=RC_RDMA_WRITE_ONLY,first=1",
		"packet duplicate,opcode=RC_RDMA_WRITE_ONLY,first=1",
		"packet corrupt,field=se,opcode=RC_RDMA_WRITE_LAST,first=1",
	}
	x := openTest(t, Config{Tap: tap, Faults: faults(t, rules...)})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{Timeout: hasty, PathMTU: 1024})
	ctx := testContext(t)
	for _, size := range []int{8, 2048} {
		a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.expect(ctx, 1, WCSuccess)
	}
	// The end of the device would lose the second copy, if it is still delayed.
	testmust.Eventually(t, "the second copy arrives", func() bool {
		return slices.ContainsFunc(x.Counters(), func(c rxe.Counter) bool { return c.Name == "duplicate_request" && c.Value > 0 })
	})
	if err := errors.Join(x.Close(), tap.Close()); err != nil {
		t.Error(err)
	}
	got := make(map[string]int)
	file := must(os.Open(path))(t)
	defer file.Close()
	r := must(capture.NewReader(file))(t)
	for {
		var p capture.Packet
		if err := r.Next(&p); err != nil {
			break
		}
		got[string(p.Comment)]++
	}
	for comment, n := range map[string]int{
		"gorxe: lost by fault rule 1 (" + rules[0] + ")":                                                1,
		"gorxe: delayed by fault rule 2 (" + rules[1] + "); doubled by fault rule 3 (" + rules[2] + ")": 2,
		"gorxe: corrupted by fault rule 4 (" + rules[3] + ")":                                           1,
	} {
		if got[comment] != n {
			t.Errorf("%d packets have the comment %q, want %d of %v", got[comment], comment, n, got)
		}
	}
}

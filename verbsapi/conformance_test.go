package verbsapi

import (
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// tsharkArgs make payloads opaque. Otherwise tshark's heuristics take some for
// other protocols, and malformed.
var tsharkArgs = []string{
	"--disable-protocol", "ipoib",
	"--disable-heuristic", "eth_over_ib",
	"--disable-heuristic", "fc_infiniband",
	"--disable-heuristic", "sdp_infiniband",
	"--disable-heuristic", "iser_infiniband",
	"--disable-heuristic", "lnet_ib",
	"--disable-heuristic", "rpcrdma_infiniband",
	"--disable-heuristic", "smb_direct_infiniband",
	"--disable-heuristic", "smcr_infiniband",
}

// TestTshark does every operation between two devices, and within one. tshark reads
// the captures and must call every packet well formed.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Missing(t, "tshark is missing: %v", err)
	}
	for _, c := range []struct {
		name string
		same bool
		addr netip.Addr // of the first device; invalid: a new one
	}{
		{name: "two devices"},
		{name: "one device", same: true},
		{name: "IPv6", same: true, addr: netip.MustParseAddr("::1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.addr.Is6() && !testenv.OwnNetwork(t) {
				return
			}
			path := filepath.Join(t.TempDir(), "capture.pcapng")
			tap := must(rocev2.OpenTap(path, "lo"))(t)
			x := openTest(t, Config{Address: c.addr, Tap: tap})
			y := x
			if !c.same {
				y = openTest(t, Config{})
			}
			everyOperation(t, x, y)
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			if err := tap.Close(); err != nil {
				t.Error(err)
			}
			checkCapture(t, tshark, path)
		})
	}
}

// captureOpcodes are those that everyOperation must produce.
var captureOpcodes = []uint8{
	0x00, 0x01, 0x02, 0x03, 0x04, 0x05, // RC SEND
	0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, // RC WRITE
	0x0c, 0x0d, 0x0e, 0x0f, 0x10, // RC READ and its responses
	0x11, 0x12, 0x13, 0x14, // acknowledgements, atomics
	0x16, 0x17, 0x1c, 0x1d, // SEND with invalidate, FLUSH, ATOMIC WRITE
	0x20, 0x21, 0x22, 0x23, 0x24, 0x25, // UC SEND
	0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, // UC WRITE
	0x64, 0x65, // UD
}

// everyOperation has x do everything that it can to y, in one, two and three
// packets.
func everyOperation(t *testing.T, x, y *Context) {
	ctx := testContext(t)
	for _, typ := range []QPType{QPRC, QPUC} {
		a, b := pair(t, x, y, endConfig{typ: typ}, ConnectAttr{PathMTU: 1024})
		fill(a.buf, 9)
		for _, size := range []int{0, 1, 1023, 1024, 2047, 3000} {
			to := SendWR{SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Imm: 0x01020304}
			ops := []WROpcode{WRSend, WRSendImm, WRWrite, WRWriteImm}
			if typ == QPRC {
				ops = append(ops, WRRead)
			}
			for _, op := range ops {
				b.recv(1, 0, 4096)
				wr := to
				wr.ID, wr.Op = 2, op
				a.post(wr)
				a.expect(ctx, 2, WCSuccess)
				if op != WRWrite && op != WRRead {
					b.expect(ctx, 1, WCSuccess)
				}
			}
		}
		if typ == QPRC {
			rcOnly(t, a, b)
		}
	}
	u, v := newUD(t, x), newUD(t, y)
	ah := must(u.pd.CreateAH(AHAttr{DGID: wire.GIDFromAddr(y.Addr()), PortNum: 1}))(t)
	for i, op := range []WROpcode{WRSend, WRSendImm} {
		v.recv(1, 0, 2000)
		u.post(SendWR{ID: 2, Op: op, SGL: []SGE{u.mr.SGE(0, 1000+i)}, AH: ah, RemoteQPN: v.qp.Num(), RemoteQKey: testQKey})
		u.expect(ctx, 2, WCSuccess)
		v.expect(ctx, 1, WCSuccess)
	}
}

// rcOnly are atomics, FLUSH, SEND with invalidate in one and in two packets, and
// a NAK.
func rcOnly(t *testing.T, a, b *end) {
	ctx := testContext(t)
	to := SendWR{SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), FlushType: 1, FlushLength: 8}
	for _, op := range []WROpcode{WRFetchAdd, WRCompareSwap, WRAtomicWrite, WRFlush} {
		wr := to
		wr.ID, wr.Op = 3, op
		if op == WRFlush {
			wr.SGL = nil
		}
		a.post(wr)
		a.expect(ctx, 3, WCSuccess)
	}
	mw := must(b.pd.AllocMW(MWType2))(t)
	for _, size := range []int{10, 1500} {
		bind := MWBind{MW: mw, RKey: IncRKey(mw.RKey()), MR: b.mr, Addr: b.mr.Addr(), Length: 8, Access: AccessRemoteRead}
		b.post(SendWR{ID: 4, Op: WRBindMW, Bind: &bind})
		// the queue also has the receives that WRITEs and READs left unused
		for b.wait(ctx).ID != 4 {
			continue
		}
		b.recv(5, 0, 4096)
		a.post(SendWR{ID: 6, Op: WRSendInv, InvRKey: bind.RKey, SGL: []SGE{a.mr.SGE(0, size)}})
		a.expect(ctx, 6, WCSuccess)
	}
	to.ID, to.Op, to.RKey = 7, WRRead, to.RKey^0x5a00
	a.post(to)
	a.expect(ctx, 7, WCRemAccessErr)
}

func checkCapture(t *testing.T, tshark, path string) {
	args := append([]string{"-r", path, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed", "-e", "frame.number"},
		tsharkArgs...)
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint8]int)
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		op, err := strconv.ParseUint(f[0], 10, 8)
		if err != nil || f[1] != "" {
			t.Errorf("packet %s: opcode %q, malformed %q", f[2], f[0], f[1])
			continue
		}
		seen[uint8(op)]++
	}
	for _, op := range captureOpcodes {
		if seen[op] == 0 {
			t.Errorf("no packet of opcode %#02x; there are %v", op, slices.Sorted(maps.Keys(seen)))
		}
	}
}

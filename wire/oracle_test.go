package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// Programs that share no code with this package decode what it builds: tshark
// the headers, scapy and testdata/tools/icrc_check.py the ICRC.

// oracleSizes has every pad at both ends of the range and around each path MTU.
var oracleSizes = []int{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 61, 62, 63, 64, 253, 254, 255, 256, 257, 509, 510, 511, 512,
	1021, 1022, 1023, 1024, 1025, 1026, 2045, 2046, 2047, 2048, 4093, 4094, 4095, 4096,
}

// oraclePacket is one built packet with what was asked for.
type oraclePacket struct {
	headers Headers
	payload []byte
	v6      bool
	ip      []byte // IP header through ICRC
}

// oraclePackets builds each opcode over IPv4 and IPv6 with each payload size.
func oraclePackets(v6 bool) (all []oraclePacket) {
	for _, op := range validOps() {
		for _, n := range oracleSizes {
			if n > 0 && !op.Info().Has(OpPayload) {
				break
			}
			k := len(all)
			// The fields that are not pinned by the opcode vary too.
			h := sampleHeaders(op, PadLen(n))
			h.Solicited, h.MigReq, h.AckReq = k&1 != 0, k&2 != 0, k&4 != 0
			h.FECN, h.BECN = k&8 != 0, k&16 != 0
			h.PSN = h.PSN.Add(uint32(k))
			h.Syndrome = []Syndrome{SyndromeACK, 0x0b, SyndromeRNR(14), SyndromeNAK(NAKRemoteOp)}[k%4]
			r := *testRoute(v6)
			r.SrcPort += uint16(k)
			id, df := uint16(k*257), k%3 != 0

			body := samplePacket(op, n)
			h.Put(body)
			ip := ipPacket(&r, id, df, body)
			binary.LittleEndian.PutUint32(ip[len(ip)-ICRCLen:], NewICRC(&r, UDPPort).Sum(id, df, body))
			all = append(all, oraclePacket{h, body[h.Len() : h.Len()+n], v6, ip})
		}
	}
	return all
}

// writePcap writes packets to a file that holds them as Ethernet frames.
func writePcap(t *testing.T, packets []oraclePacket) string {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		frame := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00}, p.ip...)
		if p.v6 {
			frame[12], frame[13] = 0x86, 0xdd
		}
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(ci, frame); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "built.pcap")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// needTool makes a missing oracle an error in CI and a loud skip elsewhere.
func needTool(t *testing.T, found bool, pkg string) {
	t.Helper()
	if !found {
		testenv.Missing(t, "NOT CHECKED against an independent decoder: install the Debian package %s", pkg)
	}
}

// tsharkView is a packet as tshark can read it. Version 4.0 knows the BTH of
// every opcode but the rest of RC, UC, RD and UD only. What it does not know is
// an RC opcode plus one header, so it is shown a second time without that
// header and under the RC opcode. (The CNP has nothing but the BTH to show.)
type tsharkView struct {
	oraclePacket
	bthOnly bool // unless this tshark knows the opcode: version 4.4 knows FLUSH and ATOMIC WRITE
}

func tsharkViews(packets []oraclePacket) (views []tsharkView) {
	for _, p := range packets {
		op, i := p.headers.Opcode, p.headers.Opcode.Info()
		as, strip := op, int(i.XRCETH|i.FETH)
		switch {
		case op == RCFlush:
			as = RCReadRequest
		case op == RCAtomicWrite:
			as = RCWriteOnly
		case i.Service == ServiceXRC:
			as = op - XRCSendFirst
		}
		known := as == op && op != OpCNP
		views = append(views, tsharkView{p, !known})
		if known || op == OpCNP {
			continue
		}
		bth := len(p.ip) - ICRCLen - PadLen(len(p.payload)) - len(p.payload) - i.HeaderLen
		body := append([]byte{byte(as)}, p.ip[bth+1:len(p.ip)-ICRCLen]...)
		if strip != 0 {
			body = append(body[:strip], body[strip+4:]...)
		}
		q := p
		q.headers.Opcode = as
		q.ip = ipPacket(testRoute(p.v6), 0, true, body)
		copy(q.ip[len(q.ip)-ICRCLen:], p.ip[len(p.ip)-ICRCLen:])
		views = append(views, tsharkView{q, false})
	}
	return views
}

// tsharkColumns are the fields that tshark is asked for, and what it should say.
// A field of a header that the opcode does not have is the empty string.
var tsharkColumns = []struct {
	field string
	flags OpFlags // headers that have it; 0 for the BTH
	want  func(p *oraclePacket) string
}{
	{"infiniband.bth.opcode", 0, func(p *oraclePacket) string { return dec(p.headers.Opcode) }},
	{"infiniband.bth.se", 0, func(p *oraclePacket) string { return bit(p.headers.Solicited) }},
	{"infiniband.bth.m", 0, func(p *oraclePacket) string { return bit(p.headers.MigReq) }},
	{"infiniband.bth.padcnt", 0, func(p *oraclePacket) string { return dec(p.headers.Pad) }},
	{"infiniband.bth.tver", 0, func(*oraclePacket) string { return "0" }},
	{"infiniband.bth.p_key", 0, func(p *oraclePacket) string { return dec(p.headers.PKey) }},
	{"infiniband.reserved", 0, func(p *oraclePacket) string { // FECN, BECN and six reserved bits
		return fmt.Sprintf("%02x", [4]byte{0, 0x80, 0x40, 0xc0}[btoi(p.headers.FECN)+2*btoi(p.headers.BECN)])
	}},
	{"infiniband.bth.destqp", 0, func(p *oraclePacket) string { return fmt.Sprintf("0x%06x", p.headers.DestQP) }},
	{"infiniband.bth.a", 0, func(p *oraclePacket) string { return bit(p.headers.AckReq) }},
	{"infiniband.bth.psn", 0, func(p *oraclePacket) string { return dec(p.headers.PSN) }},

	{"infiniband.reth.va", HasRETH | HasAtomicETH, func(p *oraclePacket) string { return fmt.Sprintf("0x%016x", p.headers.VA) }},
	{"infiniband.reth.r_key", HasRETH | HasAtomicETH, func(p *oraclePacket) string { return fmt.Sprintf("0x%08x", p.headers.RKey) }},
	{"infiniband.reth.dmalen", HasRETH, func(p *oraclePacket) string { return dec(p.headers.DMALen) }},
	{"infiniband.aeth.syndrome", HasAETH, func(p *oraclePacket) string { return fmt.Sprint(uint8(p.headers.Syndrome)) }},
	{"infiniband.aeth.msn", HasAETH, func(p *oraclePacket) string { return dec(p.headers.MSN) }},
	{"infiniband.deth.q_key", HasDETH, func(p *oraclePacket) string { return fmt.Sprintf("0x%016x", p.headers.QKey) }},
	{"infiniband.deth.srcqp", HasDETH, func(p *oraclePacket) string { return fmt.Sprintf("0x%08x", p.headers.SrcQP) }},
	{"infiniband.immdt", HasImm, func(p *oraclePacket) string { return fmt.Sprintf("%08x", p.headers.Imm) }},
	{"infiniband.ieth", HasIETH, func(p *oraclePacket) string { return fmt.Sprintf("%08x", p.headers.InvRKey) }},
	{"infiniband.atomiceth.swapdt", HasAtomicETH, func(p *oraclePacket) string { return dec(p.headers.SwapAdd) }},
	{"infiniband.atomiceth.cmpdt", HasAtomicETH, func(p *oraclePacket) string { return dec(p.headers.Compare) }},
	{"infiniband.atomicacketh.origremdt", HasAtomicAckETH, func(p *oraclePacket) string { return dec(p.headers.AtomicOrig) }},

	{"data.data", OpPayload, func(p *oraclePacket) string { // tshark leaves the pad on
		return hex.EncodeToString(p.payload) + strings.Repeat("00", PadLen(len(p.payload)))
	}},
	{"infiniband.invariant.crc", ^OpFlags(0), func(p *oraclePacket) string { return "0x" + hex.EncodeToString(p.ip[len(p.ip)-ICRCLen:]) }},
	{"_ws.malformed", ^OpFlags(0), func(*oraclePacket) string { return "" }},
}

func dec[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T) string {
	return strconv.FormatUint(uint64(v), 10)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func bit(b bool) string { return strconv.Itoa(btoi(b)) }

// TestTshark compares every field of every packet with what tshark reads.
func TestTshark(t *testing.T) {
	var fields []string
	for _, c := range tsharkColumns {
		fields = append(fields, c.field)
	}
	for _, v6 := range []bool{false, true} {
		views := tsharkViews(oraclePackets(v6))
		packets := make([]oraclePacket, len(views))
		for i, v := range views {
			packets[i] = v.oraclePacket
		}
		rows := testenv.Tshark(t, writePcap(t, packets), fields...)
		if len(rows) != len(views) {
			t.Fatalf("tshark read %d packets of %d", len(rows), len(views))
		}
		for i := range views {
			compareTshark(t, &views[i], rows[i])
		}
		t.Logf("IPv6 %v: %d packets compared", v6, len(views))
	}
}

func compareTshark(t *testing.T, v *tsharkView, got []string) {
	t.Helper()
	for i, c := range tsharkColumns {
		want := ""
		if c.flags == 0 || v.headers.Opcode.Info().Has(c.flags) || c.flags == ^OpFlags(0) {
			want = c.want(&v.oraclePacket)
		}
		if v.bthOnly && (c.field == "data.data" || c.flags != 0 && got[i] == "") {
			continue // it shows nothing of unknown headers, or takes them for payload
		}
		if got[i] != want {
			t.Errorf("%v, payload %d, IPv6 %v: %s is %.64q, want %.64q",
				v.headers.Opcode, len(v.payload), v.v6, c.field, got[i], want)
		}
	}
}

const python = "/usr/bin/python3" // Debian's, for which python3-scapy installs

// TestICRCCheck has the stand-alone checker recompute every ICRC.
func TestICRCCheck(t *testing.T) {
	_, err := os.Stat(python)
	needTool(t, err == nil, "python3")
	for _, v6 := range []bool{false, true} {
		packets := oraclePackets(v6)
		out, err := exec.Command(python, "-B", "../testdata/tools/icrc_check.py", writePcap(t, packets)).CombinedOutput()
		if err != nil {
			t.Fatalf("icrc_check.py: %v\n%s", err, out)
		}
		if want := fmt.Sprintf("'icrc ok': %d}", len(packets)); !strings.Contains(string(out), want) {
			t.Errorf("IPv6 %v: want %s in\n%s", v6, want, out)
		}
	}
}

// scapyScript rebuilds each packet with an ICRC of scapy's own and counts those
// that come out as they went in.
const scapyScript = `
import sys
from scapy.contrib.roce import BTH
from scapy.utils import RawPcapReader
from scapy.layers.l2 import Ether
good = 0
for raw, _ in RawPcapReader(sys.argv[1]):
    p = Ether(raw)
    p[BTH].icrc = None
    good += bytes(p) == raw
print(good)
`

// TestScapy compares the ICRC over IPv4; scapy 2.5 has none over IPv6.
func TestScapy(t *testing.T) {
	err := exec.Command(python, "-c", "import scapy.contrib.roce").Run()
	needTool(t, err == nil, "python3-scapy")
	packets := oraclePackets(false)
	var stderr bytes.Buffer
	cmd := exec.Command(python, "-B", "-c", scapyScript, writePcap(t, packets))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("scapy: %v\n%s", err, &stderr)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.Itoa(len(packets)) {
		t.Errorf("scapy agrees on %s packets of %d\n%s", got, len(packets), &stderr)
	}
}

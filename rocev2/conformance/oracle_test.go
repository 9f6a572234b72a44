package conformance

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// Programs that share no code with this project read the same captures. tshark reads
// the headers; scapy and testdata/tools/icrc_check.py compute the ICRC.

const python = "/usr/bin/python3" // Debian's, for which python3-scapy installs

// allCaptures returns the captures of devices, with defects or not, the broken ones,
// and one of each network that the others lack.
func allCaptures(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.pcap", "broken/*.pcap", "defects/*.pcap"} {
		files, err := filepath.Glob(captures + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no captures %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	dir := t.TempDir()
	for name, file := range map[string][]byte{"rocev1.pcap": rocev1File(t), "infiniband.pcap": erfFile(t)} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, file, 0o666); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

// each calls f for each packet of a capture with its verdict.
func each(t *testing.T, name string, f func(p *capture.Packet, v *Verdict)) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		var p capture.Packet
		err := r.Next(&p)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(&p, c.Add(&p))
	}
}

// icrcScript has icrc_check.py judge each packet of each capture.
const icrcScript = `
import sys, struct
sys.path.insert(0, sys.argv[1])
import icrc_check as ic
def verdict(lt, d):
    if lt == 197:
        n = struct.unpack('>H', d[14:16])[0]
        ib = d[16:16+n]
        return ic.icrc_ib(ib[:(struct.unpack('>H', ib[4:6])[0] & 0x7ff)*4])
    et, p = d[12:14], d[14:]
    if et == b'\x08\x00' and p[9] == 17 and p[22:24] == b'\x12\xb7':
        return ic.icrc_v2(p[:struct.unpack('>H', p[2:4])[0]])
    if et == b'\x86\xdd' and p[6] == 17 and p[42:44] == b'\x12\xb7':
        return ic.icrc_v2(p[:40+struct.unpack('>H', p[4:6])[0]])
    if et == b'\x89\x15':
        return ic.icrc_v1(p[:40+struct.unpack('>H', p[4:6])[0]])
for name in sys.argv[2:]:
    print(name)
    for n, lt, d, _ in ic.read_pcap(name):
        v = verdict(lt, d)
        if v:
            print(n, int(v[0] == v[1]))
`

// scapyScript has scapy compute each ICRC over IPv4.
const scapyScript = `
import sys
from scapy.contrib.roce import BTH
from scapy.utils import RawPcapReader
from scapy.layers.l2 import Ether
for name in sys.argv[1:]:
    print(name)
    n = 0
    for raw, _ in RawPcapReader(name):
        n += 1
        p = Ether(raw)
        if BTH not in p or p[1].version != 4:
            continue
        p[BTH].icrc = None
        print(n, int(bytes(p)[-4:] == raw[-4:]))
`

// readVerdicts parses the output of a script: whether the ICRC is right, by file and
// packet.
func readVerdicts(t *testing.T, script string, args ...string) map[string]map[int]bool {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(python, append([]string{"-B", "-c", script}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	all := map[string]map[int]bool{}
	var file map[int]bool
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		var n, ok int
		if _, err := fmt.Sscanf(line, "%d %d", &n, &ok); err != nil {
			file = map[int]bool{}
			all[line] = file
			continue
		}
		file[n] = ok == 1
	}
	return all
}

// TestICRCVerdicts compares the verdict on every frame of every capture.
func TestICRCVerdicts(t *testing.T) {
	if _, err := os.Stat(python); err != nil {
		testenv.Missing(t, "NOT CHECKED against an independent ICRC: install the Debian package python3")
	}
	if err := exec.Command(python, "-c", "import scapy.contrib.roce").Run(); err != nil {
		testenv.Missing(t, "NOT CHECKED against scapy: install the Debian package python3-scapy")
	}
	files := merged(t, allCaptures(t))
	ethernet := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return filepath.Base(name) != ethernetFile })
	oracles := map[string]map[string]map[int]bool{
		"icrc_check.py": readVerdicts(t, icrcScript, append([]string{"../../testdata/tools"}, files...)...),
		"scapy":         readVerdicts(t, scapyScript, ethernet...),
	}
	compared, bad := map[string]int{}, 0
	for _, name := range files {
		each(t, name, func(p *capture.Packet, v *Verdict) {
			if p.Kind == capture.Other {
				return
			}
			for oracle, verdicts := range oracles {
				good, ok := verdicts[name][p.Number]
				if !ok {
					continue
				}
				compared[oracle]++
				if good != (v.ICRC == ICRCGood) {
					t.Errorf("%s packet %d: ICRC state %d; %s says %v", name, p.Number, v.ICRC, oracle, good)
				}
			}
			if _, ok := oracles["icrc_check.py"][name][p.Number]; !ok {
				t.Errorf("%s packet %d: icrc_check.py saw no such packet", name, p.Number)
			}
			if v.ICRC == ICRCBad {
				bad++
			}
		})
	}
	t.Logf("packets compared: %v; %d damaged", compared, bad)
	if compared["scapy"] == 0 || bad == 0 {
		t.Error("nothing was compared")
	}
}

// columns are fields with the names and the texts that tshark gives them.
var columns = []struct {
	field string
	flags wire.OpFlags // headers that have it; 0 for the BTH
	value func(p *capture.Packet, w wire.Packet) string
}{
	{"infiniband.bth.opcode", 0, func(_ *capture.Packet, w wire.Packet) string { return dec(w.Opcode()) }},
	{"infiniband.bth.se", 0, func(_ *capture.Packet, w wire.Packet) string { return bit(w.Solicited()) }},
	{"infiniband.bth.m", 0, func(_ *capture.Packet, w wire.Packet) string { return bit(w.MigReq()) }},
	{"infiniband.bth.padcnt", 0, func(_ *capture.Packet, w wire.Packet) string { return dec(uint8(w.Pad())) }},
	{"infiniband.bth.p_key", 0, func(_ *capture.Packet, w wire.Packet) string { return dec(w.PKey()) }},
	{"infiniband.bth.destqp", 0, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("0x%06x", uint32(w.DestQP())) }},
	{"infiniband.bth.a", 0, func(_ *capture.Packet, w wire.Packet) string { return bit(w.AckReq()) }},
	{"infiniband.bth.psn", 0, func(_ *capture.Packet, w wire.Packet) string { return dec(w.PSN()) }},
	{"infiniband.reth.va", wire.HasRETH | wire.HasAtomicETH, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("0x%016x", w.VA()) }},
	{"infiniband.reth.r_key", wire.HasRETH | wire.HasAtomicETH, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("0x%08x", uint32(w.RKey())) }},
	{"infiniband.reth.dmalen", wire.HasRETH, func(_ *capture.Packet, w wire.Packet) string { return dec(w.DMALen()) }},
	{"infiniband.aeth.syndrome", wire.HasAETH, func(_ *capture.Packet, w wire.Packet) string { return dec(w.Syndrome()) }},
	{"infiniband.aeth.msn", wire.HasAETH, func(_ *capture.Packet, w wire.Packet) string { return dec(w.MSN()) }},
	{"infiniband.deth.srcqp", wire.HasDETH, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("0x%08x", uint32(w.SrcQP())) }},
	{"infiniband.immdt", wire.HasImm, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("%08x", w.Imm()) }},
	{"infiniband.ieth", wire.HasIETH, func(_ *capture.Packet, w wire.Packet) string { return fmt.Sprintf("%08x", uint32(w.InvRKey())) }},
	{"infiniband.atomicacketh.origremdt", wire.HasAtomicAckETH, func(_ *capture.Packet, w wire.Packet) string { return dec(w.AtomicOrig()) }},
	{"infiniband.invariant.crc", ^wire.OpFlags(0), func(p *capture.Packet, _ wire.Packet) string {
		return "0x" + hex.EncodeToString(p.Transport[len(p.Transport)-wire.ICRCLen:])
	}},
}

func dec[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T) string {
	return strconv.FormatUint(uint64(v), 10)
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// TestTshark compares every field of every parsed packet. tshark reads only the BTH of
// an opcode that it does not know, as those of XRC except SENDs.
func TestTshark(t *testing.T) {
	fields := []string{"frame.number"}
	for _, c := range columns {
		fields = append(fields, c.field)
	}
	compared, sums := 0, 0
	for _, name := range merged(t, allCaptures(t)) {
		rows := testenv.Tshark(t, name, fields...)
		each(t, name, func(p *capture.Packet, v *Verdict) {
			if !v.Parsed || p.IP.MF {
				return
			}
			if p.Number > len(rows) {
				t.Fatalf("%s: tshark read %d packets", name, len(rows))
			}
			row := rows[p.Number-1]
			op := v.Packet.Opcode()
			known := op != wire.OpCNP && op != wire.RCFlush && op != wire.RCAtomicWrite &&
				(v.Packet.Info().Service != wire.ServiceXRC || v.Packet.Info().Has(wire.OpSend))
			for i, c := range columns {
				want := ""
				if c.flags == 0 || known && (v.Packet.Info().Has(c.flags) || c.flags == ^wire.OpFlags(0)) {
					want = c.value(p, v.Packet)
				} else if !known {
					continue
				}
				got := row[i+1]
				if c.flags == ^wire.OpFlags(0) {
					// If it takes a payload for another protocol, it shows no ICRC.
					if got == "" {
						continue
					}
					sums++
				}
				if got != want {
					t.Errorf("%s packet %d, %v: %s is %q, want %q", filepath.Base(name), p.Number, op, c.field, got, want)
				}
			}
			compared++
		})
	}
	t.Logf("%d packets compared, %d with their ICRC", compared, sums)
	if sums < compared*9/10 {
		t.Error("tshark shows too few ICRCs")
	}
}

// ethernetFile returns the file of merged that has the Ethernet frames.
var ethernetFile = mergedName(capture.LinkEthernet)

func mergedName(link capture.LinkType) string { return fmt.Sprintf("link-type-%d.pcap", link) }

// merged joins the captures of each link type into one file, with each frame once.
// tshark takes longer to start than to read them, and scapy takes a millisecond for
// each packet.
func merged(t *testing.T, files []string) (all []string) {
	t.Helper()
	frames := map[capture.LinkType][]capture.Packet{}
	seen := map[string]bool{}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range load(t, name, file).packets {
			if !seen[string(p.Frame)] {
				seen[string(p.Frame)] = true
				frames[p.Link] = append(frames[p.Link], p)
			}
		}
	}
	dir := t.TempDir()
	for link, packets := range frames {
		name := filepath.Join(dir, mergedName(link))
		var b bytes.Buffer
		w := pcapgo.NewWriter(&b)
		if err := w.WriteFileHeader(65535, layers.LinkType(link)); err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			ci := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Frame), Length: p.Length}
			if err := w.WritePacket(ci, p.Frame); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

package ladder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

const captures = "../../../testdata/pcaps/"

func contents(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(captures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// collected reads a capture into a collector.
func collected(t testing.TB, file []byte, c *Collector) conformance.Summary {
	t.Helper()
	r, err := conformance.Read(bytes.NewReader(file), conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
		c.Add(p, v)
		return nil
	})
	if err != nil || r.Cut {
		t.Fatal(r, err)
	}
	c.Findings(r.AtEnd)
	return r.Summary
}

// lines prints a capture.
func lines(t testing.TB, file []byte, l Lines) string {
	t.Helper()
	var out strings.Builder
	l.Out = &out
	r, err := conformance.Read(bytes.NewReader(file), conformance.Options{}, l.Add)
	if err != nil || r.Cut {
		t.Fatal(r, err)
	}
	if err := l.Findings(r.AtEnd); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWords pins the line of one packet of each kind.
func TestWords(t *testing.T) {
	for _, tt := range []struct{ file, line string }{
		{"rping.pcap", "     4    0.047490  10.77.0.1 > 10.77.0.2  RC SEND_ONLY qp 0x000020 psn 0x2b19a2 A  16 B"},
		{"rping.pcap", "     1    0.000000  10.77.0.1 > 10.77.0.2  UD SEND_ONLY qp 0x000001 psn 0x000000 A  CM REQ id 0x2490cc45 service 0x0000000001061c06 QP 0x000020 PSN 0x5b91c9"},
		{"rping.pcap", "     6    0.089844  10.77.0.2 > 10.77.0.1  RC RDMA_READ_REQUEST qp 0x000020 psn 0x5b91c9 A  va 0x558c602bb5f0 rkey 0xb99 len 64"},
		{"rping.pcap", "     7    0.096839  10.77.0.1 > 10.77.0.2  RC RDMA_READ_RESPONSE_ONLY qp 0x000020 psn 0x5b91c9  ACK msn 1  64 B"},
		{"allops_err_gid1.pcap", "   244    2.014959  10.77.0.2 > 10.77.0.1  RC ACKNOWLEDGE qp 0x000012 psn 0x0000c8  RNR NAK(320µs) msn 0"},
		{"allops_err_gid1.pcap", "   245    2.023086  10.77.0.1 > 10.77.0.2  RC SEND_ONLY qp 0x000012 psn 0x0000c8 A  64 B  [retransmission]"},
		{"allops_err_gid1.pcap", "   250    2.054651  10.77.0.2 > 10.77.0.1  RC ACKNOWLEDGE qp 0x000013 psn 0x00012c  NAK(remote access error) msn 0"},
		{"netem_corrupt2.pcap", "    36    0.029891  10.77.0.1 > 10.77.0.2  RC FETCH_ADD qp 0x000026 psn 0x000010 A  va 0x2e0eec40 rkey 0x1270 add 0x1"},
		{"netem_corrupt2.pcap", "    52    0.043437  10.77.0.2 > 10.77.0.1  RC ATOMIC_ACKNOWLEDGE qp 0x000026 psn 0x000010  ACK msn 3 was 0x0"},
		{"netem_corrupt2.pcap", "    60    0.045481  10.77.0.1 > 10.77.0.2  RC RDMA_WRITE_MIDDLE qp 0x000026 psn 0x000018  1024 B  [bad ICRC]"},
	} {
		all := strings.Split(lines(t, contents(t, tt.file), Lines{}), "\n")
		if !slices.Contains(all, tt.line) {
			number := tt.line[:6]
			got := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, number) })
			if got < 0 {
				t.Errorf("%s: no packet%s", tt.file, number)
				continue
			}
			t.Errorf("%s:\n got %s\nwant %s", tt.file, all[got], tt.line)
		}
	}
}

func TestVerbose(t *testing.T) {
	out := lines(t, contents(t, "rping.pcap"), Lines{Verbose: true, Limit: 6})
	for _, want := range []string{
		"         RETH         virtual address 0x0000558c602bb5f0, rkey 0x00000b99, length 64 B\n",
		"         DETH         Q_Key 0x80010000, source QP 0x000001\n",
		"opcode 0x0c RC_RDMA_READ_REQUEST, solicited event false",
		"destination QP 0x000020, acknowledge request true, PSN 0x5b91c9 (6001097)\n",
		"ICRC good\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestFindings: findings are printed below their packet.
func TestFindings(t *testing.T) {
	out := lines(t, contents(t, "netem_corrupt2.pcap"), Lines{})
	all := strings.Split(out, "\n")
	i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "    60 ") })
	if want := "         ^ violation icrc: expected the ICRC of the packet, seen another"; i < 0 || !strings.HasPrefix(all[i+1], want) {
		t.Errorf("below packet 60: %q", all[i+1])
	}
}

func TestFilter(t *testing.T) {
	file := contents(t, "allops_err_gid1.pcap")
	count := func(f Filter) int { return strings.Count(lines(t, file, Lines{Filter: f}), "  RC ") }
	if all, rest := count(Filter{}), count(Filter{QPs: []uint32{0x11}}); rest != 240 || all != 266 {
		t.Errorf("%d packets, %d of queue pair 0x11; want 266 and 240", all, rest)
	}
	if n := count(Filter{Hosts: []netip.Addr{netip.MustParseAddr("10.77.0.3")}}); n != 0 {
		t.Errorf("%d packets of a host that is not there", n)
	}
	if n := count(Filter{QPs: []uint32{0x14}, Notable: true}); n != 1 {
		t.Errorf("%d notable packets of queue pair 0x14, want the NAK", n)
	}
}

func TestTextLadder(t *testing.T) {
	c := Collector{Filter: Filter{QPs: []uint32{0x20}}}
	collected(t, contents(t, "rping.pcap"), &c)
	var out strings.Builder
	if err := c.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(out.String(), "\n")
	want := []string{
		"1. RC 10.77.0.1 qp 0x000020 ↔ 10.77.0.2 qp 0x000020: 60 packets",
		"                   10.77.0.1 qp 0x000020                                                      10.77.0.2 qp 0x000020",
		"     4    0.047490 |- RC SEND_ONLY psn 0x2b19a2 A  16 B -------------------------------------------------->|",
		"     5    0.050023 |<-------------------------------------------------- RC ACKNOWLEDGE psn 0x2b19a2  ACK msn 1 -|",
	}
	width := 0
	for i, line := range got {
		if i < 2 || !strings.Contains(line, "|") {
			continue
		}
		if n := len([]rune(line)); width != 0 && n != width {
			t.Errorf("line %d is %d wide, others %d", i, n, width)
		} else {
			width = n
		}
	}
	if got[0] != want[0] {
		t.Errorf("title %q, want %q", got[0], want[0])
	}
	for i, dir := range map[int]string{2: ">|", 3: "|<"} {
		words := want[i][strings.Index(want[i], "RC"):strings.LastIndex(want[i], "  ")]
		if !strings.Contains(got[i], dir) || !strings.Contains(got[i], words) || got[i][:19] != want[i][:19] {
			t.Errorf("rung %q, want %q and %q in it", got[i], dir, words)
		}
	}
}

// TestGuess: connections that only their PSNs distinguish are drawn with both
// directions, and the title says that this is a guess.
func TestGuess(t *testing.T) {
	var c Collector
	collected(t, contents(t, "interop-not-ready.pcap"), &c)
	ends := make(map[[2]uint32]int)
	for _, v := range c.Conversations() {
		if v.OneWay() || !v.Guessed {
			continue
		}
		ends[[2]uint32{uint32(v.Left.QPN), uint32(v.Right.QPN)}] = len(v.Rows)
	}
	for pair, n := range map[[2]uint32]int{{0x3d1c9f, 0xeb}: 23, {0xec, 0xdb2d1b}: 20, {0x9d3b5, 0xed}: 6, {0xee, 0x5db413}: 6} {
		if ends[pair] != n {
			t.Errorf("%#x has %d rows, want %d; all: %v", pair, ends[pair], n, ends)
		}
	}
}

// repeated returns a capture n times in a row, without damage: packets of the same
// flows.
func repeated(file []byte, n int) []byte {
	const header = 24
	out := slices.Clone(file[:header])
	for range n {
		out = append(out, file[header:]...)
	}
	return out
}

// damage flips a bit in the last byte of a packet's ICRC.
func damage(t *testing.T, file []byte, number int) {
	t.Helper()
	at := 24
	for i := 1; ; i++ {
		n := int(binary.LittleEndian.Uint32(file[at+8:]))
		if i == number {
			file[at+16+n-1] ^= 1
			return
		}
		if at += 16 + n; at >= len(file) {
			t.Fatalf("no packet %d", number)
		}
	}
}

// TestBounded: few packets of a long capture are kept. Those that break a rule and
// those around them are among these, and all others are counted.
func TestBounded(t *testing.T) {
	one := contents(t, "rping.pcap")
	file := repeated(one, 60)
	const fault = 2000
	damage(t, file, fault)
	c := Collector{MaxRows: 100}
	s := collected(t, file, &c)
	kept, seen, skipped := 0, uint64(0), uint64(0)
	found := false
	for _, v := range c.Conversations() {
		kept += len(v.Rows)
		seen += v.Packets
		shown := make(map[*conformance.Flow]uint64)
		for _, r := range v.Rows {
			skipped += r.skipped
			shown[r.Flow] = r.index
			found = found || r.Number == fault && r.Severity() == conformance.Violation
		}
		for f, last := range shown {
			if f != nil {
				skipped += f.Stats.Packets - last
			}
		}
	}
	if kept > c.MaxRows || kept < c.MaxRows/2 {
		t.Errorf("%d rows are kept of at most %d", kept, c.MaxRows)
	}
	if seen != s.Packets {
		t.Errorf("conversations have %d packets of %d", seen, s.Packets)
	}
	if left, _ := c.LeftOut(); left != s.Packets-uint64(kept) || skipped > left {
		t.Errorf("%d left out and %d skipped, of %d with %d kept", left, skipped, s.Packets, kept)
	}
	if !found {
		t.Errorf("packet %d, which is damaged, is not shown", fault)
	}
}

// FuzzShow: no capture makes any of the forms fail.
func FuzzShow(f *testing.F) {
	for _, name := range []string{"mckey.pcap", "udaddy.pcap", "allops_ext_gid1.pcap"} {
		f.Add(contents(f, name))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c := Collector{MaxRows: 64}
		l := Lines{Out: io.Discard, Verbose: true, Color: true}
		r, err := conformance.Read(bytes.NewReader(file), conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
			c.Add(p, v)
			return l.Add(p, v)
		})
		if r == nil {
			r = new(conformance.Report)
		}
		c.Findings(r.AtEnd)
		if err := l.Findings(r.AtEnd); err != nil {
			t.Fatal(err)
		}
		if err := c.WriteText(io.Discard, true); err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := c.WriteHTML(&page, fmt.Sprintf("%q", file[:min(len(file), 20)]), r.Summary, err); err != nil {
			t.Fatal(err)
		}
		if _, err := parsePage(page.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAround: what is kept around a NAK late in a long capture are packets of both directions.
func TestAround(t *testing.T) {
	file := repeated(contents(t, "rping.pcap"), 60)
	const fault = 2000
	damage(t, file, fault)
	c := Collector{MaxRows: 100}
	collected(t, file, &c)
	near := make(map[*conformance.Flow]int)
	for _, v := range c.Conversations() {
		for _, r := range v.Rows {
			if r.Number > fault-2*around && r.Number < fault {
				near[r.Flow]++
			}
		}
	}
	if len(near) != 2 {
		t.Errorf("before packet %d, packets of %d flows are shown", fault, len(near))
	}
	for f, n := range near {
		if n < around/2 {
			t.Errorf("%v: %d packets before packet %d", f, n, fault)
		}
	}
}

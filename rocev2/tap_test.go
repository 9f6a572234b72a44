package rocev2

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
	"github.com/gorxe/gorxe/wire/checksum"
)

// tapTraffic sends a burst over IPv4 and one over IPv6 from one port to another, both
// with the tap. It records one more packet, which passes no socket. It returns how
// many packets the tap should have.
func tapTraffic(t *testing.T, tap *Tap) int {
	t.Helper()
	const n = 5
	for _, pair := range [][2]string{{"127.0.17.1", "127.0.17.2"}, {"::1", "::1"}} {
		src, dst := netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])
		s := newSink(t)
		rx := open(t, Config{Address: dst, Receiver: s.receive, Tap: tap})
		tx := rx
		if src != dst {
			tx = open(t, Config{Address: src, Receiver: discard, Tap: tap})
		}
		must.OK(t, tx.Send([]wire.Burst{burst(&wire.Route{Src: src, Dst: dst, TrafficClass: 8}, n, 1040, 100)}))
		s.wait(n)
		must.OK(t, rx.Close()) // so that the receiver has written its last
	}
	out := burst(&wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.1"), SrcPort: 0xc001}, 1, 1040, 0)
	tap.WriteOut(out.Route, out.Buf, 0, 0)
	return 2*2*n + 1
}

// TestTapRefused: packets that the kernel refuses are not in the capture, and those beside them are
// there.
func TestTapRefused(t *testing.T) {
	var file bytes.Buffer
	tap, err := NewTap(&file, "lo")
	must.OK(t, err)
	src, dst := netip.MustParseAddr("127.0.18.1"), netip.MustParseAddr("127.0.18.2")
	p := open(t, Config{Address: src, Receiver: discard, Tap: tap})
	route := &wire.Route{Src: src, Dst: dst}
	must.OK(t, p.Send([]wire.Burst{burst(route, 2, 65530, 0), burst(route, 3, 1040, 0)}))
	must.OK(t, tap.Close())
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	must.OK(t, err)
	var lengths []int
	for data, _, err := r.ReadPacketData(); err == nil; data, _, err = r.ReadPacketData() {
		lengths = append(lengths, len(data)-ipv4HeaderLen-udpHeaderLen)
	}
	if c := p.Counters(); !slices.Equal(lengths, []int{1040, 1040, 1040}) || c.SentPackets.Load() != 3 || c.SendDropTooBig.Load() != 2 {
		t.Errorf("packets of %d bytes in the capture; the kernel took %d packets and refused %d", lengths, c.SentPackets.Load(), c.SendDropTooBig.Load())
	}
}

func TestTap(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	var file bytes.Buffer
	tap, err := NewTap(&file, "rxe-test")
	must.OK(t, err)
	want := tapTraffic(t, tap)
	must.OK(t, tap.Flush())
	must.OK(t, tap.Close())

	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	must.OK(t, err)
	if i, err := r.Interface(0); err != nil || i.Name != "rxe-test" {
		t.Errorf("interface %+v, %v", i, err)
	}
	got := 0
	for {
		data, _, err := r.ReadPacketData()
		if err != nil {
			break
		}
		got++
		first := layers.LayerTypeIPv4
		if data[0]>>4 == 6 {
			first = layers.LayerTypeIPv6
		}
		p := gopacket.NewPacket(data, first, gopacket.Default)
		if e := p.ErrorLayer(); e != nil {
			t.Fatal(e.Error())
		}
		checkTapped(t, p)
	}
	if got != want {
		t.Errorf("%d packets, want %d", got, want)
	}
}

// checkTapped: the ICRC must be exact for the identification shown.
func checkTapped(t *testing.T, p gopacket.Packet) {
	t.Helper()
	udp := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	src, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Src().Raw())
	dst, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Dst().Raw())
	var id uint16
	if v4, ok := p.NetworkLayer().(*layers.IPv4); ok {
		id = v4.Id
		if checksum.Fold(checksum.Add(0, v4.Contents)) != 0xffff {
			t.Error("bad IPv4 header checksum")
		}
	}
	state := wire.NewICRC(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(udp.SrcPort)}, wire.UDPPort)
	if !state.Check(udp.Payload, id, true) {
		t.Errorf("bad ICRC, identification %d", id)
	}
}

func TestTapInTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Missing(t, "tshark is missing: %v", err)
	}
	if !testenv.OwnNetwork(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "tap.pcapng")
	tap, err := OpenTap(path, "rxe-test")
	must.OK(t, err)
	want := tapTraffic(t, tap)
	must.OK(t, tap.Close())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new capture: %v, %v; it holds what others sent", info.Mode(), err)
	}
	out, err := exec.Command(tshark, "-r", path, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-e", "frame.interface_name", "-e", "infiniband.bth.opcode", "-e", "ip.checksum.status",
		"-e", "udp.checksum.status", "-e", "_ws.malformed").Output()
	must.OK(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != want {
		t.Fatalf("tshark shows %d packets, want %d", len(lines), want)
	}
	// Status 1 is good, 3 is "none": a UDP checksum of 0 over IPv4.
	for _, l := range lines {
		if !strings.HasPrefix(l, "rxe-test\t33\t1\t3") && !strings.HasPrefix(l, "rxe-test\t33\t\t1") {
			t.Errorf("tshark shows %q", l)
		}
	}
}

// TestTapLimit: a capture ends at its limit, and counts what it lacks.
func TestTapLimit(t *testing.T) {
	var file bytes.Buffer
	tap, err := NewTap(&file, "x")
	must.OK(t, err)
	out := burst(&wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}, 1, 64, 0)
	tap.Limit(uint64(3 * len(out.Buf)))
	for range 5 {
		tap.WriteOut(out.Route, out.Buf, 0, 0)
	}
	must.OK(t, tap.Close())
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	must.OK(t, err)
	n := 0
	for {
		if _, _, err := r.ReadPacketData(); err != nil {
			break
		}
		n++
	}
	if n != 3 || tap.LeftOut() != 2 {
		t.Errorf("%d packets and %d left out, want 3 and 2", n, tap.LeftOut())
	}
}

func TestTapErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "file")
	_, err := OpenTap(path, "x")
	if want := "create capture " + path + ": no such file or directory: there is no directory " + filepath.Dir(path); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var typed *PortError
	if !errors.As(err, &typed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.OK(t, err)
	defer full.Close()
	tap, err := NewTap(full, "x")
	must.OK(t, err)
	out := burst(&wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}, 1, 64, 0)
	tap.WriteOut(out.Route, out.Buf, 0, 0)
	if tap.Flush() == nil || tap.Close() == nil {
		t.Error("a full disk goes unnoticed")
	}
}

// TestPreparedTap: a capture that another user may have replaced is not written, and what a link
// leads to stays as it is.
func TestPreparedTap(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	other, empty := file("other", "precious"), file("empty", "")
	soft, hard, fifo := filepath.Join(dir, "soft"), filepath.Join(dir, "hard"), filepath.Join(dir, "fifo")
	must.OK(t, os.Symlink(empty, soft))
	must.OK(t, os.Link(empty, hard))
	must.OK(t, unix.Mkfifo(fifo, 0o600))
	for _, path := range []string{other, soft, hard, fifo, filepath.Join(dir, "missing"), dir} {
		if tap, err := OpenPreparedTap(path, "x"); err == nil {
			tap.Close() //nolint:errcheck // the test fails
			t.Errorf("%s was opened", path)
		}
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "precious" {
		t.Errorf("the other file has %q: %v", text, err)
	}
	tap, err := OpenPreparedTap(file("capture", ""), "x")
	must.OK(t, err)
	must.OK(t, tap.Close())
	if st, err := os.Stat(filepath.Join(dir, "capture")); err != nil || st.Size() == 0 {
		t.Errorf("the capture is empty: %v", err)
	}
}

// tsharkComment: tshark shows the comment of packet 2 of a file, and none of packet 1.
func tsharkComment(t *testing.T, file []byte, want string) {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Missing(t, "tshark is missing: %v", err)
	}
	path := filepath.Join(t.TempDir(), "x.pcapng")
	must.OK(t, os.WriteFile(path, file, 0o600))
	out, err := exec.Command(tshark, "-r", path, "-c", "2", "-T", "fields", "-e", "frame.comment").Output()
	if err != nil || string(out) != "\n"+want+"\n" {
		t.Errorf("tshark shows %q: %v", out, err)
	}
}

// TestTapNote: a note is the packet's comment, and the packets around it stay in their order.
func TestTapNote(t *testing.T) {
	var file bytes.Buffer
	tap, err := NewTap(&file, "x")
	must.OK(t, err)
	long := strings.Repeat("y", 2*maxNote)
	notes := []string{"", "lost by fault rule 1 (packet drop)", "", long, "", strings.Repeat("ü", maxNote)}
	for i, note := range notes {
		out := burst(&wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}, 1, 64+i, 0)
		tap.WriteNoted(out.Route, out.Buf, 0, 0, note)
	}
	must.OK(t, tap.Close())
	tsharkComment(t, file.Bytes(), notePrefix+notes[1])
	r, err := capture.NewReader(&file)
	must.OK(t, err)
	for i, note := range notes {
		var p capture.Packet
		must.OK(t, r.Next(&p))
		want := ""
		if note != "" {
			want = (notePrefix + note)[:min(len(notePrefix+note), maxNote)]
			want = strings.ToValidUTF8(want, "") // without half a rune
		}
		if string(p.Comment) != want || len(p.Transport) != 64+i || p.Time.IsZero() {
			t.Errorf("packet %d: %d bytes, comment %q", i, len(p.Transport), p.Comment)
		}
	}
	if err := r.Next(new(capture.Packet)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

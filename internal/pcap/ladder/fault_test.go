package ladder

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// noted makes a capture of SENDs with these notes.
func noted(t *testing.T, notes ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	tap, err := rocev2.NewTap(&file, "x")
	if err != nil {
		t.Fatal(err)
	}
	route := &wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc001}
	for i, note := range notes {
		h := wire.Headers{Opcode: wire.UCSendOnly, DestQP: 0x22, PSN: wire.PSN(i), PKey: wire.DefaultPKey}
		tap.WriteNoted(route, append(h.Append(nil), make([]byte, 8+wire.ICRCLen)...), 0, 0, note)
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestFaultsShown: a packet that a fault rule has hit shows that in lines, in the ladder and on the page. A lost one does not
// arrive there.
func TestFaultsShown(t *testing.T) {
	const lost, late = "lost by fault rule 1 (packet drop,first=1)", "delayed by fault rule 2 (packet delay,time=2ms)"
	file := noted(t, "", lost, late, late+"; "+lost)
	all := strings.Split(lines(t, file, Lines{}), "\n")
	for i, want := range []string{"8 B", "8 B  [" + lost + "]", "8 B  [" + late + "]", "8 B  [" + late + "; " + lost + "]"} {
		if !strings.HasSuffix(all[i], want) {
			t.Errorf("line %d is %q, want %q at its end", i+1, all[i], want)
		}
	}
	var c Collector
	s := collected(t, file, &c)
	var text, page strings.Builder
	if err := c.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	var rungs []string
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, " SEND_ONLY ") {
			rungs = append(rungs, strings.TrimSpace(line))
		}
	}
	for i, end := range []string{"->|", "-x|", ">|", "x|"} {
		if len(rungs) != 4 || !strings.HasSuffix(rungs[i], end) {
			t.Errorf("rungs %q, want %q at the end of number %d", rungs, end, i+1)
		}
	}
	if err := c.WriteHTML(&page, "x", s, nil); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{`right bad lost notable"`: 2, "to the right, and lost": 2, lost: 2, late: 2, `right odd notable"`: 1} {
		if got := strings.Count(page.String(), want); got != n {
			t.Errorf("the page has %q %d times, want %d", want, got, n)
		}
	}
}

// TestHostileComment: only what gorxe writes is shown, in printable letters.
func TestHostileComment(t *testing.T) {
	for comment, want := range map[string]string{
		"gorxe: lost by \x1b[31m\n\xff": "lost by ?[31m??", "lost by me": "", "": "", "gorxe: " + strings.Repeat("x", 1000): strings.Repeat("x", 293),
	} {
		var r Row
		if r.Fault = faultOf([]byte(comment)); r.Fault != want {
			t.Errorf("%q is %q", comment, r.Fault)
		}
	}
	if (&Row{Fault: "delayed by a rule"}).Lost() || faultOf((&capture.Packet{}).Comment) != "" {
		t.Error("a packet is lost that is not")
	}
}

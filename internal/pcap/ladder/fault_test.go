package ladder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
)

// noted makes a capture of the first packets of another one, with these comments.
func noted(t *testing.T, name string, comments ...string) []byte {
	t.Helper()
	var file []byte
	u32 := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	block := func(kind uint32, body []byte) {
		body = append(body, make([]byte, -len(body)&3)...)
		n := uint32(len(body) + 12)
		file = u32(append(u32(file, kind, n), body...), n)
	}
	block(0x0a0d0d0a, u32(nil, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff))
	r, err := capture.NewReader(bytes.NewReader(contents(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	for i, comment := range comments {
		var p capture.Packet
		if err := r.Next(&p); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			block(1, u32(nil, uint32(p.Link), 0))
		}
		ticks, n := uint64(p.Time.UnixMicro()), uint32(len(p.Frame))
		body := append(u32(nil, 0, uint32(ticks>>32), uint32(ticks), n, uint32(p.Length)), p.Frame...)
		body = append(body, make([]byte, -len(body)&3)...)
		if comment != "" {
			body = append(u32(body, 1|uint32(len(comment))<<16), comment...)
		}
		block(6, body)
	}
	return file
}

// TestFaultsShown: a packet that a fault rule has hit shows that in lines, in JSON, in the ladder
// and on the page. A lost one does not arrive there.
func TestFaultsShown(t *testing.T) {
	const lost, late = "lost by fault rule 1 (packet drop,first=1)", "delayed by fault rule 2 (packet delay,time=2ms)"
	const prefix = "gorxe: "
	file := noted(t, "rping.pcap", "", prefix+lost, prefix+late, prefix+late+"; "+lost, "lost by somebody")
	all := strings.Split(lines(t, file, Lines{}), "\n")
	for i, want := range []string{"", "[" + lost + "]", "[" + late + "]", "[" + late + "; " + lost + "]", ""} {
		if !strings.HasSuffix(all[i], want) || want == "" && strings.Contains(all[i], "fault") {
			t.Errorf("line %d is %q, want %q at its end", i+1, all[i], want)
		}
	}
	for i, object := range strings.Split(strings.TrimSpace(lines(t, file, Lines{JSON: true})), "\n") {
		var p JSONPacket
		if err := json.Unmarshal([]byte(object), &p); err != nil {
			t.Fatal(err)
		}
		if want := []string{"", lost, late, late + "; " + lost, ""}[i]; p.Fault != want {
			t.Errorf("object %d has the fault %q, want %q", i+1, p.Fault, want)
		}
	}
	var c Collector
	s := collected(t, file, &c)
	var text, page strings.Builder
	if err := c.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	for number, arrives := range map[string]bool{"1": true, "2": false, "3": true, "4": false, "5": true} {
		found := false
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(strings.TrimSpace(line), number+" ") {
				continue
			}
			found = true
			if ends := strings.HasSuffix(line, ">|\n") || strings.Contains(line, "|<"); ends != arrives {
				t.Errorf("packet %s arrives: %v, in %q", number, ends, line)
			}
		}
		if !found {
			t.Errorf("the ladder lacks packet %s:\n%s", number, text.String())
		}
	}
	if err := c.WriteHTML(&page, "x", s, nil); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{" bad lost notable": 2, ", and lost": 2, lost: 2, late: 2, " odd notable": 1} {
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

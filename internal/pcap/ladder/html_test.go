package ladder

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// element is an element of the page.
type element struct {
	name  string
	attrs map[string]string
	text  string // what it begins with
}

func (e *element) is(class string) bool {
	return strings.Contains(" "+e.attrs["class"]+" ", " "+class+" ")
}

// parsePage parses a page strictly. The template writes HTML that is XML too, so an
// element that is not closed, or text that is not escaped, is an error.
func parsePage(b []byte) ([]element, error) {
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Entity = xml.HTMLEntity
	var all []element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		switch x := token.(type) {
		case xml.StartElement:
			e := element{name: x.Name.Local, attrs: make(map[string]string)}
			for _, a := range x.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 && all[len(all)-1].text == "" {
				all[len(all)-1].text = string(x)
			}
		}
	}
}

func htmlPage(t testing.TB, file []byte, name string, c *Collector) []byte {
	t.Helper()
	s := collected(t, file, c)
	var out bytes.Buffer
	if err := c.WriteHTML(&out, name, s, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPage: the page is whole, loads nothing, and shows the findings.
func TestPage(t *testing.T) {
	c := Collector{Plot: new(plot.Collector)}
	const hostile = "</title><script>alert(1)</script>\x1b[2J\u202egnp.pcap"
	page := htmlPage(t, contents(t, "netem_corrupt2.pcap"), hostile, &c)
	elements, err := parsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	ids, count := make(map[string]bool), make(map[string]int)
	for i := range elements {
		e := &elements[i]
		if id := e.attrs["id"]; id != "" {
			if ids[id] {
				t.Errorf("two elements are %q", id)
			}
			ids[id] = true
		}
		count[e.name]++
		for _, class := range []string{"row", "again", "nak", "bad", "violation"} {
			if e.name == "details" && e.is(class) {
				count["."+class]++
			}
		}
		for _, attr := range []string{"src", "href", "action", "data"} {
			if v, ok := e.attrs[attr]; ok && !strings.HasPrefix(v, "#") {
				t.Errorf("<%s %s=%q> needs what is not in the page", e.name, attr, v)
			}
		}
	}
	for i := range elements {
		if to := elements[i].attrs["href"]; to != "" && !ids[to[1:]] {
			t.Errorf("a link to %q, which is not there", to)
		}
		if to := elements[i].attrs["aria-labelledby"]; to != "" && !ids[to] {
			t.Errorf("labelled by %q, which is not there", to)
		}
	}
	if count["script"] != 2 || count["details"] != count["summary"] || count["main"] != 1 || count["h1"] != 1 {
		t.Errorf("elements %v", count)
	}
	// Of the capture: 1161 packets, 26 of them damaged.
	if i := bytes.IndexAny(page, "\x1b\u202e"); i >= 0 {
		t.Errorf("the page has what changes a terminal or the direction of text: %q", page[max(0, i-20):i+20])
	}
	want := map[string]int{".row": 1161, ".bad": 26, ".violation": 26, ".nak": 8}
	for class, n := range want {
		if count[class] != n {
			t.Errorf("%d elements are %s, want %d", count[class], class, n)
		}
	}
	if count[".again"] < 300 {
		t.Errorf("%d retransmissions", count[".again"])
	}
	if bad := regexp.MustCompile(`https?://|url\(|@import|fetch\(|XMLHttp`).Find(page); bad != nil {
		t.Errorf("the page holds %q", bad)
	}
}

// head returns the class of the page's head, what it says, and the badges.
func head(t *testing.T, page []byte) (class, happened string, badges map[string]string) {
	t.Helper()
	elements, err := parsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	badges = make(map[string]string)
	for i := range elements {
		e := &elements[i]
		if e.attrs["id"] == "verdict" {
			class, happened = strings.TrimPrefix(e.attrs["class"], "verdict "), e.text
		}
		if name, ok := strings.CutPrefix(e.attrs["id"], "badge-"); ok {
			badges[name] = e.attrs["class"]
		}
	}
	return class, happened, badges
}

// TestHead: the page begins with what went wrong, and is green only if nothing did.
func TestHead(t *testing.T) {
	failed := &Story{Title: "the program failed", Badges: []Badge{{"violation", "Program", "failed"}, {"warning", "Faults", "1 hit"}}}
	well := &Story{Title: "the program ended well", Badges: []Badge{{"clean", "Program", "ended well"}}}
	for _, tt := range []struct {
		file            string
		story           *Story
		class, happened string
		protocol        string
	}{
		{"rping.pcap", nil, "clean", "No packet was sent again, and there was no NAK", "clean"},
		{"rping.pcap", well, "clean", "the program ended well", "clean"},
		{"rping.pcap", failed, "violation", "the program failed", "clean"},
		{"interop-kernels-mistakes.pcap", nil, "warning", "9 retransmissions, 3 NAKs (invalid request)", "clean"},
		{"netem_corrupt2.pcap", well, "violation", "the program ended well", "violation"},
		{"gorxe-congestion.pcap", nil, "warning", "No packet was sent again, and there was no NAK", "clean"},
		{"defects/interop-crossed.pcap", nil, "warning", "No packet was sent again, and there was no NAK", "warning"},
	} {
		c := Collector{Story: tt.story}
		class, happened, badges := head(t, htmlPage(t, contents(t, tt.file), tt.file, &c))
		if class != tt.class || !strings.Contains(happened, tt.happened) || badges["Protocol"] != tt.protocol {
			t.Errorf("%s: %q: %q, %q", tt.file, class, happened, badges)
		}
		if tt.story != nil && badges["Program"] != tt.story.Badges[0].Class {
			t.Errorf("%s: badges %q", tt.file, badges)
		}
	}
	var c Collector
	if class, happened, _ := head(t, htmlPage(t, contents(t, "rping.pcap")[:24], "empty", &c)); class != "empty" || happened != "No packet to judge" {
		t.Errorf("an empty capture: %q, %q", class, happened)
	}
}

// TestPageBounded: the page says how much is left out.
func TestPageBounded(t *testing.T) {
	c := Collector{MaxRows: 40}
	page := htmlPage(t, repeated(contents(t, "rping.pcap"), 40), "long", &c)
	elements, err := parsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	rows, said := 0, ""
	for i := range elements {
		if e := &elements[i]; e.name == "details" {
			rows++
		} else if e.attrs["id"] == "left-out" {
			said = e.text
		}
	}
	left, _ := c.LeftOut()
	if rows > 40 || !strings.HasPrefix(said, fmt.Sprintf("%d packets left out", left)) {
		t.Errorf("%d rows, and the page says %q of %d", rows, said, left)
	}
}

// TestPageTooLarge: a page that would be too large has fewer packets, first those that do not
// matter, and says so. Its links lead to what is left.
func TestPageTooLarge(t *testing.T) {
	const most = 1 << 20
	c := Collector{MaxPage: most}
	page := htmlPage(t, contents(t, "netem_corrupt2.pcap"), "large", &c)
	if _, err := parsePage(page); err != nil {
		t.Fatal(err)
	}
	rows, damaged := bytes.Count(page, []byte(`id="packet-`)), bytes.Count(page, []byte(" bad "))
	if len(page) > most || rows < 200 || rows > 600 || damaged < 26 {
		t.Errorf("%d bytes, %d packets, %d damaged", len(page), rows, damaged)
	}
	if said := fmt.Sprintf("%d packets left out", 1161-rows); !bytes.Contains(page, []byte(said)) || !bytes.Contains(page, []byte("larger than 50 MB")) {
		t.Errorf("the page does not say %q", said)
	}
	tiny := Collector{MaxPage: 1000}
	s := collected(t, contents(t, "rping.pcap"), &tiny)
	if err := tiny.WriteHTML(io.Discard, "x", s, nil); err == nil {
		t.Error("a page of 1,000 bytes was written")
	}
}

// TestWorst: packets without a flow have findings as well.
func TestWorst(t *testing.T) {
	var c Collector
	htmlPage(t, contents(t, "netem_corrupt2.pcap"), "corrupt", &c)
	seen := 0
	for _, v := range c.Conversations() {
		if len(v.Stats) > 0 {
			continue
		}
		seen++
		if got := v.worst(); got != conformance.Violation {
			t.Errorf("flow %d, of damaged packets: %v", v.ID, got)
		}
	}
	if seen == 0 {
		t.Error("each damaged packet belongs to a flow")
	}
}

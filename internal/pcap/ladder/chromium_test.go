//go:build !race

package ladder

import (
	"context"
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// probe uses the page as a reader with a keyboard and a mouse would, and writes what
// it saw to an attribute of the document.
const probe = `<script>
(() => {
  const seen = {};
  const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: key, bubbles: true }));
  const shown = () => Array.from(document.querySelectorAll(".row")).filter(r => !r.hidden).length;
  const row = () => { const r = document.activeElement.closest(".row"); return r ? r.id : ""; };
  seen.rows = shown();
  press("n");
  seen.firstNotable = row();
  press("n");
  seen.secondNotable = row();
  press("p");
  seen.backTo = row();
  document.activeElement.click();
  const opened = document.activeElement.closest(".row");
  seen.opened = opened.open;
  const detail = opened.querySelector(".detail");
  seen.detail = detail.getBoundingClientRect().height > 20 ? detail.textContent.includes("destination QP") : false;
  const find = document.getElementById("find");
  find.value = "fetch_add 0x000010";
  find.dispatchEvent(new Event("input", { bubbles: true }));
  seen.found = shown();
  find.value = "";
  const set = (id, value) => {
    const field = document.getElementById(id);
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    return shown();
  };
  seen.inTime = set("from", "0.029") - set("to", "0.03");
  seen.between = shown();
  set("from", ""); set("to", "");
  seen.adds = set("opcode", "RC FETCH_ADD");
  set("opcode", "");
  seen.ofNobody = set("qp", "") - set("qp", "0x000026");
  set("qp", "");
  document.getElementById("only").click();
  seen.notable = shown();
  document.getElementById("only").click();
  const charts = document.getElementById("charts"), canvas = id => document.getElementById(id);
  const span = () => Number(charts.dataset.to) - Number(charts.dataset.from);
  const key = (id, name) => canvas(id).dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const pixels = id => canvas(id).getContext("2d").getImageData(0, 0, canvas(id).width, canvas(id).height);
  seen.inks = Math.min(...["timeline", "psn", "rate", "depth", "took", "histogram"].map(id => {
    const all = pixels(id).data, inks = new Set();
    for (let i = 0; all.length > i; i += 4) {
      if (all[i + 3] > 100) { inks.add(all[i] * 65536 + all[i + 1] * 256 + all[i + 2]); }
    }
    return inks.size;
  }));
  const color = getComputedStyle(charts).getPropertyValue("--nak").trim().match(/[0-9a-f]{2}/g).map(s => parseInt(s, 16));
  const image = pixels("psn"), place = canvas("psn").getBoundingClientRect();
  for (let i = 0; image.data.length > i; i += 4) {
    if (color.every((c, k) => image.data[i + k] === c)) {
      canvas("psn").dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: place.left + i / 4 % image.width, clientY: place.top + Math.floor(i / 4 / image.width) }));
      break;
    }
  }
  const chosen = document.getElementById("packet-" + document.getElementById("chosen").dataset.packet);
  seen.chosen = document.getElementById("chosen").textContent + (chosen ? chosen.className : "");
  seen.chosenNAK = chosen ? chosen.classList.contains("nak") : false;
  const first = span();
  key("psn", "Home");
  const whole = span();
  seen.window = document.getElementById("window").textContent;
  seen.busy = whole > 2 * first; // nothing was sent in most of the run
  const work = canvas("psn").box.work[0];
  canvas("psn").dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: place.left + work.x2, clientY: place.top + work.y2 }));
  seen.work = document.getElementById("chosen").textContent + document.getElementById("chosen").querySelector("a").hash;
  // The first lane is that of the queue pair that sent nothing: below the axis, the events and its process.
  const lanes = canvas("timeline").getBoundingClientRect();
  canvas("timeline").dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: lanes.left + canvas("timeline").box.x(1e7), clientY: lanes.top + 16 + 2 * 18 + 5 }));
  seen.mute = document.getElementById("lane").selectedOptions[0].textContent + ": " + document.getElementById("chosen").textContent;
  document.getElementById("chosen").textContent = "";
  document.querySelector("#side-1 a[data-work]").click();
  seen.linked = document.getElementById("lane").selectedOptions[0].textContent + ": " + document.getElementById("chosen").textContent;
  for (let i = 0; 40 > i; i++) { key("timeline", "+"); }
  seen.closest = span();
  key("psn", "Home");
  seen.back = span() === whole;
  key("psn", "+");
  document.getElementById("only-span").click();
  seen.inSpan = shown();
  set("from", ""); set("to", "");
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.width = document.documentElement.clientWidth;
  const lane = document.querySelector(".right .lane"), arrow = lane.querySelector(".arrow").getBoundingClientRect();
  seen.arrow = arrow.width > 0.8 * lane.getBoundingClientRect().width;
  seen.colors = new Set([".row.right:not(.notable)", ".row.again", ".row.nak", ".row.bad"].map(s =>
    getComputedStyle(document.querySelector(s + " .arrow")).borderTopColor + getComputedStyle(document.querySelector(s + " .arrow")).borderTopStyle)).size;
  const channel = c => { c /= 255; return c > 0.03928 ? ((c + 0.055) / 1.055) ** 2.4 : c / 12.92; };
  const light = s => { const [r, g, b] = s.match(/\d+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const paper = light(getComputedStyle(document.querySelector(".flow")).backgroundColor);
  seen.contrast = Math.min(...[".words", ".row.again .words", ".row.nak .words", ".row.bad .words", ".time", ".facts"].map(s => {
    const ink = light(getComputedStyle(document.querySelector(s)).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
  seen.dark = !(paper > 0.5);
  parent.document.documentElement.setAttribute("data-seen-" + window.innerWidth, JSON.stringify(seen));
})();
</script>`

type seenByChromium struct {
	Rows, Found, Notable, Overflow, Width, Colors int
	InTime, Between, Adds, OfNobody               int
	Inks, InSpan                                  int
	Closest                                       float64 // nanoseconds that the charts show
	ChosenNAK, Back, Busy                         bool
	FirstNotable, SecondNotable, BackTo, Chosen   string
	Work, Mute, Window, Linked                    string
	Opened, Detail, Arrow, Dark                   bool
	Contrast                                      float64
}

// TestChromium runs the page in headless Chromium, wide and narrow, light and dark. It
// does not run under the race detector, which sees nothing of Chromium.
func TestChromium(t *testing.T) {
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		if browser, err = exec.LookPath("chromium"); err != nil {
			testenv.Missing(t, "chromium is missing: make setup installs it")
		}
	}
	c := Collector{Plot: new(plot.Collector)}
	start := firstPacket(t, "netem_corrupt2.pcap")
	c.Story = &Story{Title: "x", Work: []QPWork{{QPN: 0x26, Since: start, Work: plot.Work{Stride: 1, Requests: []plot.Request{
		{ID: "0xab", Op: "RDMA_WRITE", Status: "IBV_WC_RETRY_EXC_ERR", Failed: true, Bytes: 16384, Done: 2 * time.Second, PSNs: []uint32{0xfffff0, 0xffffff}},
	}}}}}
	c.Story.Sides = []Sentence{{Text: "it is late", Bad: true, Work: &Work{QPN: 0x26, PeerQPN: 0x26, PSN: 0xfffff0, ID: "0xab"}}}
	c.Story.Steps = []Step{{start, 0xbad, "mute", "INIT"}}
	c.Story.Events = []Sentence{{At: start.Add(10 * time.Millisecond), Text: "it failed", Bad: true, QPN: 0xbad}}
	page := string(htmlPage(t, contents(t, "netem_corrupt2.pcap"), "netem_corrupt2.pcap", &c))
	page = strings.Replace(page, "</body>", probe+"</body>", 1)
	widths := []string{"1280", "360"}
	// In frames, because a window cannot be as narrow as a telephone.
	doc := `<!DOCTYPE html><html><body>`
	for _, width := range widths {
		doc += `<iframe style="border:0;width:` + width + `px;height:800px" srcdoc="` + html.EscapeString(page) + `"></iframe>`
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(doc+`</body></html>`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []struct {
		name    string
		setting string // Chromium's number
		dark    bool
	}{{"light", "1", false}, {"dark", "0", true}} {
		dom := look(t, browser, "file://"+file, "--blink-settings=preferredColorScheme="+scheme.setting, "--virtual-time-budget=5000")
		for _, width := range widths {
			t.Run(scheme.name+", "+width, func(t *testing.T) { saw(t, dom, width).check(t, scheme.dark) })
		}
	}
}

// check compares what the probe saw with what it should see.
func (s *seenByChromium) check(t *testing.T, dark bool) {
	if s.Rows != 1161 || s.Found != 1 || s.Notable < 300 || s.Notable > 1000 {
		t.Errorf("%d rows, %d found, %d notable", s.Rows, s.Found, s.Notable)
	}
	if s.InTime <= 0 || s.Between <= 0 || s.Adds < 5 || s.Adds > 100 || s.OfNobody != 1 {
		t.Errorf("filters: %d later, %d between, %d FETCH_ADD, %d without a queue pair", s.InTime, s.Between, s.Adds, s.OfNobody)
	}
	if s.FirstNotable == "" || s.FirstNotable == s.SecondNotable || s.BackTo != s.FirstNotable {
		t.Errorf("n, n and p lead to %q, %q, %q", s.FirstNotable, s.SecondNotable, s.BackTo)
	}
	if !s.Opened || !s.Detail {
		t.Errorf("a click opens a row: %v, with its fields: %v", s.Opened, s.Detail)
	}
	if s.Overflow > 0 {
		t.Errorf("at %d px the page is %d px too wide", s.Width, s.Overflow)
	}
	if !s.Arrow || s.Colors != 4 {
		t.Errorf("arrow across the lane: %v; %d of 4 looks differ", s.Arrow, s.Colors)
	}
	if s.Inks < 3 || !s.ChosenNAK || !s.Back || !s.Busy || s.Closest < 999 || s.Closest > 1001 || s.InSpan < 100 || s.InSpan > 1000 {
		t.Errorf("charts: %d inks, a click chose a NAK: %v (%s), back from %g ns: %v, begins with what was sent: %v, %d packets in the span", s.Inks, s.ChosenNAK, s.Chosen, s.Closest, s.Back, s.Busy, s.InSpan)
	}
	if want := "wr_id 0xab: RDMA_WRITE, 16384 bytes, taken by the device after 0.000000000 s, completed after 2.000000000 s with IBV_WC_RETRY_EXC_ERR, PSN 0xfffff0 to 0xffffff. Packet 1,"; !strings.HasPrefix(s.Work, want) || !strings.HasSuffix(s.Work, "#packet-1") {
		t.Errorf("a click on a work request says %q", s.Work)
	}
	if s.Mute != "0x000bad → no packets: it failed " {
		t.Errorf("a click on the event of a queue pair that sent nothing says %q", s.Mute)
	}
	if !strings.HasPrefix(s.Linked, "RC 10.77.0.1 0x000026 → 10.77.0.2 0x000026: wr_id 0xab: RDMA_WRITE") {
		t.Errorf("the link to a work request selects %q", s.Linked)
	}
	if s.Window != "at most 16 packets under way" { // one message after the other
		t.Errorf("the chart of PSNs says %q", s.Window)
	}
	if s.Dark != dark || s.Contrast < 4.5 { // WCAG AA
		t.Errorf("dark %v, contrast %.1f", s.Dark, s.Contrast)
	}
}

// look returns the document after all probes have run.
func look(t *testing.T, browser, url string, settings ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, slices.Concat([]string{"--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir=" + t.TempDir(), "--dump-dom"}, settings, []string{url})...)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return dom
}

// saw returns what the probe in the frame of the given width wrote to a document.
func saw(t *testing.T, dom []byte, width string) *seenByChromium {
	t.Helper()
	m := regexp.MustCompile(`data-seen-` + width + `="([^"]*)"`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the page's probe did not come to its end: %.300s", dom)
	}
	seen := new(seenByChromium)
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

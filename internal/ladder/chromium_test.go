package ladder

import (
	"context"
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// probe uses the page as somebody with a keyboard and a mouse would, and leaves
// what it saw in an attribute of the document.
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
  find.dispatchEvent(new Event("input"));
  seen.found = shown();
  find.value = "";
  document.getElementById("only").click();
  seen.notable = shown();
  document.getElementById("only").click();
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
  parent.document.documentElement.setAttribute("data-seen", JSON.stringify(seen));
})();
</script>`

type seenByChromium struct {
	Rows, Found, Notable, Overflow, Width, Colors int
	FirstNotable, SecondNotable, BackTo           string
	Opened, Detail, Arrow, Dark                   bool
	Contrast                                      float64
}

// TestChromium runs the page in headless Chromium, wide and narrow, light and
// dark. Chromium is large, so `make setup` does not install it: where it is
// missing, in CI too, the page is tested by its structure only (TestPage).
func TestChromium(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	var c Collector
	page := string(htmlPage(t, contents(t, "netem_corrupt2.pcap"), "netem_corrupt2.pcap", &c))
	page = strings.Replace(page, "</body>", probe+"</body>", 1)
	for _, tt := range []struct {
		name   string
		width  string
		scheme string // Chromium's numbers
		dark   bool
	}{{"wide", "1280", "1", false}, {"narrow", "360", "1", false}, {"dark", "1280", "0", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// In a frame, since a window cannot be as narrow as a telephone.
			frame := `<!DOCTYPE html><html><body><iframe style="border:0;width:` + tt.width + `px;height:800px" srcdoc="` +
				html.EscapeString(page) + `"></iframe></body></html>`
			file := filepath.Join(t.TempDir(), "page.html")
			if err := os.WriteFile(file, []byte(frame), 0o600); err != nil {
				t.Fatal(err)
			}
			seen := look(t, browser, file, "--blink-settings=preferredColorScheme="+tt.scheme)
			if seen.Rows != 1161 || seen.Found != 1 || seen.Notable < 300 || seen.Notable > 1000 {
				t.Errorf("%d rows, %d found, %d notable", seen.Rows, seen.Found, seen.Notable)
			}
			if seen.FirstNotable == "" || seen.FirstNotable == seen.SecondNotable || seen.BackTo != seen.FirstNotable {
				t.Errorf("n, n and p lead to %q, %q, %q", seen.FirstNotable, seen.SecondNotable, seen.BackTo)
			}
			if !seen.Opened || !seen.Detail {
				t.Errorf("a click opens a row: %v, with its fields: %v", seen.Opened, seen.Detail)
			}
			if seen.Overflow > 0 {
				t.Errorf("at %d px the page is %d px too wide", seen.Width, seen.Overflow)
			}
			if !seen.Arrow || seen.Colors != 4 {
				t.Errorf("arrow across the lane: %v; %d of 4 looks differ", seen.Arrow, seen.Colors)
			}
			if seen.Dark != tt.dark || seen.Contrast < 4.5 { // WCAG AA
				t.Errorf("dark %v, contrast %.1f", seen.Dark, seen.Contrast)
			}
		})
	}
}

func look(t *testing.T, browser, file, setting string) (seen seenByChromium) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		setting, "--virtual-time-budget=5000", "--dump-dom", "file://"+file)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	m := regexp.MustCompile(`data-seen="([^"]*)"`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the page's probe did not come to its end: %.300s", dom)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

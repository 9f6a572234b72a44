package e2e

import (
	"context"
	"encoding/json"
	"html"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pageProbe uses a page as a reader would, and writes what it saw to an attribute of the document.
const pageProbe = `<script>
(() => {
  const rows = () => Array.from(document.querySelectorAll(".row")).filter(r => !r.hidden);
  const words = s => Array.from(document.querySelectorAll(s)).map(e => e.textContent.trim());
  const seen = { errors: window.wrong, title: document.title, badges: words(".badges li"), sentences: words(".sentences li"), rows: rows().length };
  seen.dead = Array.from(document.querySelectorAll("a[href]")).filter(a => !document.getElementById(a.getAttribute("href").slice(1))).length;
  seen.astray = Array.from(document.querySelectorAll(".sentences a")).filter(a => {
    const to = document.getElementById(a.getAttribute("href").slice(1)), n = a.textContent.match(/packet (\d+)/);
    return n ? !to.classList.contains("row") || to.querySelector(".number").textContent !== n[1] : false;
  }).length;
  const opcode = document.getElementById("opcode");
  seen.unfiltered = Array.from(opcode.options).slice(1).filter(o => {
    opcode.value = o.value;
    opcode.dispatchEvent(new Event("change", { bubbles: true }));
    const left = rows();
    return left.length === 0 || left.some(r => r.dataset.op !== o.value);
  }).length;
  opcode.value = "";
  opcode.dispatchEvent(new Event("change", { bubbles: true }));
  seen.back = rows().length;
  const ink = id => {
    const c = document.getElementById(id);
    if (!c) { return 0; }
    const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, inks = new Set();
    for (let i = 0; i < d.length; i += 4) { if (d[i + 3] > 100) { inks.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]); } }
    return inks.size;
  };
  seen.inks = Math.min(ink("timeline"), ink("psn"));
  seen.lanes = document.getElementById("lane") ? document.getElementById("lane").options.length : 0;
  document.documentElement.setAttribute("data-page", JSON.stringify(seen));
})();
</script>`

type seenPage struct {
	Errors, Badges, Sentences                         []string
	Title                                             string
	Rows, Dead, Astray, Unfiltered, Back, Inks, Lanes int
}

// pageRun is a run whose page a reader gets.
type pageRun struct {
	name  string
	flags []string // of gorxe pair
	words []string // of server and client
	alone []string // instead: of gorxe run
	says  []string // patterns: what happened, as the title, the badges and the sentences tell it
	lanes int      // directions of connections, and queue pairs that sent nothing, at least
}

// TestPages: the pages of eight runs load without an error, lead where they say, filter, are not
// empty, and say what happened. It runs with GORXE_E2E=full, and leaves pages and pictures in
// bin/pages.
func TestPages(t *testing.T) {
	if !full {
		return
	}
	need(t, "ibv_rc_pingpong", "ib_write_bw", "ib_send_bw", "rping", "chromium-headless-shell")
	write := func(more ...string) []string {
		return append([]string{"ib_write_bw", "-F", "-d", "rxe0", "-x", strconv.Itoa(gidIPv4), "-u", "20"}, more...)
	}
	ping := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-n", "300"}
	rule := func(text string) []string { return []string{"--fault", text} }
	for _, c := range []pageRun{
		{name: "healthy", words: ping, says: []string{`^The pair ended well`, `Packets: No packet was sent again, and there was no NAK`, `Protocol: no violation`, `No one: the pair ended well`}, lanes: 2},
		{name: "loss", flags: rule("packet drop,p=1%"), words: append(slices.Clone(ping), "-s", "16384"),
			says: []string{`^The pair ended well`, `Faults: 1 rule ordered, fired \d+ times`, `Packets: \d+ retransmissions`, `The fault rule packet drop,p=1%`}, lanes: 2},
		{name: "storm", flags: rule("packet drop,p=5%"), words: write("-s", "32768", "-n", "16"),
			says: []string{`^The pair ended well`, `Packets: \d+ retransmissions, .*NAKs \(PSN sequence error\)`, `The fault rule packet drop,p=5%`, `fault rules lost \d+ packets on the way, .*; \d+ packets were sent again`}, lanes: 2},
		{name: "rnr", flags: rule("peer rnr,first=6"), words: ping,
			says: []string{`^The pair ended well`, `Packets: .*\d+ RNR NAKs`, `The fault rule peer rnr,first=6`, `the receiver answered 6 times that it had no receive`}, lanes: 2},
		{name: "killed", flags: rule("peer killed,every=40,count=1"), words: ping,
			says: []string{`was killed by the fault rule \(SIGKILL\)|exit status`, `Program: failed`, `IBV_WC_RETRY_EXC_ERR|was killed by the fault rule`, `The fault rule peer killed,every=40,count=1`}, lanes: 2},
		{name: "reject", alone: []string{"rping", "-c", "-a", "ADDRESS", "-C", "1"},
			says: []string{`failed with exit status`, `Program: failed`, `nothing listens by RDMA CM at [0-9.]+:7174`, `Nobody listens at [0-9.]+:7174`, `sent REQ after .* sent REJ `}, lanes: 2},
		{name: "congestion", flags: rule("packet mark,every=4"), words: write("-s", "4096", "-n", "200"),
			says: []string{`^The pair ended well`, `Congestion: \d+ packets? marked \(CE\), \d+ CNPs?`, `The fault rule packet mark`, `\d+ packets came marked for congestion \(CE\); the receiver asked \d+ times to slow down`}, lanes: 2},
		{name: "many", words: write("-q", "64", "-n", "30", "-s", "2048"), says: []string{`^The pair ended well`, `Protocol: no violation`, `On 64 connections nothing was lost, sent again or refused: 1920 messages`}, lanes: 128},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c *pageRun) run(t *testing.T) {
	j := newTrial(t)
	if c.alone != nil {
		argv := slices.Clone(c.alone)
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "ADDRESS", j.addr)
		}
		j.run(t, []string{"--verdict", j.dir}, argv...)
	} else {
		args := slices.Concat([]string{gorxe, "pair", "--socket", j.socket, "--device", "rxe0=eth0", "--verdict", j.dir, "--faults-may-miss"}, c.flags, c.words, []string{"--"}, c.words, []string{j.addr})
		if len(c.flags) == 0 {
			args = slices.DeleteFunc(args, func(s string) bool { return s == "--faults-may-miss" })
		}
		start(t, j.host, nil, args...).wait()
	}
	dir, err := filepath.Abs("../../../bin/pages")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, c.name+".html")
	text := j.read(t, "verdict.html")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "<head>", `<head><script>window.wrong = []; window.onerror = m => window.wrong.push(String(m));</script>`, 1)
	probed := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(probed, []byte(strings.Replace(text, "</body>", pageProbe+"</body>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := c.look(t, probed)
	c.check(t, seen)
	picture := filepath.Join(dir, c.name+".png")
	chromium(t, "--window-size=1280,1600", "--screenshot="+picture, "file://"+file)
	checkPicture(t, picture)
	// On a telephone, dark. A window cannot be so narrow.
	frame := filepath.Join(t.TempDir(), "frame.html")
	if err := os.WriteFile(frame, []byte(`<body style="margin:0"><iframe style="border:0;width:390px;height:1600px" src="file://`+file+`"></iframe>`), 0o600); err != nil {
		t.Fatal(err)
	}
	picture = filepath.Join(dir, c.name+"-phone.png")
	chromium(t, "--window-size=390,1600", "--blink-settings=preferredColorScheme=0", "--screenshot="+picture, "file://"+frame)
	checkPicture(t, picture)
}

// chromium runs the browser, and returns its output.
func chromium(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "chromium-headless-shell", append([]string{"--no-sandbox", "--disable-gpu",
		"--user-data-dir=" + t.TempDir(), "--virtual-time-budget=5000"}, args...)...).Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return out
}

func (c *pageRun) look(t *testing.T, file string) *seenPage {
	t.Helper()
	dom := chromium(t, "--window-size=1280,1600", "--dump-dom", "file://"+file)
	m := regexp.MustCompile(`data-page="([^"]*)"`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the probe did not come to its end: %.300s", dom)
	}
	seen := new(seenPage)
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

func (c *pageRun) check(t *testing.T, seen *seenPage) {
	t.Helper()
	t.Logf("%q\n%s\n%s", seen.Title, strings.Join(seen.Badges, "\n"), strings.Join(seen.Sentences, "\n"))
	if len(seen.Errors) > 0 || seen.Dead+seen.Astray+seen.Unfiltered > 0 || seen.Rows == 0 || seen.Back != seen.Rows {
		t.Errorf("errors %q, %d links lead nowhere, %d astray, %d opcodes do not filter, %d rows, %d after filters", seen.Errors, seen.Dead, seen.Astray, seen.Unfiltered, seen.Rows, seen.Back)
	}
	if seen.Inks < 3 || seen.Lanes < c.lanes {
		t.Errorf("%d inks of the charts, %d lanes", seen.Inks, seen.Lanes)
	}
	all := strings.Join(slices.Concat([]string{seen.Title}, seen.Badges, seen.Sentences), "\n")
	for _, s := range c.says {
		if !regexp.MustCompile("(?m)" + s).MatchString(all) {
			t.Errorf("a reader does not learn %q from:\n%s", s, all)
		}
	}
}

// checkPicture: a picture is neither empty nor pale.
func checkPicture(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	box := img.Bounds()
	counts, pixels := make(map[uint32]int), box.Dx()*box.Dy()
	dark, light := uint32(255), uint32(0)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			r, g, b = r>>8, g>>8, b>>8
			counts[r<<16|g<<8|b]++
			bright := (2126*r + 7152*g + 722*b) / 10000
			dark, light = min(dark, bright), max(light, bright)
		}
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	if len(counts) < 50 || most > pixels*97/100 || light-dark < 150 {
		t.Errorf("%s: %d colors, one of them is %d of %d pixels; brightness from %d to %d", file, len(counts), most, pixels, dark, light)
	}
}

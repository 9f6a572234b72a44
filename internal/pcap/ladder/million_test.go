//go:build !race

package ladder

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// timing moves and zooms the charts, and measures by the browser's clock how long each step takes
// until its pixels are there: at once, and when all is decoded.
const timing = `<script>
(() => {
  const canvas = id => document.getElementById(id), took = [];
  const step = (id, key) => {
    const start = performance.now();
    canvas(id).dispatchEvent(new KeyboardEvent("keydown", { key: key, bubbles: true }));
    for (const c of ["timeline", "psn", "rate"]) { canvas(c).getContext("2d").getImageData(0, 0, 1, 1); }
    took.push(performance.now() - start);
  };
  const steps = () => {
    step("timeline", "Home");
    for (let i = 0; 22 > i; i++) { step("timeline", i % 3 === 2 ? "ArrowRight" : "+"); }
    for (let i = 0; 22 > i; i++) { step("psn", i % 3 === 2 ? "ArrowLeft" : "-"); }
  };
  steps();
  const again = () => {
    if (canvas("charts").dataset.decoded !== "all") {
      setTimeout(again, 10);
      return;
    }
    steps();
    took.sort((a, b) => a - b);
    fetch("/took", { method: "POST", body: JSON.stringify({ median: took[45], tenth: took[81], most: took[89] }) });
  };
  again();
})();
</script>`

// TestMillion: with a million packets the page is not large, and a step of its charts takes less
// than 100 ms. It runs with GORXE_E2E=full.
func TestMillion(t *testing.T) {
	if os.Getenv("GORXE_E2E") != "full" {
		return
	}
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		testenv.Missing(t, "chromium is missing: make setup installs it")
	}
	const packets = 1_000_000
	c := Collector{Plot: new(plot.Collector)}
	fill(t, &c, packets)
	var out bytes.Buffer
	if err := c.WriteHTML(&out, "million", conformance.Summary{}, nil); err != nil {
		t.Fatal(err)
	}
	// The browser ends once the page has its picture, which is when the probe has told its times.
	page := strings.Replace(out.String(), "</body>", `<img src="/ended" alt=""/>`+timing+"</body>", 1)
	var took struct{ Median, Tenth, Most float64 }
	told := make(chan error, 1)
	ended := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, page); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /ended", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /took", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case told <- json.NewDecoder(r.Body).Decode(&took):
			close(ended)
		default:
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	look(t, browser, server.URL+"/", "--window-size=1280,900")
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal("the probe did not come to its end")
	}
	t.Logf("%d packets: %d MB, a step takes %.0f ms, nine of ten less than %.0f ms, the slowest %.0f ms", packets, out.Len()>>20, took.Median, took.Tenth, took.Most)
	if took.Median > 100 || out.Len() > 20<<20 {
		t.Errorf("a step takes %.0f ms, the page has %d MB", took.Median, out.Len()>>20)
	}
}

// fill gives a collector packets of 16 connections.
func fill(t *testing.T, c *Collector, packets int) {
	t.Helper()
	const flows = 16
	b := make([]byte, 12+4)
	newPacket := func(op wire.Opcode, psn wire.PSN, q wire.QPN) wire.Packet {
		clear(b)
		b[0], b[2], b[3] = byte(op), 0xff, 0xff
		b[5], b[6], b[7] = byte(q>>16), byte(q>>8), byte(q)
		b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
		p, err := wire.Parse(b[:op.Info().HeaderLen])
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var pairs [flows][2]*conformance.Flow
	for i := range pairs {
		x := &conformance.Flow{ID: 2*i + 1, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), QPN: wire.QPN(100 + i)}
		y := &conformance.Flow{ID: 2*i + 2, Src: x.Dst, Dst: x.Src, QPN: wire.QPN(200 + i)}
		x.Peer, y.Peer, pairs[i] = y, x, [2]*conformance.Flow{x, y}
	}
	start := time.Unix(1_700_000_000, 0)
	for i := range packets {
		of, n := pairs[i%flows], i/flows
		p := capture.Packet{Number: i + 1, Time: start.Add(time.Duration(i) * 3 * time.Microsecond), Kind: capture.RoCEv2, Src: of[0].Src, Dst: of[0].Dst}
		v := conformance.Verdict{Flow: of[0], Parsed: true, Class: conformance.ClassNew}
		if v.Packet = newPacket(wire.RCSendOnly, wire.PSN(n/2), of[0].QPN); n%2 == 1 {
			v.Flow, p.Src, p.Dst = of[1], of[1].Src, of[1].Dst
			v.Packet = newPacket(wire.RCAck, wire.PSN(n/2), of[1].QPN)
		} else if n%1000 == 0 {
			v.Class = conformance.ClassRetransmission
		}
		p.Transport, p.TransportLen = b, len(v.Packet.Bytes())+wire.ICRCLen
		c.Add(&p, &v)
	}
}

// TestTenMillion: ten million packets need no more memory than a million, and their page says what
// it has not. It runs with GORXE_E2E=full.
func TestTenMillion(t *testing.T) {
	if os.Getenv("GORXE_E2E") != "full" {
		return
	}
	c := Collector{Plot: new(plot.Collector)}
	fill(t, &c, 10_000_000)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var out bytes.Buffer
	if err := c.WriteHTML(&out, "ten million", conformance.Summary{}, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB of memory, a page of %d MB", m.HeapAlloc>>20, out.Len()>>20)
	if m.HeapAlloc > 128<<20 || out.Len() > 20<<20 {
		t.Errorf("%d MiB of memory, a page of %d MB", m.HeapAlloc>>20, out.Len()>>20)
	}
	for _, want := range []string{"The charts have one of up to ", "9998", " packets left out"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

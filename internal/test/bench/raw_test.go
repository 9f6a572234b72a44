package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// TestRawSockets: frames of plain sockets arrive, and are counted.
func TestRawSockets(t *testing.T) {
	hosts, err := newSocketHosts()
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	defer hosts.close()
	for name, open := range map[string]openSocket{"packet": openPacket, "UDP": openUDP} {
		s := must.Get[rawSample](t)(hosts.flood(open, 64, 10*time.Millisecond))
		if s.sent <= 0 || s.arrived <= 0 || s.arrived > 1 || s.processor <= 0 {
			t.Errorf("%s sockets: %+v", name, s)
		}
	}
}

// TestPrintRaw: a way that failed has no figures.
func TestPrintRaw(t *testing.T) {
	good := &RawResult{What: "good", Size: 64}
	good.Sent.add(12_300)
	good.Arrived.add(0.5)
	good.Processor.add(4.56)
	var b strings.Builder
	PrintRaw(&b, Machine{}, []*RawResult{good, {What: "bad", Size: 64, Failed: "why"}})
	for _, want := range []string{"| good | 64 | 12 (12 to 12) | 50 % | 4.6 µs (4.6 to 4.6) |\n", "| bad | 64 | failed | | |\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

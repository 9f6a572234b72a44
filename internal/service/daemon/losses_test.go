package daemon

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// The log and the status name the packets that were lost, and the log says nothing if none
// was.
func TestLosses(t *testing.T) {
	var out sink
	spec := testSpec("rxe0")
	s := startTest(t, Config{Devices: []proto.Spec{spec}, Log: out.logger(slog.LevelInfo)}, nil)
	from := netip.AddrPortFrom(spec.Address.Next(), 0)
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(netip.AddrPortFrom(spec.Address, wire.UDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	toNobody := make([]byte, 40)
	toQP1 := make([]byte, 40) // with a wrong ICRC
	toQP1[7] = 1
	for _, pkt := range [][]byte{toNobody, toNobody, toQP1, toQP1, toQP1} {
		if _, err := c.Write(pkt); err != nil {
			t.Fatal(err)
		}
	}
	d := s.devices[0]
	must.Eventually(t, "the packets are dropped", func() bool { return d.engine.Port().Counters().ICRCErrors.Load() == 3 })
	for range 2 {
		s.reportLosses()
	}
	if lines := out.lines("packets were lost"); len(lines) != 1 || !strings.Contains(lines[0], "icrc_errors=3 receive_filter_drop=2") {
		t.Errorf("the log has %q", lines)
	}
	if n := s.status(0).Devices[0].Ports[0].Counters; n["icrc_errors"] != 3 || n["receive_filter_drop"] != 2 {
		t.Errorf("the status counts %v", n)
	}
	if n, err := s.tree.Lookup("/sys/class/infiniband/rxe0/ports/1/hw_counters/receive_filter_drop", false); err != nil {
		t.Error(err)
	} else if text, err := n.Content(); err != nil || string(text) != "2\n" || n.UID != uint32(os.Geteuid()) || n.Permits(1, false, unix.R_OK) || !n.Permits(0, true, unix.R_OK) {
		t.Errorf("receive_filter_drop of user %d, mode %o: %q, %v", n.UID, n.Mode, text, err)
	}
}

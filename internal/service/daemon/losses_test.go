package daemon

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/wire"
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
	eventually(t, "the packets are dropped", func() bool { return d.engine.Port().Counters().ICRCErrors.Load() == 3 })
	for range 2 {
		s.reportLosses()
	}
	if lines := out.lines("packets were lost"); len(lines) != 1 || !strings.Contains(lines[0], "icrc_errors=3 receive_filter_drop=2") {
		t.Errorf("the log has %q", lines)
	}
	if n := s.status(0).Devices[0].Ports[0].Counters; n["icrc_errors"] != 3 || n["receive_filter_drop"] != 2 {
		t.Errorf("the status counts %v", n)
	}
	if counters := s.status(1).Devices[0].Ports[0].Counters; len(counters) > 0 {
		t.Errorf("another user sees %v", counters)
	}
}

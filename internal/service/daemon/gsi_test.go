package daemon

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// answers keeps what comes to queue pair 1.
type answers chan wire.MAD

func (a answers) ReceiveGSI(pkt wire.Packet, _ *wire.Datagram) {
	if m, err := wire.ParseMAD(pkt.Payload()); err == nil {
		a <- *m
	}
}

// A device of the daemon tells its port's counters to any host, and refuses other requests.
func TestManagementDatagrams(t *testing.T) {
	here, there := netip.MustParseAddr("127.79.1.1"), netip.MustParseAddr("127.79.1.2")
	d, err := startDevice(proto.Spec{Name: "rxe0", Address: there}, 0, common{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close() //nolint:errcheck // checked elsewhere
	got := make(answers, 4)
	e, err := engine.Start(engine.Config{Name: "peer", Address: here, GSI: got})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // as above
	ask := func(class wire.MADClass, attribute wire.PMAttribute) *wire.MAD {
		t.Helper()
		m := wire.PMPortCountersExtended{MAD: new(wire.MAD)}
		m.Init(&wire.MADHeader{Class: class, ClassVersion: 1, Method: wire.MADGet, TID: 7, Attribute: uint16(attribute)})
		m.SetPortSelect(1)
		if err := e.Device().SendGSI(rxe.AHAttr{DGID: wire.GIDFromAddr(there), PortNum: 1}, rxe.GSIQPN, m.MAD[:]); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-got:
			return &m
		case <-time.After(testTimeout):
			t.Fatal("no answer")
		}
		return nil
	}
	first := wire.PMPortCountersExtended{MAD: ask(wire.MADClassPerformance, wire.AttrPortCountersExtended)}.Counters()
	second := wire.PMPortCountersExtended{MAD: ask(wire.MADClassPerformance, wire.AttrPortCountersExtended)}.Counters()
	if second.RcvPackets != first.RcvPackets+1 || second.XmitPackets != first.XmitPackets+1 || second.RcvData <= first.RcvData {
		t.Errorf("counters %+v, then %+v", first, second)
	}
	if m := ask(wire.MADClassSubnetAdmin, 0x35); m.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("a path query is answered with status %#x", m.Status())
	}
	counters := d.status(true).Counters
	if counters["mad_rcvd"] != 3 || counters["mad_unsupported"] != 1 {
		t.Errorf("status: %v", counters)
	}
}

package ladder

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// TestManagement: the connection manager's messages are words on the rungs of one ladder,
// and -v has their fields.
func TestManagement(t *testing.T) {
	var c Collector
	collected(t, contents(t, "rping.pcap"), &c)
	var words []string
	v := c.Conversations()[0]
	for _, r := range v.Rows {
		direction := "<"
		if v.ToRight(r) {
			direction = ">"
		}
		_, message, _ := strings.Cut(r.Words(), "  CM ")
		words = append(words, direction+" "+message)
	}
	want := []string{
		"> REQ id 0x2490cc45 service 0x0000000001061c06 QP 0x000020 PSN 0x5b91c9",
		"< REP id 0x9f3c4db7 for 0x2490cc45 QP 0x000020 PSN 0x2b19a2",
		"> RTU id 0x2490cc45 for 0x9f3c4db7",
		"> DREQ id 0x2490cc45 for 0x9f3c4db7 QP 0x000020",
		"< DREP id 0x9f3c4db7 for 0x2490cc45",
	}
	if !slices.Equal(words, want) {
		t.Errorf("the ladder of queue pair 1 has\n%s\nwant\n%s", strings.Join(words, "\n"), strings.Join(want, "\n"))
	}
	out := lines(t, contents(t, "rping.pcap"), Lines{Verbose: true})
	for _, want := range []string{
		"MAD          class 0x07 communication management, class version 2, method Send, status 0x0000, TID 0x",
		"service ID 0x0000000001061c06 (port space 0x0106, port 7174), CA GUID ",
		"RDMA IP CM   source 10.77.0.1, source port 48856, destination 10.77.0.2\n",
		"CM DREQ      local communication ID 0x2490cc45, remote communication ID 0x9f3c4db7, queue pair of the receiver 0x000020\n",
		"Private data length 224 B, bytes all zero\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if out := lines(t, contents(t, "udaddy.pcap"), Lines{Verbose: true}); !strings.Contains(out, "CM SIDR_REQ") || !strings.Contains(out, "CM SIDR_REP") {
		t.Errorf("no lookup in\n%s", out)
	}
}

// TestEachMessage: every message has its fields, and other datagrams have words too.
func TestEachMessage(t *testing.T) {
	for want, init := range map[string]func(m *wire.MAD){
		"CM MRA":      func(m *wire.MAD) { m.InitMRA(1) },
		"CM REJ":      func(m *wire.MAD) { m.InitREJ(1).SetInfo([]byte{1, 2}) },
		"CM LAP":      func(m *wire.MAD) { m.InitLAP(1) },
		"CM APR":      func(m *wire.MAD) { m.InitAPR(1) },
		"CM SIDR_REP": func(m *wire.MAD) { m.InitSIDRREP(1) },
		"performance management Get": func(m *wire.MAD) {
			m.Init(&wire.MADHeader{Class: wire.MADClassPerformance, ClassVersion: 1, Method: wire.MADGet})
		},
	} {
		var m wire.MAD
		init(&m)
		if got := madWords(&m); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		hs := madHeaders(&m)
		if cm := strings.HasPrefix(want, "CM "); cm && (len(hs) != 3 || hs[1].Name != want || len(hs[1].Fields) < 3) || !cm && len(hs) != 1 {
			t.Errorf("%s: headers %v", want, hs)
		}
	}
	if got := hexWithoutZeros([]byte{1, 0, 2, 0}); got != "01 00 02, then zeros" {
		t.Error(got)
	}
	if got := hexWithoutZeros([]byte{1, 2}); got != "01 02" {
		t.Error(got)
	}
}

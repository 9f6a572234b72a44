package replay

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// dialogue is two connection managers whose messages are captured between them.
type dialogue struct {
	t        *testing.T
	a, b     *cm.Machine
	conn     *cm.Conn   // of a
	accepted *cm.Conn   // of b
	verdict  cm.Verdict // nil: the connection is taken
	now      rxe.Time
	queue    []spoken
	captured []spoken
}

// spoken is one message.
type spoken struct {
	fromA bool
	psn   wire.PSN
	mad   wire.MAD
}

var addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

const dialogueService = 0x1234

func newDialogue(t *testing.T) *dialogue {
	d := &dialogue{t: t, now: 1}
	machine := func(guid uint64, fromA bool) *cm.Machine {
		drawn := uint32(guid)
		return cm.New(cm.Config{
			GUID: guid, Random: func() uint32 { drawn = drawn*1664525 + 1013904223; return drawn },
			Send: func(_ rxe.AHAttr, mad *wire.MAD) {
				d.queue = append(d.queue, spoken{fromA, wire.PSN(len(d.captured) + len(d.queue)), *mad})
			},
		})
	}
	d.a, d.b = machine(0xa, true), machine(0xb, false)
	return d
}

func (d *dialogue) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *dialogue) listen() {
	d.t.Helper()
	_, err := d.b.Listen(dialogueService, func(_ rxe.Time, c *cm.Conn, _ *cm.Request) cm.Verdict {
		d.accepted = c
		if d.verdict != nil {
			return d.verdict
		}
		taken, _ := c.Admit(nil, nil)
		return taken
	})
	d.check(err)
}

// connect sends a REQ.
func (d *dialogue) connect() {
	d.t.Helper()
	var err error
	d.conn, err = d.a.Connect(d.now, &cm.ConnectParams{
		Service: dialogueService, Path: rxe.AHAttr{DGID: wire.GIDFromAddr(addrB), FlowLabel: 5}, SGID: wire.GIDFromAddr(addrA),
		QPN: 0x11, PathMTU: 1024, ResponderResources: 3, InitiatorDepth: 2, RetryCount: 7, RNRRetryCount: 6, PrivateData: []byte("hello"),
	}, nil)
	d.check(err)
}

// lookup sends a SIDR_REQ.
func (d *dialogue) lookup() {
	d.t.Helper()
	var err error
	d.conn, err = d.a.Lookup(d.now, &cm.LookupParams{Service: dialogueService, Path: rxe.AHAttr{DGID: wire.GIDFromAddr(addrB)}, PrivateData: []byte("who")}, nil)
	d.check(err)
}

func (d *dialogue) accept() {
	d.t.Helper()
	d.check(d.accepted.Accept(d.now, &cm.AcceptParams{QPN: 0x22, QKey: 9, ResponderResources: 2, InitiatorDepth: 3, RNRRetryCount: 7, PrivateData: []byte("yes")}))
}

// deliver passes on what is under way, and captures it.
func (d *dialogue) deliver() {
	for len(d.queue) > 0 {
		m := d.queue[0]
		d.lose()
		to, from := d.b, addrA
		if !m.fromA {
			to, from = d.a, addrB
		}
		mad := m.mad
		to.Receive(d.now, rxe.AHAttr{DGID: wire.GIDFromAddr(from), PortNum: 1}, &mad)
	}
}

// lose captures the next message, which does not arrive.
func (d *dialogue) lose() {
	d.captured = append(d.captured, d.queue[0])
	d.queue = d.queue[1:]
}

// wait lets the time of the next timer of a machine come.
func (d *dialogue) wait(m *cm.Machine) {
	d.t.Helper()
	at, ok := m.Deadline()
	if !ok {
		d.t.Fatal("no timer runs")
	}
	d.now = max(d.now, at)
	m.Expire(d.now)
}

func (d *dialogue) established() {
	d.t.Helper()
	d.listen()
	d.connect()
	d.deliver()
	d.accept()
	d.deliver()
	d.check(d.conn.Ready(d.now))
	d.deliver()
}

func (d *dialogue) disconnected() {
	d.t.Helper()
	d.check(d.conn.Disconnect(d.now))
	d.deliver()
	d.check(d.accepted.Disconnect(d.now))
	d.deliver()
}

// replayed plays both sides of what was captured.
func (d *dialogue) replayed() (sessions []*Session) {
	d.t.Helper()
	all := newTalks()
	for i := range d.captured {
		m := &d.captured[i]
		src, dst := addrA, addrB
		if !m.fromA {
			src, dst = dst, src
		}
		h := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: wire.GSIQPN, PSN: m.psn, QKey: wire.GSIQKey, SrcQP: wire.GSIQPN}
		pkt, err := wire.Parse(append(h.Append(nil), bytes.Clone(m.mad[:])...))
		d.check(err)
		all.add(i+1, src, dst, pkt)
	}
	for _, s := range all.skipped() {
		d.t.Errorf("skipped: %s", s.Why)
	}
	var r Report
	for _, k := range all.all {
		r.playTalk(k, true)
		r.playTalk(k, false)
	}
	return r.Sessions
}

package cm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func TestListen(t *testing.T) {
	r := newPeerRig(t)
	if _, err := r.m.Listen(testService, nil); err != ErrInUse {
		t.Errorf("a second listener: %v", err)
	}
	r.m.listeners[testService].Close()
	// Nobody listens.
	r.from(r.req())
	rej := wire.CMREJ{}
	if all := r.messages(); len(all) == 1 {
		rej, _ = all[0].(wire.CMREJ)
	}
	if rej.MAD == nil || rej.Reason() != wire.RejectInvalidServiceID || rej.LocalCommID() != 0 || rej.RemoteCommID() != peerID ||
		rej.TID() != peerTID || rej.MessageRejected() != wire.CMSubjectREQ || len(rej.Info()) != 0 {
		t.Errorf("answer %v", r.messages())
	}
	r.sent = nil
	r.from(r.sidrREQ())
	rep := wire.CMSIDRREP{MAD: r.take(wire.AttrSIDRREP)}
	if rep.Status() != wire.SIDRUnsupported || rep.RequestID() != peerID || rep.TID() != peerTID || rep.ServiceID() != testService {
		t.Errorf("answer %v", rep)
	}
	r.gone()
	// The service is free again. The old listener does not close the new one.
	old := &Listener{m: r.m, service: testService}
	l := r.listen()
	old.Close()
	if r.m.listeners[testService] != l || l.service != testService {
		t.Error("a closed listener closed another one")
	}
	// What a listener's handler took outlives the listener.
	r.passive()
	l.Close()
	r.noError(r.c.Accept(r.now, acceptParams()))
	r.from(r.rtu())
	r.state(r.c, StateEstablished)
	consistent(t, r.m)
	r.m.Close(r.now)
	if _, err := r.m.Listen(testService, nil); err != ErrClosed {
		t.Errorf("Listen after Close: %v", err)
	}
	if _, err := r.m.Connect(0, r.connectParams(r.other), nil); err != ErrClosed {
		t.Errorf("Connect after Close: %v", err)
	}
	if _, err := r.m.Lookup(0, &LookupParams{}, nil); err != ErrClosed {
		t.Errorf("Lookup after Close: %v", err)
	}
	r.sent = nil
	r.from(r.req())
	r.quiet()
}

// TestVerdicts: what each verdict sends, and that nothing is left unless it is taken.
func TestVerdicts(t *testing.T) {
	ari, data := bytes.Repeat([]byte{0xaa}, 80), bytes.Repeat([]byte{0xbb}, 230)
	for _, c := range []struct {
		name        string
		verdict     func(r *peerRig, c *Conn) Verdict
		want, sidr  string
		left, taken int
	}{
		{"take", func(*peerRig, *Conn) Verdict { return take }, "", "", 1, 1},
		{"ignore", func(*peerRig, *Conn) Verdict { return Ignore }, "", "SIDR_REP(2)", 0, 0},
		{"refuse", func(*peerRig, *Conn) Verdict {
			return Refuse{Reason: wire.RejectPrimaryGID, ARI: ari, Data: data}
		}, "REJ(REQ, 12, id false)", "SIDR_REP(2)", 0, 0},
		{"reject and take", func(r *peerRig, c *Conn) Verdict {
			r.noError(c.Reject(r.now, wire.RejectConsumer, nil, nil))
			return take
		}, "REJ(REQ, 28, id false)", "SIDR_REP(2)", 1, 1},
		{"accept and take", func(r *peerRig, c *Conn) Verdict {
			r.noError(c.Accept(r.now, acceptParams()))
			return take
		}, "REP", "SIDR_REP(0)", 1, 1},
		{"destroy and take", func(r *peerRig, c *Conn) Verdict {
			c.Destroy(r.now)
			return take
		}, "REJ(REQ, 28, id false)", "SIDR_REP(2)", 0, 0},
		{"reject and refuse", func(r *peerRig, c *Conn) Verdict {
			r.noError(c.Reject(r.now, wire.RejectConsumer, nil, nil))
			return Refuse{Reason: wire.RejectNoQP}
		}, "REJ(REQ, 28, id false)", "SIDR_REP(2)", 0, 0},
	} {
		for _, lookup := range []bool{false, true} {
			r := newPeerRig(t)
			requests := 0
			r.verdict = func(conn *Conn, req *Request) Verdict {
				requests++
				r.c = conn
				if req.Lookup != lookup {
					t.Errorf("%s: request %+v", c.name, req)
				}
				return c.verdict(r, conn)
			}
			m, want := r.req(), c.want
			if lookup {
				m, want = r.sidrREQ(), c.sidr
			}
			r.from(m)
			got := r.outcome(r.c.State())
			if got != want || len(r.m.conns) != c.left {
				t.Errorf("%s, lookup %v: %q, want %q; %d connections left", c.name, lookup, got, want, len(r.m.conns))
			}
			consistent(t, r.m)
			if c.name == "refuse" {
				private, info := 148, 72
				if lookup {
					private, info = 136, 0
				}
				msg := r.messages()[0]
				withInfo := msg.(interface{ Info() []byte })
				if !bytes.Equal(msg.PrivateData(), data[:private]) || !bytes.Equal(withInfo.Info(), ari[:info]) {
					t.Errorf("lookup %v: data % x, information % x", lookup, msg.PrivateData(), withInfo.Info())
				}
			}
			// Without a connection, the resend is new.
			r.from(m)
			if again := requests - 1; (again == 1) != (r.c.State() != StateMRAREQSent && r.c.State() != StateREPSent && r.c.State() != StateSIDRREQRcvd) {
				t.Errorf("%s, lookup %v: %d requests, in state %v", c.name, lookup, requests, r.c.State())
			}
			r.m.Close(r.now)
			r.gone()
		}
	}
}

// TestRefusedREQs: REQs that no queue pair could be set to.
func TestRefusedREQs(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(req wire.CMREQ)
		want wire.CMReason
		typ  rxe.QPType
	}{
		{"RC", func(wire.CMREQ) {}, 0, rxe.QPRC},
		{"UC", func(req wire.CMREQ) { req.SetTransportType(1) }, 0, rxe.QPUC},
		{"RD", func(req wire.CMREQ) { req.SetTransportType(2) }, wire.RejectTransportType, 0},
		{"extended", func(req wire.CMREQ) { req.SetTransportType(3) }, wire.RejectTransportType, 0},
		{"XRC", func(req wire.CMREQ) { req.SetTransportType(3); req.SetExtendedTransportType(1) }, 0, rxe.QPXRCTgt},
		{"MTU 0", func(req wire.CMREQ) { req.SetPathMTU(0) }, wire.RejectPathMTU, 0},
		{"MTU 6", func(req wire.CMREQ) { req.SetPathMTU(6) }, wire.RejectPathMTU, 0},
	} {
		r := newPeerRig(t)
		got := rxe.QPType(0)
		r.verdict = func(_ *Conn, req *Request) Verdict {
			got = req.QPType
			return take
		}
		m := r.req()
		c.edit(wire.CMREQ{MAD: m})
		r.from(m)
		if c.want == 0 {
			r.quiet()
		} else if rej := (wire.CMREQ{MAD: r.take(wire.AttrREJ)}); !strings.HasSuffix(parsed(t, rej.MAD).String(), c.want.String()) {
			t.Errorf("%s: %v", c.name, parsed(t, rej.MAD))
		}
		if got != c.typ {
			t.Errorf("%s: queue pair type %d", c.name, got)
		}
	}
}

func parsed(t *testing.T, m *wire.MAD) wire.CMMessage {
	t.Helper()
	msg, err := wire.ParseCM(m[:])
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// TestRequest: the listener's handler sees all of the REQ.
func TestRequest(t *testing.T) {
	r := newPeerRig(t)
	r.verdict = func(c *Conn, req *Request) Verdict {
		path := wire.CMREQ{MAD: r.req()}.PrimaryPath()
		data := make([]byte, wire.CMREQPrivateLen)
		copy(data, "hello")
		if !bytes.Equal(req.PrivateData, data) {
			t.Errorf("private data % x", req.PrivateData)
		}
		got := *req
		got.PrivateData = nil
		want := Request{
			From: rxe.AHAttr{DGID: r.other.gid, PortNum: 1, HopLimit: 64}, Service: testService, PKey: wire.DefaultPKey, RemoteGUID: peerGUID,
			RemoteQPN: clientQPN, QPType: rxe.QPRC, StartingPSN: 0x123456, PathMTU: 1024, ResponderResources: 5, InitiatorDepth: 6,
			RetryCount: 4, RNRRetryCount: 3, Path: path,
		}
		if got.Path != want.Path {
			t.Errorf("path %+v", got.Path)
		}
		if got.From != want.From || got.Service != want.Service || got.PKey != want.PKey || got.RemoteGUID != want.RemoteGUID ||
			got.RemoteQPN != want.RemoteQPN || got.QPType != want.QPType || got.StartingPSN != want.StartingPSN || got.PathMTU != want.PathMTU ||
			got.ResponderResources != want.ResponderResources || got.InitiatorDepth != want.InitiatorDepth ||
			got.RetryCount != want.RetryCount || got.RNRRetryCount != want.RNRRetryCount || got.FlowControl || got.SRQ || got.Lookup {
			t.Errorf("request %+v, want %+v", got, want)
		}
		if c.Active() || c.service != testService || c.RemoteCommID() != peerID || c.peer.qpn != clientQPN || c.LocalCommID() == 0 {
			t.Errorf("connection %+v", c)
		}
		return take
	}
	r.from(r.req())
}

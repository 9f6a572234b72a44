package cm

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestPrivateData: each message takes private data of its length and not one byte more,
// and the peer's user gets that length, with zeros behind the data.
func TestPrivateData(t *testing.T) {
	fill := func(n int) []byte { return bytes.Repeat([]byte{0x5a}, n) }
	for _, c := range []struct {
		name   string
		length int
		state  State
		send   func(r *peerRig, data []byte) error
	}{
		{"REQ", 92, StateIdle, func(r *peerRig, data []byte) error {
			p := r.connectParams(r.other)
			p.PrivateData = data
			_, err := r.m.Connect(r.now, p, nil)
			return err
		}},
		{"SIDR_REQ", 216, StateIdle, func(r *peerRig, data []byte) error {
			_, err := r.m.Lookup(r.now, &LookupParams{PrivateData: data}, nil)
			return err
		}},
		{"REP", 196, StateMRAREQSent, func(r *peerRig, data []byte) error {
			return r.c.Accept(r.now, &AcceptParams{PrivateData: data})
		}},
		{"SIDR_REP", 136, StateSIDRREQRcvd, func(r *peerRig, data []byte) error {
			return r.c.Accept(r.now, &AcceptParams{PrivateData: data})
		}},
		{"SIDR_REP that rejects", 136, StateSIDRREQRcvd, func(r *peerRig, data []byte) error {
			return r.c.Reject(r.now, wire.RejectConsumer, nil, data)
		}},
		{"REJ", 148, StateMRAREQSent, func(r *peerRig, data []byte) error {
			return r.c.Reject(r.now, wire.RejectConsumer, nil, data)
		}},
	} {
		for _, n := range []int{0, 1, c.length, c.length + 1} {
			r := newPeerRig(t)
			r.reach(c.state, func() {})
			err := c.send(r, fill(n))
			if n > c.length {
				if err != ErrPrivateData {
					t.Errorf("%s: %v for %d bytes", c.name, err, n)
				}
				r.quiet()
				r.state(r.c, c.state)
				continue
			}
			r.noError(err)
			got := r.messages()[0].PrivateData()
			if want := append(fill(n), make([]byte, c.length-n)...); !bytes.Equal(got, want) {
				t.Errorf("%s: % x for %d bytes", c.name, got, n)
			}
		}
	}
	r := newPeerRig(t)
	r.passive()
	if err := r.c.Reject(r.now, wire.RejectPrimaryGID, fill(73), nil); err != ErrPrivateData {
		t.Errorf("73 bytes of information: %v", err)
	}
	r.noError(r.c.Reject(r.now, wire.RejectPrimaryGID, fill(16), nil))
	if rej := parsed(t, r.take(wire.AttrREJ)).(wire.CMREJ); !bytes.Equal(rej.Info(), fill(16)) {
		t.Errorf("information % x", rej.Info())
	}
}

// TestEvents: an event has what the message has.
func TestEvents(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateREQSent, func() {})
	m := r.rep()
	rep := parsed(t, m).(wire.CMREP)
	rep.SetFlowControl(true)
	rep.SetSRQ(true)
	copy(rep.PrivateData(), "welcome")
	r.from(m)
	ev := r.event(EventReply)
	if string(bytes.TrimRight(ev.PrivateData, "\x00")) != "welcome" || len(ev.PrivateData) != 196 || ev.RemoteQPN != serverQPN ||
		ev.ResponderResources != 7 || ev.InitiatorDepth != 8 || ev.RNRRetryCount != 2 || ev.TargetACKDelay != 15 || !ev.FlowControl || !ev.SRQ {
		t.Errorf("reply %+v", ev)
	}

	r = newPeerRig(t)
	r.reach(StateREQSent, func() {})
	m = r.rej(wire.CMSubjectREQ, wire.RejectVendorOption)
	rej := parsed(t, m).(wire.CMREJ)
	rej.SetInfo([]byte{1, 2, 3})
	copy(rej.PrivateData(), "no")
	r.from(m)
	ev = r.event(EventRejected)
	if ev.Reason != wire.RejectVendorOption || ev.MessageRejected != wire.CMSubjectREQ || !bytes.Equal(ev.ARI, []byte{1, 2, 3}) ||
		len(ev.PrivateData) != 148 || string(ev.PrivateData[:2]) != "no" {
		t.Errorf("rejection %+v", ev)
	}

	r = newPeerRig(t)
	r.reach(StateSIDRREQSent, func() {})
	m = r.sidrREP()
	sidr := parsed(t, m).(wire.CMSIDRREP)
	sidr.SetStatus(wire.SIDRRedirect)
	sidr.SetInfo([]byte{4})
	r.from(m)
	ev = r.event(EventLookupReply)
	if ev.SIDRStatus != wire.SIDRRedirect || ev.RemoteQPN != serverQPN || ev.QKey != 0x01234567 || len(ev.PrivateData) != 136 || !bytes.Equal(ev.Info, []byte{4}) {
		t.Errorf("lookup reply %+v", ev)
	}
	r.c.Destroy(r.now)
	r.gone()
}

// TestInvalidParams: values that do not fit their field are refused, and nothing is sent.
func TestInvalidParams(t *testing.T) {
	for name, edit := range map[string]func(p *ConnectParams){
		"MTU 0":           func(p *ConnectParams) { p.PathMTU = 0 },
		"MTU 1500":        func(p *ConnectParams) { p.PathMTU = 1500 },
		"QPN":             func(p *ConnectParams) { p.QPN = 1 << 24 },
		"UD":              func(p *ConnectParams) { p.QPType = rxe.QPUD },
		"retry count":     func(p *ConnectParams) { p.RetryCount = 8 },
		"RNR retry count": func(p *ConnectParams) { p.RNRRetryCount = 8 },
		"packet lifetime": func(p *ConnectParams) { p.PacketLifetime = 32 },
	} {
		client, server := pair(t)
		p := client.connectParams(server)
		edit(p)
		if _, err := client.m.Connect(0, p, nil); err != ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
		client.quiet()
		client.gone()
	}
	r := newPeerRig(t)
	r.passive()
	for name, p := range map[string]*AcceptParams{"QPN": {QPN: 1 << 24}, "RNR retry count": {RNRRetryCount: 8}} {
		if err := r.c.Accept(r.now, p); err != ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.state(r.c, StateMRAREQSent)
	r = newPeerRig(t)
	r.reach(StateSIDRREQRcvd, func() {})
	if err := r.c.Accept(r.now, &AcceptParams{QPN: 1 << 24}); err != ErrInvalid {
		t.Error(err)
	}
	if err := r.c.Accept(r.now, &AcceptParams{Info: make([]byte, 73)}); err != ErrPrivateData {
		t.Error(err)
	}
	r.quiet()
}

// TestPath: what a REQ says of the path, by the hop limit.
func TestPath(t *testing.T) {
	for hops, want := range map[uint8]wire.CMPath{
		0:  {LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 64},
		1:  {HopLimit: 1, SubnetLocal: true},
		64: {LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 64},
	} {
		client, server := pair(t)
		p := client.connectParams(server)
		p.Path = rxe.AHAttr{DGID: server.gid, SGIDIndex: 3, HopLimit: hops, FlowLabel: 0xabcde, TrafficClass: 0x68, SL: 5}
		c, err := client.m.Connect(0, p, nil)
		client.noError(err)
		want.LocalGID, want.RemoteGID = client.gid, server.gid
		want.FlowLabel, want.TrafficClass, want.ServiceLevel, want.LocalACKTimeout = 0xabcde, 0x68, 5, 17
		to := client.sent[0].to
		if got := (wire.CMREQ{MAD: client.take(wire.AttrREQ)}).PrimaryPath(); got != want {
			t.Errorf("hop limit %d: %+v, want %+v", hops, got, want)
		}
		if p.Path.PortNum = 1; to != p.Path || c.Path() != p.Path {
			t.Errorf("sent to %+v", to)
		}
	}
}

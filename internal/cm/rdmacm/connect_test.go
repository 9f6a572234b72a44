package rdmacm

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// TestConnect: the events of a connection on both sides, with all that they carry, and the
// messages between them.
func TestConnect(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		a, b := newHost(t, f, "10.0.0.1"), newHost(t, f, "10.0.0.2")
		defer a.close()
		defer b.close()
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{PrivateData: []byte("hello"), QPN: 0x123, ResponderResources: 3, InitiatorDepth: 4,
			FlowControl: true, RetryCount: 200, RNRRetryCount: 5, SRQ: true}))
		u.wants(StateConnect)

		req := l.next(ConnectRequest)
		p := l.child(req)
		c := req.Conn
		if len(c.PrivateData) != 56 || !bytes.Equal(bytes.TrimRight(c.PrivateData, "\x00"), []byte("hello")) {
			t.Errorf("private data of the request is %q", c.PrivateData)
		}
		if c.ResponderResources != 4 || c.InitiatorDepth != 3 || !c.FlowControl || c.RetryCount != 7 || c.RNRRetryCount != 5 || !c.SRQ || c.QPN != 0x123 {
			t.Errorf("request is %+v", c)
		}
		if got := p.LocalAddr().String() + " " + p.RemoteAddr().String(); got != "10.0.0.2:7174 "+u.LocalAddr().String() {
			t.Errorf("addresses of the new ID are %s", got)
		}
		must.OK(t, p.Accept(&ConnParams{PrivateData: []byte("welcome"), QPN: 0x456, ResponderResources: 4, InitiatorDepth: 3, RNRRetryCount: 6}))

		rep := u.next(ConnectResponse).Conn
		if len(rep.PrivateData) != 196 || !bytes.HasPrefix(rep.PrivateData, []byte("welcome\x00")) {
			t.Errorf("private data of the response is %q", rep.PrivateData)
		}
		if rep.ResponderResources != 3 || rep.InitiatorDepth != 4 || rep.RNRRetryCount != 6 || rep.QPN != 0x456 {
			t.Errorf("response is %+v", rep)
		}
		must.OK(t, u.EstablishActive())
		l.next(Established)
		if got := f.messages(); got != "REQ REP RTU" {
			t.Errorf("messages are %s", got)
		}

		must.OK(t, u.Disconnect())
		l.next(Disconnected)
		p.wants(StateDisconnect)
		if got := u.names(); got != "" {
			t.Errorf("before the peer agrees, the events are %s", got)
		}
		must.OK(t, p.Disconnect())
		if got := u.names(); got != "DISCONNECTED" {
			t.Errorf("events are %s", got)
		}
		if got := f.messages(); got != "DREQ DREP" {
			t.Errorf("messages are %s", got)
		}
	})
}

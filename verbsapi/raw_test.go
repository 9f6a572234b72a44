package verbsapi

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// rawEnd is a queue pair for raw packets that receives what is sent to its device.
type rawEnd struct {
	*end
	mac [6]byte
}

func newRawEnd(t *testing.T, c *Context, init QPInitAttr) *rawEnd {
	t.Helper()
	e := &end{t: t, ctx: c, buf: make([]byte, 64<<10)}
	e.pd = must(c.AllocPD())(t)
	e.mr = must(e.pd.RegMR(e.buf, testAccess))(t)
	e.cq = must(c.CreateCQ(256, nil))(t)
	init.Type, init.SendCQ, init.RecvCQ = QPRaw, e.cq, e.cq
	init.Cap = QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	e.qp = must(e.pd.CreateQP(init))(t)
	if err := e.qp.Activate(); err != nil {
		t.Fatal(err)
	}
	return &rawEnd{e, c.MAC()}
}

func (e *rawEnd) flow(attr FlowAttr) *Flow {
	e.t.Helper()
	return must(e.qp.CreateFlow(attr))(e.t)
}

// frame makes a frame of a type that nothing knows, with a payload.
func frame(to, from [6]byte, payload string) []byte {
	b := append(append([]byte(nil), to[:]...), from[:]...)
	return append(binary.BigEndian.AppendUint16(b, 0x88b5), payload...) // IEEE 802: local experiments
}

// send posts a frame from the second half of the buffer.
func (e *rawEnd) send(f []byte, as FrameSend) {
	e.t.Helper()
	copy(e.buf[32<<10:], f)
	e.post(SendWR{ID: 99, Op: WRSend, SGL: []SGE{e.mr.SGE(32<<10, len(f))}, Frame: as})
}

// TestRaw: two devices of a process exchange frames over their segment, in both directions. A flow
// decides who gets a frame.
func TestRaw(t *testing.T) {
	ctx := testContext(t)
	a := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	b := newRawEnd(t, openTest(t, Config{}), QPInitAttr{})
	if a.mac == b.mac {
		t.Fatal("two devices with one address")
	}
	for _, e := range []*rawEnd{a, b} {
		e.flow(FlowAttr{Specs: []FlowSpec{FlowTo(e.mac)}})
		e.recv(1, 0, 2048)
	}
	for _, way := range [][2]*rawEnd{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		f := frame(to.mac, from.mac, "across the segment")
		from.send(f, FrameSend{})
		from.expect(ctx, 99, WCSuccess)
		wc := to.expect(ctx, 1, WCSuccess)
		if !bytes.Equal(to.buf[:wc.ByteLen], f) || wc.QPN != to.qp.Num() || wc.Opcode != WCRecv {
			t.Errorf("%+v: % x", wc, to.buf[:wc.ByteLen])
		}
	}
}

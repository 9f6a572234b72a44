package rdmacm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/verbsapi"
)

// xrc makes a domain of XRC, and an SRQ there with a receive, whose completions are the host's.
func (h *host) xrc() (*verbsapi.XRCD, uint32) {
	h.t.Helper()
	c := h.pd.Context()
	x := must.Get[*verbsapi.XRCD](h.t)(c.OpenXRCD(nil))
	srq := must.Get[*verbsapi.SRQ](h.t)(c.CreateSRQEx(verbsapi.SRQInitAttrEx{Type: verbsapi.SRQXRC, PD: h.pd, XRCD: x, CQ: h.cq,
		SRQAttr: verbsapi.SRQAttr{MaxWR: 4, MaxSGE: 1}}))
	must.Get[int](h.t)(srq.PostRecv([]verbsapi.RecvWR{{ID: 7, SGL: []verbsapi.SGE{h.mr.SGE(2000, 2000)}}}))
	return x, must.Get[uint32](h.t)(srq.Num())
}

// initiator is for Dial.
func (h *host) initiator() Config {
	init := h.init()
	init.Type, init.RecvCQ, init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = verbsapi.QPXRCIni, nil, 0, 0
	return Config{PD: h.pd, QP: init}
}

// TestXRC: an initiator connects to a target. The private data of the answer has the number of the
// SRQ to which it sends. The peer sees the end.
func TestXRC(t *testing.T) {
	ctx, a, b := testContext(t), newHost(t), newHost(t)
	l := must.Get[*Listener](t)(ListenXRC(ctx, b.at(0).String()))
	defer l.Close()
	x, num := b.xrc()
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		r, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		c, err := r.Accept(ctx, Config{XRCD: x, PrivateData: binary.BigEndian.AppendUint32(nil, num)})
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}()
	client := must.Get[*Conn](t)(Dial(ctx, l.Addr().String(), a.initiator()))
	server := <-accepted
	if server == nil {
		t.FailNow()
	}
	a.send(client.QP(), "by XRC", verbsapi.SendWR{XRCSRQN: binary.BigEndian.Uint32(client.PrivateData())})
	a.expect(8)
	if wc := b.expect(7); string(b.mr.Bytes()[2000:][:wc.ByteLen]) != "by XRC" || wc.SRQN != num || wc.QPN != server.QP().Num() {
		t.Errorf("%+v", wc)
	}
	must.OK(t, client.Close())
	<-server.Done()
	must.OK(t, server.Close())
}

// TestXRCRefused: only an initiator connects to a target, and only by XRC's own listeners. An ID
// makes the queue pairs of its type.
func TestXRCRefused(t *testing.T) {
	ctx, a, b := testContext(t), newHost(t), newHost(t)
	targets := must.Get[*Listener](t)(ListenXRC(ctx, b.at(0).String()))
	defer targets.Close()
	others := must.Get[*Listener](t)(Listen(ctx, b.at(0).String()))
	defer others.Close()
	for name, call := range map[string]func() error{
		"RC to a target":     func() error { _, err := Dial(ctx, targets.Addr().String(), a.config("")); return err },
		"an initiator to RC": func() error { _, err := Dial(ctx, others.Addr().String(), a.initiator()); return err },
	} {
		var rejected *RejectedError
		if err := call(); !errors.As(err, &rejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ch := NewEventChannel()
	defer ch.Destroy()
	if _, err := ch.CreateIDFor(verbsapi.QPRaw); !errors.Is(err, ErrInvalid) {
		t.Errorf("raw packets: %v", err)
	}
	target := must.Get[*ID](t)(ch.CreateIDFor(verbsapi.QPXRCTgt))
	initiator := must.Get[*ID](t)(ch.CreateIDFor(verbsapi.QPXRCIni))
	xa, _ := a.xrc()
	xb, _ := b.xrc()
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"without a device", func() error { _, err := target.CreateTarget(xb); return err }},
		{"a target with queues", func() error { _, err := target.CreateQP(b.pd, b.init()); return err }},
		{"an initiator as a target", func() error { _, err := initiator.CreateTarget(xb); return err }},
		{"no domain", func() error { _, err := target.CreateTarget(nil); return err }},
		{"another device", func() error {
			must.OK(t, target.Bind(b.at(0)))
			_, err := target.CreateTarget(xa)
			return err
		}},
	} {
		if err := c.call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

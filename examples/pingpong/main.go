// Command pingpong bounces a message between two RoCEv2 devices of this host:
// the smallest complete program with package verbsapi. On two hosts each end
// would run in a program of its own, and they would exchange their Info over
// TCP, say, before they connect.
//
// usage: pingpong [-a ADDRESS] [-b ADDRESS] [-n ROUNDS] [-sanitize CHECKS]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/gorxe/gorxe/verbsapi"
)

const messageSize = 4096

func main() {
	a := flag.String("a", "127.0.0.1", "`address` of the first device")
	b := flag.String("b", "127.0.0.2", "`address` of the second device")
	rounds := flag.Int("n", 1000, "round trips")
	checks := flag.String("sanitize", "", "`checks` for misuse of verbs, as default or all")
	flag.Parse()
	if err := pingPong(context.Background(), os.Stdout, *a, *b, *rounds, *checks); err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

// end is one device with one queue pair.
type end struct {
	ctx *verbsapi.Context
	qp  *verbsapi.QP
	cq  *verbsapi.CQ
	out *verbsapi.MR // what this end sends
	in  *verbsapi.MR // where it receives
}

// open opens the device on an address of this host and makes what a queue pair
// needs. Closing the context destroys it all.
func open(address, checks string) (_ *end, err error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	ctx, err := verbsapi.Open(verbsapi.Config{Address: addr, Sanitize: checks})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ctx.Close())
		}
	}()
	e := &end{ctx: ctx}
	pd, err := ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	if e.out, err = pd.RegMR(make([]byte, messageSize), 0); err != nil {
		return nil, err
	}
	if e.in, err = pd.RegMR(make([]byte, messageSize), verbsapi.AccessLocalWrite); err != nil {
		return nil, err
	}
	if e.cq, err = ctx.CreateCQ(16, nil); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(verbsapi.QPInitAttr{
		Type:   verbsapi.QPRC,
		SendCQ: e.cq,
		RecvCQ: e.cq,
		Cap:    verbsapi.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// connect connects two ends.
func connect(a, b *end) error {
	infoA, err := a.qp.Info(0, 0)
	if err != nil {
		return err
	}
	infoB, err := b.qp.Info(0, 0)
	if err != nil {
		return err
	}
	if err := a.qp.Connect(infoA, infoB, verbsapi.ConnectAttr{}); err != nil {
		return err
	}
	return b.qp.Connect(infoB, infoA, verbsapi.ConnectAttr{})
}

// receive posts a receive for one message.
func (e *end) receive() error {
	_, err := e.qp.PostRecv([]verbsapi.RecvWR{{SGL: []verbsapi.SGE{e.in.SGE(0, messageSize)}}})
	return err
}

// send posts a message. Until its completion, the memory and the place in the send queue are taken.
func (e *end) send() error {
	_, err := e.qp.PostSend([]verbsapi.SendWR{{
		Op:    verbsapi.WRSend,
		Flags: verbsapi.SendSignaled,
		SGL:   []verbsapi.SGE{e.out.SGE(0, messageSize)},
	}})
	return err
}

// wait waits for n completions, of messages that were sent or received.
func (e *end) wait(ctx context.Context, n int) error {
	var wcs [1]verbsapi.WC
	for range n {
		if _, err := e.cq.Wait(ctx, wcs[:]); err != nil {
			return err
		}
		wc := wcs[0]
		if short := wc.Opcode&verbsapi.WCRecv != 0 && wc.ByteLen != messageSize; short || wc.Status != verbsapi.WCSuccess {
			return fmt.Errorf("completion: %s, %d bytes", verbsapi.WCStatusStr(wc.Status), wc.ByteLen)
		}
	}
	return nil
}

// pingPong sends a message from a to b and back, rounds times. B answers with
// what it received, so that in the end the message has to come back intact.
func pingPong(ctx context.Context, w io.Writer, addrA, addrB string, rounds int, checks string) (err error) {
	a, err := open(addrA, checks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.ctx.Close()) }()
	b, err := open(addrB, checks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.ctx.Close()) }()
	if err := connect(a, b); err != nil {
		return err
	}
	for round := range rounds {
		for i, message := 0, a.out.Bytes(); i < len(message); i++ {
			message[i] = byte(round + i)
		}
		if err := errors.Join(a.receive(), b.receive(), a.send(), b.wait(ctx, 1)); err != nil {
			return err
		}
		copy(b.out.Bytes(), b.in.Bytes())
		if err := errors.Join(b.send(), a.wait(ctx, 2), b.wait(ctx, 1)); err != nil {
			return err
		}
		if !bytes.Equal(a.in.Bytes(), a.out.Bytes()) {
			return fmt.Errorf("round %d: the message came back different", round)
		}
	}
	for _, e := range []*end{a, b} {
		if m := e.ctx.Misuse(); m.Errors > 0 {
			return errors.New(m.Text)
		}
	}
	_, err = fmt.Fprintf(w, "%d round trips of %d bytes, all intact\n", rounds, messageSize)
	return err
}

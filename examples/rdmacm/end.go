package main

import (
	"context"
	"fmt"
	"io"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/rdmacm"
)

// end is an open device, and what a queue pair needs.
type end struct {
	ctx *verbsapi.Context
	pd  *verbsapi.PD
	cq  *verbsapi.CQ
	mr  *verbsapi.MR // the first half is sent, the second received
}

func open(device verbsapi.Config) (*end, error) {
	ctx, err := verbsapi.Open(device)
	if err != nil {
		return nil, err
	}
	e := &end{ctx: ctx}
	if e.pd, err = ctx.AllocPD(); err == nil {
		if e.mr, err = e.pd.RegMR(make([]byte, 2*room), verbsapi.AccessLocalWrite); err == nil {
			e.cq, err = ctx.CreateCQ(4, nil)
		}
	}
	if err != nil {
		ctx.Close() //nolint:errcheck // err says what is wrong
		return nil, err
	}
	return e, nil
}

// config describes a connection with one receive posted.
func (e *end) config(data string) rdmacm.Config {
	return rdmacm.Config{
		PD: e.pd,
		QP: verbsapi.QPInitAttr{SendCQ: e.cq, RecvCQ: e.cq,
			Cap: verbsapi.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}},
		PrivateData: []byte(data),
		Setup: func(qp *verbsapi.QP) error {
			_, err := qp.PostRecv([]verbsapi.RecvWR{{SGL: []verbsapi.SGE{e.mr.SGE(room, room)}}})
			return err
		},
	}
}

// send posts a message. It completes only if it fails: it is not signaled.
func (e *end) send(qp *verbsapi.QP, text string) error {
	n := copy(e.mr.Bytes()[:room], text)
	_, err := qp.PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, SGL: []verbsapi.SGE{e.mr.SGE(0, n)}}})
	return err
}

func (e *end) receive(ctx context.Context, out io.Writer) error {
	var wcs [1]verbsapi.WC
	if _, err := e.cq.Wait(ctx, wcs[:]); err != nil {
		return err
	}
	if wcs[0].Status != verbsapi.WCSuccess {
		return fmt.Errorf("completion with status %v", wcs[0].Status)
	}
	fmt.Fprintf(out, "received %q\n", e.mr.Bytes()[room:][:wcs[0].ByteLen])
	return nil
}

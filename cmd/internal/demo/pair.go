package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/verbsapi"
)

// queueDepth is the most work requests a side has under way.
const queueDepth = 64

// side is one device with one RC queue pair and one registered buffer, in which
// the peer may do everything.
type side struct {
	ctx  *verbsapi.Context
	qp   *verbsapi.QP
	send *verbsapi.CQ
	recv *verbsapi.CQ
	mr   *verbsapi.MR
	mtu  verbsapi.MTU
	wcs  [queueDepth]verbsapi.WC
}

// pair is two connected sides.
type pair struct{ a, b *side }

// openPair opens both devices and connects them. Tap may be nil.
func openPair(cfg *Config, buffer int, tap *rocev2.Tap) (*pair, error) {
	p := new(pair)
	var err error
	// A packet would appear twice if both devices captured.
	if p.a, err = openSide(cfg, 0, buffer, tap); err != nil {
		return nil, err
	}
	if p.b, err = openSide(cfg, 1, buffer, nil); err != nil {
		return nil, errors.Join(err, p.a.ctx.Close())
	}
	if err := p.connect(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pair) close() error { return errors.Join(p.a.ctx.Close(), p.b.ctx.Close()) }

func openSide(cfg *Config, index, buffer int, tap *rocev2.Tap) (_ *side, err error) {
	ctx, err := verbsapi.Open(verbsapi.Config{
		Name:    fmt.Sprintf("rxe%d", index),
		Address: cfg.Addresses[index],
		Port:    cfg.UDPPort,
		Tap:     tap,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ctx.Close()) // closes what was made in it, too
		}
	}()
	s := &side{ctx: ctx}
	port, err := ctx.QueryPort(1)
	if err != nil {
		return nil, err
	}
	s.mtu = port.ActiveMTU
	pd, err := ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	const access = verbsapi.AccessLocalWrite | verbsapi.AccessRemoteWrite |
		verbsapi.AccessRemoteRead | verbsapi.AccessRemoteAtomic
	if s.mr, err = pd.RegMR(make([]byte, buffer), access); err != nil {
		return nil, err
	}
	if s.send, err = ctx.CreateCQ(queueDepth, nil); err != nil {
		return nil, err
	}
	if s.recv, err = ctx.CreateCQ(queueDepth, nil); err != nil {
		return nil, err
	}
	s.qp, err = pd.CreateQP(verbsapi.QPInitAttr{
		Type:   verbsapi.QPRC,
		SendCQ: s.send,
		RecvCQ: s.recv,
		Cap: verbsapi.QPCap{MaxSendWR: queueDepth, MaxRecvWR: queueDepth,
			MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ackTimeout, 4.096 µs << 17, is 0.54 s. Both ends are threads of this process, one of
// which a busy machine may leave aside for as long as seven retries of the default take.
const ackTimeout = 17

// connect takes both queue pairs to RTS. On two interfaces the larger path MTU
// has to give way.
func (p *pair) connect() error {
	infoA, errA := p.a.info()
	infoB, errB := p.b.info()
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	attr := verbsapi.ConnectAttr{PathMTU: min(p.a.mtu, p.b.mtu), Timeout: ackTimeout}
	return errors.Join(p.a.qp.Connect(infoA, infoB, attr), p.b.qp.Connect(infoB, infoA, attr))
}

func (s *side) info() (verbsapi.Info, error) {
	return s.qp.Info(verbsapi.PSN(rand.Uint32N(1<<24)), 0)
}

// wait takes at least one and at most limit completions of cq into s.wcs, and
// checks that they are successes.
func (s *side) wait(ctx context.Context, cq *verbsapi.CQ, limit int) ([]verbsapi.WC, error) {
	n, err := cq.Wait(ctx, s.wcs[:min(limit, len(s.wcs))])
	if err != nil {
		return nil, err
	}
	for i := range s.wcs[:n] {
		if wc := &s.wcs[i]; wc.Status != verbsapi.WCSuccess {
			return nil, fmt.Errorf("work request %d: %s", wc.ID, verbsapi.WCStatusStr(wc.Status))
		}
	}
	return s.wcs[:n], nil
}

// postRecv posts one receive for n bytes at the start of the buffer.
func (s *side) postRecv(n int) error {
	_, err := s.qp.PostRecv([]verbsapi.RecvWR{{SGL: []verbsapi.SGE{s.mr.SGE(0, n)}}})
	return err
}

// request is a signaled work request on the first n bytes of both buffers.
func (s *side) request(op verbsapi.WROpcode, n int, peer *side) verbsapi.SendWR {
	return verbsapi.SendWR{
		Op:         op,
		Flags:      verbsapi.SendSignaled,
		SGL:        []verbsapi.SGE{s.mr.SGE(0, n)},
		RemoteAddr: peer.mr.Addr(),
		RKey:       peer.mr.RKey(),
	}
}

func (s *side) post(wr verbsapi.SendWR) error {
	_, err := s.qp.PostSend([]verbsapi.SendWR{wr})
	return err
}

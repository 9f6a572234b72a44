package sim

import (
	"os"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

// A pair of XRC has an initiator, which sends all requests, and a target. Those of one host share
// its XRC domain and SRQs, and each request names one of these at random.

// xrcQueues is how many SRQs the XRC domain of a host has.
const xrcQueues = 2

// xrcDomain is what the targets of a host share.
type xrcDomain struct {
	xrcd   *rxe.XRCD
	queues [xrcQueues]*receiveQueue
}

// useXRC makes pairs of RC pairs of XRC: all of them, or the first one.
func (p *params) useXRC(all bool) {
	p.srq = false
	for i := range p.pairs {
		if pp := &p.pairs[i]; pp.typ == rxe.QPRC {
			pp.xrc, pp.ops[1] = true, 0
			if !all {
				return
			}
		}
	}
}

// qpType is the type of an endpoint's queue pair. typ is that of its service: XRC promises what RC
// does.
func (e *endpoint) qpType() rxe.QPType {
	switch {
	case !e.p.xrc:
		return e.typ
	case e.tgt:
		return rxe.QPXRCTgt
	default:
		return rxe.QPXRCIni
	}
}

// newXRCQP makes the queue pair of an endpoint of XRC.
func (e *endpoint) newXRCQP(init rxe.QPInitAttr) (err error) {
	if !e.tgt {
		init.Type, init.RecvCQ = rxe.QPXRCIni, nil
		e.q, err = e.h.pd.CreateQP(init)
		return err
	}
	x := e.h.xrcDomain()
	e.recvs = x.queues[:]
	e.q, err = e.h.dev.Whole().CreateTarget(x.xrcd, rxe.QPInitAttr{})
	return err
}

// xrcDomain returns the domain of the host's targets, with its SRQs.
func (h *host) xrcDomain() *xrcDomain {
	if h.xrc != nil {
		return h.xrc
	}
	h.xrc = new(xrcDomain)
	var err error
	h.xrc.xrcd, err = h.dev.Whole().OpenXRCD(rxe.XRCDInit{})
	must(err)
	for i := range h.xrc.queues {
		r := newReceiveQueue(h, h.w.p.maxRecv(), 2)
		r.srq, err = h.pd.CreateSRQ(rxe.SRQInit{MaxWR: uint32(r.depth), MaxSGE: 4, XRCD: h.xrc.xrcd, CQ: h.recvCQ})
		must(err)
		h.xrc.queues[i] = r
	}
	return h.xrc
}

func (h *host) destroyXRC() {
	if h.xrc != nil {
		for _, r := range h.xrc.queues {
			must(r.srq.Destroy())
		}
		must(h.xrc.xrcd.Close())
	}
}

// chooseSRQ names an SRQ of the peer.
func (e *endpoint) chooseSRQ(s *sent) {
	if e.p.xrc {
		s.wr.XRCSRQN = e.peer.h.xrc.queues[e.w.rng.IntN(xrcQueues)].srq.Num()
		if s.msg != nil {
			s.msg.srq = s.wr.XRCSRQN
		}
	}
}

// taken returns the receive queue of a completion.
func (e *endpoint) taken(wc *rxe.WC) *receiveQueue {
	for _, r := range e.recvs {
		if len(e.recvs) == 1 || r.srq.Num() == wc.SRQN {
			return r
		}
	}
	failf("host %d QP %#x: a receive of SRQ %#x", e.h.index, wc.QPN, wc.SRQN)
	return nil
}

// TestSeedsXRC is TestSeeds for XRC: each pair of RC is one of XRC.
func TestSeedsXRC(t *testing.T) {
	n := seedCount(t)
	if os.Getenv("GORXE_SEEDS") == "" {
		n /= 4
	}
	first, received := seedFirst(t), 0
	for seed := first; seed < first+uint64(n); seed++ {
		p := drawParams(seed, scaleOf(seed))
		p.useXRC(true)
		stats, _, err := runParams(p)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		received += stats.received
	}
	if received < n {
		t.Errorf("%d runs have received %d messages", n, received)
	}
}

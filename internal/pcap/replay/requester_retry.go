package replay

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The engine as requester goes back: after a NAK at once, and otherwise after a timeout.

// wentBack compares what the engine sends after a NAK with the specification.
func (r *requester) wentBack(e event, out []wire.Packet) {
	p := e.pkt
	switch {
	case p.Syndrome().IsRNR():
		if len(out) > 0 && !p.PSN().Less(out[0].PSN()) {
			r.s.differ(Difference{Packet: e.number, About: "wait after RNR NAK", Captured: words(p), Engine: "sends at once: " + words(out[0])})
		}
		r.rnr = true
	case p.Syndrome() == wire.SyndromeNAK(wire.NAKPSNSequence) && !r.rnr:
		r.retried = true
		if len(out) == 0 || out[0].PSN() != p.PSN() {
			r.s.differ(Difference{Packet: e.number, About: "retry", Captured: words(p), Engine: begins(out)})
		}
	}
}

// retry lets the engine's timeout expire, so that it sends unacknowledged requests again
// as the captured device does here with e.
func (r *requester) retry(e event) error {
	r.retried = true
	una := r.h.q.Snapshot().AckedPSN
	if una == r.limit {
		r.s.free("retries of what had been answered")
		return nil
	}
	if r.rnr {
		const longestRNR = time.Second
		r.rnr = false
		if err := r.h.settle(rxe.Time(longestRNR)); err != nil {
			return err
		}
	}
	for range ackTimeouts {
		if len(r.h.out) > 0 {
			break
		}
		if err := r.h.settle(rxe.Time(ackTimeout + time.Second)); err != nil {
			return err
		}
	}
	if r.poll(); r.died != rxe.WCSuccess {
		r.s.free("retries beyond the engine's count")
		return errEnd
	}
	if out := r.h.out; len(out) == 0 || out[0].PSN() != una {
		r.s.differ(Difference{Packet: e.number, About: "retry",
			Captured: fmt.Sprintf("%s; PSN 0x%06x is not acknowledged", words(e.pkt), uint32(una)), Engine: begins(out)})
	}
	return r.pump()
}

// begins describes the first packet that the engine sends.
func begins(out []wire.Packet) string {
	if len(out) == 0 {
		return "sends nothing"
	}
	return "sends " + words(out[0])
}

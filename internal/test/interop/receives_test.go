package interop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestReceives: none posted, or one that is too small.
func TestReceives(t *testing.T) {
	eachFamily(t, "Mistakes", "SEND, receive buffer too small", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, rc)
		b.do("recv qp=0 mr=0 off=0 len=16")
		request(opSend, 64, 0)(a, b)
		status, received := a.poll().status, b.poll().status
		naks := tr.naks(server == lab.gorxe)
		tr.row.Note = fmt.Sprintf("%s, the receive %s; %s", statusName[status], statusName[received], answersOnWire(naks))
		// gorxe answers as IBA 9.7.5.2.4 and adapters do, rdma_rxe with a NAK of its own choice.
		want, answer := [2]int{statusRemInvReq, statusLocLen}, wire.NAKInvalidRequest
		if kernels || server != lab.gorxe {
			want, answer = [2]int{statusRemOp, statusLocQPOp}, wire.NAKRemoteOp
		}
		if [2]int{status, received} != want || len(naks) != 1 || naks[0] != wire.SyndromeNAK(answer) {
			tr.Error(tr.row.Note)
		}
	})
	eachFamily(t, "Receiver not ready", "then ready", ipv4, func(tr *trial, server, client *machine) {
		// 4 ms
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC, more: "rnrtimer=18"})
		a.do("fill mr=0 off=0 len=3000 seed=2")
		for id := range 3 {
			a.do("send qp=0 id=%d op=%d mr=0 off=0 len=3000", id, opSend)
		}
		// Not before the responder has said that it is not ready.
		for deadline := time.Now().Add(programTimeout); len(tr.naks(server == lab.gorxe)) == 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		for id := range 3 {
			b.do("recv qp=0 id=%d mr=0 off=%d len=4096", id, 4096*id)
		}
		for id := range 3 {
			if a.polled("SEND", statusSuccess).id != id || b.polled("SEND", statusSuccess).id != id {
				tr.Error("out of order")
			}
			b.holds("SEND", 4096*id, 3000, 2)
		}
		rnr := tr.naks(server == lab.gorxe)
		if len(rnr) == 0 || !rnr[0].IsRNR() || rnr[0].RNRTimer() != 18 {
			tr.Errorf("answers on the wire: %v", rnr)
		}
		tr.row.Note = "3 SENDs arrive in order; first answer " + rnr[0].String()
		switch {
		case server == lab.gorxe:
			if tr.sentWhileWaiting() {
				tr.row.Settled = "While it waits for an RNR timer, it sends newer requests."
			}
		case slices.Contains(rnr, wire.SyndromeNAK(wire.NAKPSNSequence)):
			tr.row.Settled = "Behind an RNR NAK it answers what was under way with a NAK for the sequence."
		}
	})
	eachFamily(t, "Receiver not ready", "never, rnr_retry 2", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC, more: "rnr=2"})
		request(opSend, 64, 0)(a, b)
		a.polled("SEND", statusRNRExceeded)
		rnr := 0
		for _, s := range tr.naks(server == lab.gorxe) {
			if s.IsRNR() {
				rnr++
			}
		}
		tr.row.Note = fmt.Sprintf("%s after %d RNR NAKs", statusName[statusRNRExceeded], rnr)
		if rnr != 3 {
			tr.Error(tr.row.Note)
		}
	})
}

// sentWhileWaiting reports whether the kernel's requester sent something new between an RNR
// NAK and its retry.
func (tr *trial) sentWhileWaiting() bool {
	tr.collect()
	waiting, refused, highest := false, wire.PSN(0), wire.PSN(0)
	for _, p := range tr.packets {
		r, err := parseRoCE(p.data)
		if r == nil || err != nil || r.intact() != nil {
			continue
		}
		q, _ := wire.Parse(r.body())
		switch {
		case p.sent:
			if q.Opcode() == wire.RCAck && q.Syndrome().IsRNR() {
				waiting, refused = true, q.PSN()
			}
		case waiting && q.PSN() == refused:
			waiting = false
		case waiting && highest.Less(q.PSN()):
			return true
		}
		if !p.sent && highest.Less(q.PSN()) || highest == 0 {
			highest = q.PSN()
		}
	}
	return false
}

// TestRNRTimers tests every timer that a responder may request, each on its own queue pair.
// gorxe must not retry before the time.
func TestRNRTimers(t *testing.T) {
	eachFamily(t, "Receiver not ready", "the 32 timers, 0.01 to 655.36 ms", ipv4, func(tr *trial, server, client *machine) {
		const timers = 32
		a, b := tr.open(client, tr.row.Family, 1<<12), tr.open(server, tr.row.Family, 1<<12)
		for timer := range timers {
			join(a, b, timer, path{kind: typeRC, more: fmt.Sprintf("rnrtimer=%d", timer)})
		}
		for timer := range timers {
			a.do("send qp=%d id=%d op=%d mr=0 off=0 len=8", timer, timer, opSend)
		}
		// The kernel counts in jiffies of 4 ms, the first of which has begun.
		slack := time.Duration(0)
		if client.isKernel() {
			slack = 4 * time.Millisecond
		}
		early := func(timer int, wait time.Duration) bool { return wait < wire.RNRTimeout(uint8(timer))-slack }
		// Each queue pair comes back, and at least once not early.
		var waits [timers][]time.Duration
		for deadline := time.Now().Add(programTimeout); ; time.Sleep(50 * time.Millisecond) {
			waits = tr.rnrWaits(a, b)
			missing := slices.IndexFunc(waits[:], func(w []time.Duration) bool { return len(w) == 0 })
			for timer, list := range waits {
				if len(list) > 0 && early(timer, slices.Max(list)) {
					missing = timer
				}
			}
			if missing < 0 {
				break
			}
			if time.Now().After(deadline) {
				tr.Fatalf("timer %d: the queue pair has not come back in time: %v", missing, waits[missing])
			}
		}
		for timer := range timers {
			b.do("recv qp=%d id=%d mr=0 off=%d len=8", timer, timer, 64*timer)
		}
		for range timers {
			a.polled("SEND", statusSuccess)
			b.polled("SEND", statusSuccess)
		}
		// gorxe is never early. The emulated kernel is, now and then: while its processor waits for
		// ours, its jiffies stand still, and then they catch up.
		for timer, list := range waits {
			if least := slices.Min(list); !client.isKernel() && early(timer, least) {
				tr.Errorf("timer %d: came back after %v, not %v", timer, least, wire.RNRTimeout(uint8(timer)))
			}
		}
		tr.row.Note = "each is on the wire; gorxe never comes back before"
	})
}

// rnrWaits are the times between an RNR NAK and the next packet of that queue
// pair, by the timer that the NAK has.
func (tr *trial) rnrWaits(a, b *endpoint) (waits [32][]time.Duration) {
	tr.Helper()
	tr.collect()
	timerOf, since := map[string]int{}, map[int]time.Time{}
	for qp := range waits {
		timerOf[a.qpn[qp]], timerOf[b.qpn[qp]] = qp, qp
	}
	for _, p := range tr.packets {
		q, ok := transport(p.data)
		if !ok {
			continue
		}
		timer, ours := timerOf[fmt.Sprint(uint32(q.DestQP()))]
		switch at, waiting := since[timer]; {
		case !ours:
		case q.Opcode() == wire.RCAck && q.Syndrome().IsRNR():
			if int(q.Syndrome().RNRTimer()) != timer {
				tr.Fatalf("timer %d on the wire, not %d", q.Syndrome().RNRTimer(), timer)
			}
			since[timer] = p.at
		case waiting && q.Opcode() == wire.RCSendOnly:
			waits[timer] = append(waits[timer], p.at.Sub(at))
			delete(since, timer)
		}
	}
	return waits
}

package rxe

import (
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// resource is a READ or atomic that the peer may ask for again (struct resp_res;
// IBA 9.4.4, 9.4.5).
type resource struct {
	response // as it was before its first packet
	opcode   wire.Opcode
	last     wire.PSN
}

// resources holds the latest READs and atomics.
type resources struct {
	ring []resource
	next int32 // the oldest, to be overwritten
	n    int32
}

func (h *resources) clear() { h.next, h.n = 0, 0 }

func (h *resources) add(e resource) {
	if len(h.ring) == 0 {
		return
	}
	h.ring[h.next] = e
	slots := int32(len(h.ring))
	h.next = (h.next + 1) % slots
	h.n = min(h.n+1, slots)
}

// at returns the entry that has i newer ones.
func (h *resources) at(i int) *resource {
	return &h.ring[(int(h.next)-1-i+2*len(h.ring))%len(h.ring)]
}

// find returns the newest entry that has psn, or nil (find_resource).
func (h *resources) find(psn wire.PSN, op wire.Opcode) *resource {
	for i := range int(h.n) {
		if e := h.at(i); !psn.Less(e.psn) && !e.last.Less(psn) {
			if e.opcode == op {
				return e
			}
			return nil
		}
	}
	return nil
}

// before returns the last PSN, from psn on, that an ACK may name. The ACK must not
// claim that a READ or atomic was answered whose answer the peer may still expect;
// next is the expected PSN.
func (h *resources) before(psn, next wire.PSN) wire.PSN {
	limit := next
	for i := range int(h.n) {
		if e := h.at(i); psn.Less(e.psn) && e.psn.Less(limit) {
			limit = e.psn
		}
	}
	return limit.Sub(1)
}

// resize makes room for max_dest_rd_atomic requests. A peer that rounds the number
// up to a power of two, as rdma_rxe does, must find room as well.
func (r *responder) resize(_ *QP, maxDestRdAtomic int) {
	slots := 1
	for slots < maxDestRdAtomic+2 {
		slots *= 2
	}
	if slots == len(r.history.ring) {
		return
	}
	next := resources{ring: make([]resource, slots)}
	for i := min(int(r.history.n), slots) - 1; i >= 0; i-- {
		next.add(*r.history.at(i))
	}
	r.history = next
	queue := make([]response, len(r.queue), max(2*slots+1, len(r.queue)))
	copy(queue, r.queue)
	r.queue = queue
}

// resourcesFull reports whether as many requests wait for their response as may.
// Replays take at most half of the queue.
func (r *responder) resourcesFull(q *QP, st *step) bool {
	if len(r.queue) < 2*len(r.history.ring) {
		return false
	}
	if r.flushPayload(q, st) {
		r.emitSmall(q, st)
	}
	return len(r.queue) >= 2*len(r.history.ring)
}

// duplicateRequest handles a request from before the expected PSN
// (duplicate_request). What changed memory is not done again, only answered again
// (IBA 9.7.5.1; C9-105).
func (r *responder) duplicateRequest(q *QP, pkt wire.Packet, st *step) {
	q.dev.counters.DuplicateRequest.Add(1)
	q.tallies.stats.Duplicates.Add(1)
	if !r.flushPayload(q, st) {
		return
	}
	switch info := pkt.Info(); {
	case info.Has(messageKind):
		if r.held.until != 0 {
			r.held.release(q, st) // it answers the duplicate too
		} else if !r.ack.owed {
			r.ack = acking{dup: true, owed: true, psn: r.history.before(pkt.PSN(), r.psn)}
		} else if r.ack.dup {
			r.ack.psn = r.history.before(pkt.PSN(), r.psn)
		}
	case info.Has(wire.OpRead):
		r.replayRead(q, pkt, st.now)
	default:
		r.replay(q, pkt)
	}
}

// dropStale counts a duplicate of which no record is left. The peer gets no answer.
func (r *responder) dropStale(q *QP) {
	q.dev.counters.StaleRequest.Add(1)
	q.tallies.stats.Dropped.Add(1)
}

// replay answers an atomic again, with its first result.
func (r *responder) replay(q *QP, pkt wire.Packet) {
	e := r.history.find(pkt.PSN(), pkt.Opcode())
	if e == nil || len(r.queue) >= len(r.history.ring) {
		r.dropStale(q)
		return
	}
	if r.waits(e.psn) {
		return // the first answer has not been sent yet
	}
	r.ack = acking{}
	r.respond(q, e.response)
}

// waits reports whether the response that begins at psn is still to be sent.
func (r *responder) waits(psn wire.PSN) bool {
	return slices.ContainsFunc(r.queue, func(resp response) bool {
		return resp.kind != respondAck && resp.psn == psn && !resp.began
	})
}

// replayRead answers a READ, or the rest of one, again. The request must lie inside
// the one it repeats. The key is checked again when data is read.
func (r *responder) replayRead(q *QP, pkt wire.Packet, now Time) {
	e := r.history.find(pkt.PSN(), pkt.Opcode())
	if e == nil {
		r.dropStale(q)
		return
	}
	skip := uint64(pkt.PSN().Diff(e.psn)) * uint64(q.mtu())
	n := pkt.DMALen()
	inside := skip+uint64(n) <= uint64(e.total) && (n > 0 || e.total == 0)
	if !inside || len(pkt.Payload()) != 0 || (n > 0 && (pkt.RKey() != e.rkey || pkt.VA() != e.va+skip)) {
		r.dropStale(q)
		return
	}
	resp := e.response
	resp.psn, resp.va, resp.left, resp.total, resp.replay = pkt.PSN(), pkt.VA(), n, n, true
	resp.asked = now
	r.ack = acking{}
	if r.pendingRead(q, &resp, e, now) {
		return
	}
	if len(r.queue) >= len(r.history.ring) {
		r.dropStale(q)
		return
	}
	r.pace.slower(resp.psn, now)
	r.respond(q, resp)
}

// pendingRead handles a repeated READ whose responses are still being sent. Data
// that is still to be sent needs nothing; data that was lost is sent again from there.
func (r *responder) pendingRead(q *QP, resp *response, e *resource, now Time) bool {
	for i := range r.queue {
		waiting := &r.queue[i]
		if waiting.kind != respondRead || waiting.psn.Less(e.psn) || e.last.Less(waiting.psn) {
			continue
		}
		if !resp.psn.Less(waiting.psn) && resp.left <= waiting.left {
			waiting.asked = now
			if !waiting.began {
				r.dropOutdated(i, now)
			}
			return true
		}
		*waiting = *resp
		r.pace.slower(resp.psn, now)
		for j := i + 1; j < len(r.queue); j++ {
			r.queue[j].restart(q.mtu())
		}
		return true
	}
	return false
}

// dropOutdated forgets replays before the response at i, for which the peer has
// just asked again. A requester that retries asks first for the oldest PSN that was
// not answered. So it has the data of all replays for which it did not ask lately:
// delayed duplicates of its requests have queued these. Pacing was slowed down by
// them too. If the assumption is wrong, the peer asks again.
func (r *responder) dropOutdated(i int, now Time) {
	kept := r.queue[:0]
	for j, resp := range r.queue {
		if j >= i || !resp.replay || now-resp.asked < Time(minAckTimeout) {
			kept = append(kept, resp)
		}
	}
	if len(kept) < len(r.queue) {
		r.queue = kept
		r.pace.faster()
		r.pace.until = 0
	}
}

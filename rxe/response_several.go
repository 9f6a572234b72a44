package rxe

import "github.com/gorxe/gorxe/wire"

// The answers to several long READs of another device leave with one system call, as long requests do (requester_several.go). So
// their data is read with one call, too.

// wholeReads returns budget, or as many packets as let a READ end with it. Without that, the fourth READ of 64 KiB would be divided for four
// packets, and would need two calls.
func (r *responder) wholeReads(q *QP, budget int) int {
	if r.pace.limit > 0 || q.rate.limited() {
		return budget
	}
	packets := 0
	for i := range r.queue {
		if packets >= budget {
			break
		}
		packets += int(readPackets(r.queue[i].left, q.mtu()))
	}
	if packets < budget+q.group(responseBytes) {
		return max(budget, packets)
	}
	return budget
}

// emitSeveral sends the first responses if they are READs, long, and have no more than budget packets. It returns how many packets
// it sent. It sends none if there is just one such response, or if the data cannot be read. emitRead then
// sends the first of them by itself.
func (r *responder) emitSeveral(q *QP, budget int, o *outbox) (sent int) {
	n, size := r.several(q, budget, o)
	if n < 2 {
		return 0
	}
	o.reserve(size, true)
	mark, refused := o.mark(), q.refused
	built := 0
	for built < n && r.queue[built].buildWhole(q, o) {
		built++
	}
	q.refused = refused
	if built < 2 || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		return 0
	}
	for range built {
		sent += r.countWhole(q, o)
	}
	return sent
}

// several returns how many READs emitSeveral may answer, and how many bytes the responses take in the outbox.
func (r *responder) several(q *QP, budget int, o *outbox) (n, size int) {
	if !q.dev.cfg.CostlyMemory || q.peerIsLocal() {
		return 0, 0
	}
	budget, free := min(budget, maxSpans), o.severalRoom()
	for i := range min(len(r.queue), severalMessages) {
		resp := &r.queue[i]
		packets := int(readPackets(resp.total, q.mtu()))
		bytes := packets*(responseBytes+wire.AETHLen) + int(resp.total) + groupBursts*lineBytes
		if n == 0 && bytes > free {
			free = severalBytes // reserve flushes
		}
		if resp.kind != respondRead || resp.began || resp.replay || resp.total <= aheadMessage || packets > budget || bytes > free {
			break
		}
		n, size = n+1, size+bytes
		budget, free = budget-packets, free-bytes
	}
	return n, size
}

// buildWhole builds the packets of a READ that has not begun. Its data is gathered later. It reports false, and builds nothing, if
// the key does not allow that, or if the data is in another address space than that which waits to be gathered.
func (resp *response) buildWhole(q *QP, o *outbox) bool {
	ref, why := q.remoteAccess(resp.rkey, resp.va, uint64(resp.total), AccessRemoteRead)
	if why != keyOK {
		return false
	}
	if !o.in.fits(ref.mem) {
		ref.release()
		return false
	}
	whole := *resp
	h := whole.headers(q, 0)
	for range readPackets(whole.total, q.mtu()) {
		whole.readPacket(q, &h, &ref, o)
	}
	return true
}

// countWhole counts the first response, which was sent whole, and removes it. It returns the number of its packets.
func (r *responder) countWhole(q *QP, o *outbox) int {
	resp := &r.queue[0]
	packets := readPackets(resp.total, q.mtu())
	r.pace.begin(resp.psn, o.now)
	o.readData -= int(resp.total)
	q.countSent(packets, int(resp.total), o)
	o.sent.addMessage(&readOps, true, true, packets, &q.dev.opcodes.sent)
	r.pace.faster()
	r.pop()
	o.answered++
	return int(packets)
}

package rxe

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// Packets between QPs of one device never reach the link. The sender, with its
// own QP locked, leaves a copy in the receiver's inbox; after that lock is
// dropped the inbox is run. One thread at a time runs an inbox, so the order
// is the order of sending.

// inbox holds packets for one QP until somebody runs it.
type inbox struct {
	mu      sync.Mutex
	queue   []*localBatch
	spare   []*localBatch // the slice that was run last, to be filled next
	running bool
}

// localBatch is a burst's worth of packets to one QP.
type localBatch struct {
	buf   []byte
	seg   int
	proto wire.Datagram // all but Data
}

var localPool = sync.Pool{New: func() any { return new(localBatch) }}

// transmit sends the outbox's bursts on their way.
func (d *Device) transmit(o *outbox) {
	remote := 0 // bursts[:remote] go to the link
	for i := range o.bursts {
		b := &o.bursts[i]
		switch {
		case b.Route.Dst.IsMulticast():
			d.multicastLocal(b, o)
		case d.localGID(b.Route.Dst):
			d.deliverLocal(b, o)
			continue
		}
		o.bursts[remote] = *b
		remote++
	}
	if remote > 0 {
		d.cfg.Link.Send(o.bursts[:remote])
	}
}

// deliverLocal splits a burst by destination QP: UD packets over one address
// handle may go to several.
func (d *Device) deliverLocal(b *wire.Burst, o *outbox) {
	if d.cfg.Tap != nil {
		d.cfg.Tap(b)
	}
	for from := 0; from < len(b.Buf); {
		to := from + b.Seg
		dest := destQP(b.Buf[from:])
		for to < len(b.Buf) && destQP(b.Buf[to:]) == dest {
			to += b.Seg
		}
		to = min(to, len(b.Buf))
		if q := d.lookupQP(dest); q != nil {
			q.leave(b.Buf[from:to], b.Seg, b.Route, o)
		} else {
			d.counters.BadQPN.Add(1)
		}
		from = to
	}
}

// multicastLocal gives every attached QP of this device, the sender's own
// among them, its copy (IBA 10.5.2.1).
func (d *Device) multicastLocal(b *wire.Burst, o *outbox) {
	for _, q := range d.mcastMembers(wire.GIDFromAddr(b.Route.Dst)) {
		q.leave(b.Buf, b.Seg, b.Route, o)
	}
}

// destQP reads the destination QPN of a packet that this device built.
func destQP(b []byte) wire.QPN {
	return wire.QPN(uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7]))
}

// leave copies packets into q's inbox.
func (q *QP) leave(buf []byte, seg int, r *wire.Route, o *outbox) {
	l := localPool.Get().(*localBatch)
	l.buf = append(l.buf[:0], buf...)
	l.seg = seg
	l.proto = wire.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort,
		TrafficClass: r.TrafficClass, HopLimit: r.HopLimit}
	in := &q.inbox
	in.mu.Lock()
	in.queue = append(in.queue, l)
	kick := !in.running
	in.running = true
	in.mu.Unlock()
	if kick {
		o.kicks = append(o.kicks, q)
	}
}

// runInboxes runs every inbox that was filled, and those that doing so fills.
// No QP lock may be held.
func (d *Device) runInboxes(o *outbox) {
	for i := 0; i < len(o.kicks); i++ {
		o.kicks[i].runInbox(o)
	}
	clear(o.kicks)
	o.kicks = o.kicks[:0]
}

func (q *QP) runInbox(o *outbox) {
	in := &q.inbox
	for {
		in.mu.Lock()
		work := in.queue
		if len(work) == 0 {
			in.running = false
			in.mu.Unlock()
			return
		}
		in.queue, in.spare = in.spare[:0], nil
		in.mu.Unlock()

		q.mu.Lock()
		for _, l := range work {
			q.localPackets(l, o)
		}
		q.endVisit(o)
		q.mu.Unlock()
		o.flush()

		for i, l := range work {
			localPool.Put(l)
			work[i] = nil
		}
		in.mu.Lock()
		in.spare = work
		in.mu.Unlock()
	}
}

func (q *QP) localPackets(l *localBatch, o *outbox) {
	for at := 0; at < len(l.buf); at += l.seg {
		dg := l.proto
		dg.Data = l.buf[at : min(at+l.seg, len(l.buf))-wire.ICRCLen]
		p, err := wire.Parse(dg.Data)
		if err != nil {
			q.dev.counters.Malformed.Add(1)
			continue
		}
		q.dev.counters.RcvdPkts.Add(1)
		q.packet(p, &dg, o)
	}
}

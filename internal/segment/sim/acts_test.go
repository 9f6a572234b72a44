package sim

import (
	"errors"
	"slices"

	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// What users do on a station.

func (st *station) addQueue() {
	w, d := st.w, st.dev
	if len(st.queues) == 6 {
		pick(w.rng, st.queues...).destroy()
		return
	}
	d.wake() // a change of a state does so, too
	q := &queue{w: w, st: st, strip: one(w.rng, 3), fcs: one(w.rng, 3)}
	var err error
	q.recv, err = d.dev.CreateCQ(rxe.CQInit{Entries: 4 * depth})
	w.check(err)
	q.sent, err = d.dev.CreateCQ(rxe.CQInit{Entries: 4 * depth})
	w.check(err)
	init := rxe.QPInitAttr{Type: rxe.QPRaw, SendCQ: q.sent, RecvCQ: q.recv, Frames: &rxe.FrameInit{Port: st.real, StripVLAN: q.strip, ScatterFCS: q.fcs}}
	if one(w.rng, 2) {
		init = segment.WorkQueueInit(q.recv, q.strip, q.fcs)
		q.wq = new(segment.WorkQueue)
	}
	init.Cap = rxe.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}
	q.qp, err = d.pd.CreateQP(init)
	w.check(err)
	if q.wq != nil {
		q.wq.QP = q.qp
	}
	q.place = slices.Index(d.places[:], false)
	d.places[q.place] = true
	st.queues, d.queues = append(st.queues, q), append(d.queues, q)
	q.activate()
}

// activate takes a queue from RESET to where it receives.
func (q *queue) activate() {
	if q.wq != nil {
		to := segment.WQReady
		q.w.check(q.wq.Modify(nil, &to, nil))
	} else {
		for to := rxe.QPInit; to <= rxe.QPRTS; to++ {
			q.w.check(q.qp.Modify(&rxe.QPAttr{State: to, PortNum: 1}, rxe.RequiredMask(rxe.QPRaw, to-1, to)))
		}
	}
	q.state = ready
}

// destroy destroys a queue, though rules may lead to it. Frames to it are dropped then.
func (q *queue) destroy() {
	q.st.dev.wake()
	q.judge()
	q.w.check(q.qp.Destroy())
	q.state, q.recvs = dead, nil
	if slices.ContainsFunc(q.st.table.rules, func(r *rule) bool { return r.to == q }) {
		q.w.stats["orphaned"]++
	}
	q.st.dev.places[q.place] = false
	gone := func(o *queue) bool { return o == q }
	q.st.queues, q.st.dev.queues = slices.DeleteFunc(q.st.queues, gone), slices.DeleteFunc(q.st.dev.queues, gone)
	q.w.check(q.recv.Destroy())
	q.w.check(q.sent.Destroy())
}

// breakQueue takes a queue to ERR, and one in ERR back.
func (st *station) breakQueue() {
	if len(st.queues) == 0 {
		return
	}
	w, q := st.w, pick(st.w.rng, st.queues...)
	st.dev.wake()
	if q.state == ready {
		w.stats["broke"]++
		q.fail()
		if q.wq != nil {
			to := segment.WQError
			w.check(q.wq.Modify(nil, &to, nil))
		} else {
			w.check(q.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
		}
		return
	}
	q.judge()
	if q.wq != nil {
		to := segment.WQError
		w.check(q.wq.Modify(nil, &to, nil)) // it may have failed by itself
		to = segment.WQReset
		w.check(q.wq.Modify(&[]segment.WQState{segment.WQError}[0], &to, nil))
	} else {
		w.check(q.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	}
	q.activate()
}

func (st *station) addSpread() {
	var wqs []*queue
	for _, q := range st.queues {
		if q.wq != nil {
			wqs = append(wqs, q)
		}
	}
	if len(wqs) == 0 || len(st.spread) == 3 {
		return
	}
	w := st.w
	s := &spread{w: w, rss: ether.RSS{Fields: pick(w.rng,
		ether.HashSrcIPv4|ether.HashDstIPv4|ether.HashSrcTCP|ether.HashDstTCP, ether.HashSrcIPv4|ether.HashSrcUDP|ether.HashDstUDP,
		ether.HashSrcIPv6|ether.HashDstIPv6|ether.HashSrcTCP|ether.HashDstTCP, ether.HashDstIPv6|ether.HashDstUDP, 0)}}
	for i := range s.rss.Key {
		s.rss.Key[i] = byte(w.rng.Uint32())
	}
	s.real = &segment.Spread{RSS: s.rss}
	for range 1 << w.rng.IntN(4) {
		q := pick(w.rng, wqs...)
		s.queues, s.real.Queues = append(s.queues, q), append(s.real.Queues, q.qp)
	}
	st.spread = append(st.spread, s)
}

func (st *station) addRule() {
	w, r := st.w, drawRule(st.w.rng)
	switch {
	case len(st.spread) > 0 && one(w.rng, 3):
		s := pick(w.rng, st.spread...)
		r.to, r.real.To = s, s.real
	case len(st.queues) > 0:
		q := pick(w.rng, st.queues...)
		r.to, r.real.To = q, q.qp
	default:
		return
	}
	if r.typ == ether.Normal && one(w.rng, 3) {
		if len(st.flowCounts) < 2 {
			st.flowCounts = append(st.flowCounts, new(counter))
		}
		r.count = pick(w.rng, st.flowCounts...)
		r.real.Count = &r.count.real
	}
	if one(w.rng, 4) && len(st.table.rules) > 0 { // the same match again, for another receiver
		o := pick(w.rng, st.table.rules...)
		r.asks, r.never, r.real.Match = o.asks, o.never, o.real.Match
	}
	want := st.table.add(r)
	if err := st.real.AddFlow(r.real); !errors.Is(err, want) {
		w.fail("a rule: %v, want %v", err, want)
	}
	if want == ether.ErrConflict {
		w.stats["conflicts"]++
	}
}

func (st *station) removeRule(r *rule) {
	st.table.remove(r)
	st.real.RemoveFlow(r.real)
}

// receiveSome posts receives, often more than fit.
func (st *station) receiveSome() {
	if len(st.queues) == 0 {
		return
	}
	w, d, q := st.w, st.dev, pick(st.w.rng, st.queues...)
	d.wake()
	for range 1 + w.rng.IntN(depth) {
		q.nextID++
		p := post{id: q.nextID, at: (q.place*(depth+1) + q.posted%(depth+1)) * most, cap: pick(w.rng, 40, 100, most, most, most, most), bad: one(w.rng, 100)}
		first := w.rng.IntN(p.cap)
		key := d.mr.LKey()
		if p.bad {
			key++
		}
		_, err := q.qp.PostRecv([]rxe.RecvWR{{ID: p.id, SGL: []rxe.SGE{{Addr: uint64(memBase + p.at), Length: uint32(first), LKey: key},
			{Addr: uint64(memBase + p.at + first), Length: uint32(p.cap - first), LKey: key}}}})
		switch {
		case q.state == broken:
			q.want = append(q.want, completion{id: p.id, status: rxe.WCFlushErr})
			w.check(err)
		case len(q.recvs) == depth && !q.taken || len(q.recvs) > depth:
			if !errors.Is(err, rxe.ErrFull) {
				w.fail("a receive too many: %v", err)
			}
			return
		default:
			w.check(err)
			q.posted++
			q.recvs = append(q.recvs, p)
		}
	}
}

// sendSome posts frames at once.
func (st *station) sendSome() {
	w, d := st.w, st.dev
	var qps []*queue
	for _, q := range st.queues {
		if q.wq == nil {
			qps = append(qps, q)
		}
	}
	if len(qps) == 0 {
		return
	}
	d.wake()
	q := pick(w.rng, qps...)
	var wrs []rxe.SendWR
	at := sendAt
	for range 1 + w.rng.IntN(3) {
		q.nextID++
		wr, send := q.drawSend(&at)
		wr.ID, wr.Op, wr.Flags = q.nextID, rxe.WRSend, wr.Flags|rxe.SendSignaled
		wrs = append(wrs, wr)
		status := rxe.WCFlushErr
		if q.state == ready {
			status = rxe.WCSuccess
			send()
		}
		q.wantSent = append(q.wantSent, completion{id: wr.ID, status: status})
	}
	_, err := q.qp.PostSend(wrs)
	w.check(err)
	// The thread that sends runs the inboxes of its own device.
	for _, o := range d.queues {
		o.run()
	}
	w.wakeAll()
}

// drawSend makes a work request, and what the model does for it.
func (q *queue) drawSend(at *int) (rxe.SendWR, func()) {
	w, f := q.w, drawFrame(q.w.rng)
	as := rxe.FrameSend{}
	for _, flag := range []rxe.FrameSendFlags{rxe.FrameL3Sum, rxe.FrameL4Sum, rxe.FrameInsertVLAN} {
		if one(w.rng, 2) {
			as.Flags |= flag
		}
	}
	toCut := one(w.rng, 8)
	if toCut {
		f.cut, f.padding, f.offset, f.flags, f.fragment6 = 0, 0, 0, 0, false
		f.payload = append(f.payload, 1)
	}
	data := f.build().data
	if toCut {
		as.MSS, as.Header = uint16(8+w.rng.IntN(100)), uint16(len(data)-len(f.payload))
		if one(w.rng, 4) && int(as.Header)+1 < len(data) {
			as.Header++
		}
	}
	wr := rxe.SendWR{RemoteAddr: as.Word()}
	q.fillSend(&wr, data, at)
	if as.Flags&rxe.FrameInsertVLAN != 0 {
		as.VLAN = pick(w.rng, tcis...)
		f.tags = append([]tag{{typeTag, as.VLAN}}, f.tags...)
		as.Header += 4
		h := as
		h.Header -= 4
		wr.RemoteAddr = h.Word()
	}
	return wr, func() {
		if !toCut {
			v := f.build()
			v.setSums(as.Flags&rxe.FrameL3Sum != 0, as.Flags&rxe.FrameL4Sum != 0)
			q.st.send(v, q)
			return
		}
		segments := f.segments(int(as.Header), int(as.MSS))
		if segments == nil {
			w.stats["badSegments"]++
			q.st.counts.badSegments++
		}
		for _, v := range segments {
			w.stats["cut"]++
			q.st.send(v, q)
		}
	}
}

// fillSend says where a frame is: in the request, in memory, or in both.
func (q *queue) fillSend(wr *rxe.SendWR, data []byte, at *int) {
	w, d := q.w, q.st.dev
	head := 0
	if one(w.rng, 4) {
		head = min(w.rng.IntN(64), len(data))
		wr.Header = slices.Clone(data[:head])
	}
	data = data[head:]
	if len(data) <= 64-head && one(w.rng, 2) {
		wr.Flags, wr.Inline = rxe.SendInline, slices.Clone(data)
		return
	}
	copy(d.mem.Data[*at:], data)
	first := w.rng.IntN(len(data) + 1)
	wr.SGL = []rxe.SGE{{Addr: uint64(memBase + *at), Length: uint32(first), LKey: d.mr.LKey()},
		{Addr: uint64(memBase + *at + first), Length: uint32(len(data) - first), LKey: d.mr.LKey()}}
	*at += len(data)
}

// fromUplink has a frame arrive from a network.
func (st *station) fromUplink() {
	if st.uplink == nil {
		return
	}
	st.w.stats["uplinked"]++
	v := drawFrame(st.w.rng).build()
	st.w.tap.want = append(st.w.tap.want, slices.Clone(v.data))
	st.receive(v, nil)
	st.uplink.arrive(slices.Clone(v.data))
	st.w.wakeAll()
}

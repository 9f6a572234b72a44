package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gorxe/gorxe/internal/ether"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

const (
	memBase = 1 << 16
	memSize = 64 << 10
	sendAt  = 60 << 10 // where frames to be sent are; before that are receives
	depth   = 8        // of queues
	most    = 400      // bytes of a receive
	places  = sendAt / ((depth + 1) * most)
	users   = 2
)

// failure ends a run.
type failure struct{ error }

// stats counts what happened, so that a test can say that everything did.
type stats map[string]int

// everything is what has to happen.
var everything = []string{"delivered", "unreceived", "spread", "many", "learned", "flooded", "forgot", "tooLong", "badSegments", "conflicts",
	"cut", "broke", "uplinked", "asleep", "orphaned"}

// device is a device of the engine.
type device struct {
	w      *world
	dev    *rxe.Device
	pd     *rxe.PD
	mem    *simnet.Memory
	mr     *rxe.MR
	mac    [6]byte
	mtu    int
	woken  bool
	asleep bool // nobody runs the inboxes
	queues []*queue
	places [places]bool // of queues' receives
}

// station is a device's place on the segment of a user.
type station struct {
	w          *world
	real       *segment.Station
	dev        *device
	lan        *lan
	user       int
	mac        [6]byte
	mtu        int
	table      table
	counts     counters
	queues     []*queue // that can be receivers
	spread     []*spread
	flowCounts []*counter
	uplink     *wire
	users      int
}

// queue is a queue pair, or a work queue.
type queue struct {
	w        *world
	st       *station
	qp       *rxe.QP
	wq       *segment.WorkQueue // nil: a queue pair
	recv     *rxe.CQ
	sent     *rxe.CQ
	strip    bool
	fcs      bool
	state    state
	recvs    []post
	inbox    []arrival
	want     []completion
	wantSent []completion
	nextID   uint64
	place    int // of its receives, in the memory of the device
	posted   int
	taken    bool // the first receive has left the ring: the last frame was too long for it
}

// spread is a queue pair for RSS.
type spread struct {
	w      *world
	real   *segment.Spread
	rss    ether.RSS
	queues []*queue
}

// wire is a list of frames, as it is and as it has to be.
type wire struct {
	got, want [][]byte
	arrive    func([]byte)
}

func (u *wire) Frame(b []byte)              { u.got = append(u.got, bytes.Clone(b)) }
func (u *wire) Send(b []byte)               { u.Frame(b) }
func (u *wire) Receive(arrive func([]byte)) { u.arrive = arrive }
func (u *wire) Close()                      {}

func (u *wire) judge(w *world, name string) {
	if !slices.EqualFunc(u.got, u.want, bytes.Equal) {
		w.fail("%s has %d frames, want %d: %x, want %x", name, len(u.got), len(u.want), u.got, u.want)
	}
	u.got, u.want = u.got[:0], u.want[:0]
}

// world is one run.
type world struct {
	rng      *rand.Rand
	mistake  mistake
	segments segment.Users
	tap      wire
	devices  []*device
	lans     []*lan
	stations []*station
	stats    stats
	step     int
}

func (w *world) fail(format string, args ...any) {
	panic(failure{fmt.Errorf("step %d: %s", w.step, fmt.Sprintf(format, args...))})
}

func (w *world) check(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

func newWorld(seed uint64, m mistake) *world {
	w := &world{stats: make(stats), rng: rand.New(rand.NewPCG(seed, 0)), mistake: m}
	w.segments.Tap = &w.tap
	for range users {
		w.lans = append(w.lans, &lan{w: w, learned: make(map[place]*station)})
	}
	for i := range 1 + w.rng.IntN(3) {
		d := &device{w: w, mac: deviceMAC(i), mtu: pick(w.rng, 120, 250, 1500), mem: &simnet.Memory{Base: memBase, Data: make([]byte, memSize)}}
		var err error
		d.dev, err = rxe.New(rxe.Config{Link: rxedev.Nowhere{}, Clock: rxedev.Nowhere{}, Seed: [32]byte{1, byte(i)}, CostlyMemory: one(w.rng, 2)})
		w.check(err)
		w.check(d.dev.SetPort(rxe.PortActive, 4096))
		d.pd, err = d.dev.AllocPD()
		w.check(err)
		d.mr, err = d.pd.RegMR(d.mem, memBase, memSize, memBase, rxe.AccessLocalWrite)
		w.check(err)
		w.devices = append(w.devices, d)
	}
	return w
}

// run makes all steps, and then ends everything.
func (w *world) run() {
	for range 2 + w.rng.IntN(5) {
		w.join()
	}
	for range 20 + w.rng.IntN(40) {
		w.step++
		w.act()
		w.judge()
	}
	if one(w.rng, 500) {
		w.inventAddresses()
		w.judge()
	}
	w.end()
}

// act does one thing.
func (w *world) act() {
	if len(w.stations) == 0 {
		w.join()
		return
	}
	st := pick(w.rng, w.stations...)
	switch n := w.rng.IntN(40); {
	case n < 4:
		st.addRule()
	case n < 6:
		st.addQueue()
	case n < 15:
		for range 3 {
			st.receiveSome()
		}
	case n < 32:
		st.sendSome()
	case n < 33:
		st.addSpread()
	case n < 34:
		if len(st.table.rules) > 0 {
			st.removeRule(pick(w.rng, st.table.rules...))
		}
	case n < 36:
		st.breakQueue()
	case n < 37:
		w.join()
	case n < 38:
		w.leave(st)
	case n < 39:
		st.dev.asleep = true
	default:
		st.fromUplink()
	}
}

// join gives a user a station, or the same one again.
func (w *world) join() {
	user, d := w.rng.IntN(users), pick(w.rng, w.devices...)
	st := &station{w: w, dev: d, user: user, lan: w.lans[user], mac: d.mac, mtu: d.mtu}
	if one(w.rng, 3) {
		st.uplink = new(wire)
	}
	described := false
	real, err := w.segments.Station(user, d, func() (segment.Config, error) {
		described = true
		cfg := segment.Config{MAC: d.mac, MTU: func() int { return d.mtu }, Wake: func() { d.woken = true }}
		if st.uplink != nil {
			cfg.Uplink = st.uplink
		}
		return cfg, nil
	})
	w.check(err)
	for _, o := range w.stations {
		if o.user == user && o.dev == d {
			if described || o.real != real {
				w.fail("a second station of a device and a user")
			}
			o.users++
			return
		}
	}
	if !described {
		w.fail("a station that was not there")
	}
	st.real, st.users = real, 1
	st.lan.stations, w.stations = append(st.lan.stations, st), append(w.stations, st)
	for range 1 + w.rng.IntN(3) {
		st.addQueue()
		st.receiveSome()
		if one(w.rng, 3) {
			st.addSpread()
		}
		st.addRule()
	}
}

// leave gives a station back once. With the last time it leaves its segment. What its user had on
// it, goes on or not.
func (w *world) leave(st *station) {
	st.real.Release()
	if st.users--; st.users > 0 {
		return
	}
	gone := func(o *station) bool { return o == st }
	st.lan.stations = slices.DeleteFunc(st.lan.stations, gone)
	w.stations = slices.DeleteFunc(w.stations, gone)
	if len(st.lan.stations) == 0 {
		clear(st.lan.learned) // the segment ends
	}
	for p, at := range st.lan.learned {
		if at == st {
			delete(st.lan.learned, p)
		}
	}
	st.finish()
}

// finish destroys what a station had, in any order.
func (st *station) finish() {
	w := st.w
	for len(st.table.rules)+len(st.queues) > 0 {
		if n := w.rng.IntN(len(st.table.rules) + len(st.queues)); n < len(st.queues) {
			st.queues[n].destroy()
		} else {
			st.removeRule(st.table.rules[n-len(st.queues)])
		}
	}
}

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

// wake runs the inboxes of a device.
func (d *device) wake() {
	d.dev.Deliver()
	d.woken = false
	for _, q := range d.queues {
		q.run()
	}
}

// wakeAll does so where a device has asked for it, and nobody sleeps.
func (w *world) wakeAll() {
	for _, d := range w.devices {
		if d.asleep = d.asleep && !one(w.rng, 4); d.asleep {
			w.stats["asleep"]++
			continue
		}
		waits := slices.ContainsFunc(d.queues, func(q *queue) bool { return len(q.inbox) > 0 })
		if waits && !d.woken {
			w.fail("a device was not woken")
		}
		d.wake()
	}
}

// inventAddresses has a station send from more addresses than a segment learns.
func (w *world) inventAddresses() {
	for _, st := range w.stations {
		for _, q := range st.queues {
			if q.wq != nil || q.state != ready {
				continue
			}
			for i := range mostLearned + 100 {
				f := &frame{dst: st.mac, src: [6]byte{2, 7, 0, 0, byte(i >> 8), byte(i)}}
				v := f.build()
				st.send(v, q)
				st.real.SendFrame(q.qp, v.data, rxe.FrameSend{})
				if i%100 == 0 {
					st.dev.wake()
					w.wakeAll()
					w.judge()
				}
			}
			st.dev.wake()
			w.wakeAll()
			return
		}
	}
}

// judge compares everything with the model.
func (w *world) judge() {
	for _, d := range w.devices {
		for _, q := range d.queues {
			q.judge()
		}
	}
	for _, st := range w.stations {
		c := st.real.Counters
		if got := (counters{c.Sent.Load(), c.Received.Load(), c.TooLong.Load(), c.BadSegments.Load(), c.NoFlow.Load()}); got != st.counts {
			w.fail("counters %+v, want %+v", got, st.counts)
		}
		for i, c := range st.flowCounts {
			if packets, bytes := c.real.Load(); packets != c.packets || bytes != c.bytes {
				w.fail("counter %d: %d frames, %d bytes; want %d, %d", i, packets, bytes, c.packets, c.bytes)
			}
		}
		if st.uplink != nil {
			st.uplink.judge(w, "the uplink")
		}
	}
	w.tap.judge(w, "the tap")
}

func (q *queue) judge() {
	q.judgeCQ(q.sent, &q.wantSent)
	q.judgeCQ(q.recv, &q.want)
}

func (q *queue) judgeCQ(cq *rxe.CQ, want *[]completion) {
	var wcs [4 * depth]rxe.WC
	n, err := cq.Poll(wcs[:])
	q.w.check(err)
	if n != len(*want) {
		q.w.fail("queue %#x: %d completions, want %d: %+v, want %+v", q.qp.Num(), n, len(*want), wcs[:n], *want)
	}
	for i, c := range *want {
		wc := &wcs[i]
		if wc.ID != c.id || wc.Status != c.status || wc.QPN != q.qp.Num() {
			q.w.fail("completion %+v, want %+v", wc, c)
		}
		if c.data == nil {
			continue
		}
		got := q.st.dev.mem.Data[c.at:][:wc.ByteLen]
		if !bytes.Equal(got, c.data) || wc.Frame() != c.info || (wc.Flags&rxe.WCIPCsumOK != 0) != c.sumsOK {
			q.w.fail("a frame %x, %+v, %v; want %x, %+v", got, wc.Frame(), wc.Flags, c.data, c.info)
		}
	}
	*want = (*want)[:0]
}

// end gives everything back, and closes the devices.
func (w *world) end() {
	for _, d := range w.devices {
		d.asleep = false
		d.wake()
	}
	w.judge()
	for len(w.stations) > 0 {
		w.leave(pick(w.rng, w.stations...))
	}
	for _, d := range w.devices {
		w.check(d.mr.Dereg())
		w.check(d.pd.Dealloc())
		w.check(d.dev.Close())
	}
}

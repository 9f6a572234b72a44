package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/internal/test/seeds"
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
func (u *wire) Receive(arrive func([]byte)) { u.arrive = arrive }
func (u *wire) Close()                      {}

func (u *wire) Send(frames [][]byte) int {
	for _, b := range frames {
		u.Frame(b)
	}
	return len(frames)
}

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
	seeds.Failf("step %d: %s", w.step, fmt.Sprintf(format, args...))
}

func (w *world) check(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

func newWorld(seed uint64, m mistake) *world {
	w := &world{stats: make(stats), rng: rand.New(rand.NewPCG(seed, 0)), mistake: m}
	w.segments.Capture(&w.tap)
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
				st.real.SendFrames(q.qp, []rxe.FrameOut{{Data: v.data}})
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

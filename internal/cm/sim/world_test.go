package sim

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/test/seeds"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func failf(format string, args ...any) { seeds.Failf(format, args...) }

var must = seeds.OK

// world is one run.
type world struct {
	p       params
	net     *simnet.Network
	rng     *rand.Rand
	hosts   [2]*host
	users   []*user
	ignored map[int]bool // plans whose first REQ was ignored
	lossRun map[lossKey]int
	tids    map[tidKey]bool
	stats   runStats
	sum     uint32
}

// runStats counts what happened, so that a test can see that everything did.
type runStats struct {
	requests, messages, retries, duplicates, stale int
	lost                                           uint64
	events                                         [cm.EventLookupUnreachable + 1]int
	// by Destroy or a crash, by state
	ended [cm.StateDestroyed + 1]int
}

func (s *runStats) add(o *runStats) {
	s.requests += o.requests
	s.messages += o.messages
	s.retries += o.retries
	s.duplicates += o.duplicates
	s.stale += o.stale
	s.lost += o.lost
	for i, n := range o.events {
		s.events[i] += n
	}
	for i, n := range o.ended {
		s.ended[i] += n
	}
}

func newWorld(p params) *world {
	w := &world{
		p: p, net: simnet.New(p.net), rng: rand.New(rand.NewPCG(p.seed, 0xc1)), ignored: make(map[int]bool),
		lossRun: make(map[lossKey]int), tids: make(map[tidKey]bool),
	}
	w.net.Filter = w.filter
	for i := range w.hosts {
		w.hosts[i] = newHost(w, i)
	}
	return w
}

// lossKey tells apart the messages of one kind from one end of a connection.
type lossKey struct {
	from      string
	attribute wire.CMAttribute
	id        uint32
}

// maxLossRun is how many such messages are lost in a row, except while the network is
// cut. Then every exchange succeeds within the retries: an answer that is lost twice is
// asked for again by a message that is lost twice each time.
const maxLossRun = 2

// filter draws losses.
func (w *world) filter(p *simnet.Packet) bool {
	now := time.Duration(w.net.Now())
	if now >= w.p.cut[0] && now < w.p.cut[1] {
		return false
	}
	pkt, err := wire.Parse(p.Data[:len(p.Data)-wire.ICRCLen])
	must(err)
	msg, err := wire.ParseCM(pkt.Payload())
	must(err)
	key := lossKey{from: p.Route.Src.String(), attribute: msg.CMAttribute()}
	if withID, ok := msg.(interface{ LocalCommID() uint32 }); ok {
		key.id = withID.LocalCommID()
	}
	if withID, ok := msg.(interface{ RemoteCommID() uint32 }); ok && key.id == 0 {
		key.id = withID.RemoteCommID()
	}
	if withID, ok := msg.(interface{ RequestID() uint32 }); ok {
		key.id = withID.RequestID()
	}
	if w.rng.Float64() >= w.p.loss || w.lossRun[key] >= maxLossRun {
		w.lossRun[key] = 0
		return true
	}
	w.lossRun[key]++
	return false
}

// tidKey is a transaction identifier and the message that began with it.
type tidKey struct {
	tid uint64
	by  wire.CMAttribute
}

// check judges a message that a connection manager sends: an answer has the
// transaction identifier of what it answers.
func (w *world) check(mad *wire.MAD) {
	msg, err := wire.ParseCM(mad[:])
	must(err)
	if mad.Method() != wire.MADSend {
		failf("%v has method %v", msg, mad.Method())
	}
	w.stats.messages++
	a := msg.CMAttribute()
	var answers []wire.CMAttribute
	switch a {
	case wire.AttrREQ, wire.AttrDREQ, wire.AttrSIDRREQ:
		w.tids[tidKey{msg.TID(), a}] = true
		return
	case wire.AttrDREP:
		answers = []wire.CMAttribute{wire.AttrDREQ}
	case wire.AttrSIDRREP:
		answers = []wire.CMAttribute{wire.AttrSIDRREQ}
	default:
		answers = []wire.CMAttribute{wire.AttrREQ}
	}
	for _, by := range answers {
		if w.tids[tidKey{msg.TID(), by}] {
			return
		}
	}
	failf("%v answers with the transaction identifier 0x%016x, which no %v had", msg, msg.TID(), answers)
}

// When a run heals and ends. After healing there is no fault but delay. An MRA makes
// the 16 sends of a message take 17 minutes.
const (
	healAt = rxe.Time(250 * time.Second)
	endAt  = healAt + rxe.Time(25*time.Minute)
)

func (w *world) run() {
	for _, p := range w.p.plans {
		w.net.After(p.start, func() { w.connect(p) })
	}
	for _, c := range w.p.crashes {
		w.net.After(c.at, func() { w.hosts[c.host].crash(c); w.hosts[c.host].arm() })
	}
	w.net.Drain(healAt)
	w.p.loss, w.p.cut = 0, [2]time.Duration{}
	w.net.SetFaults(simnet.Config{})
	if !w.p.polite {
		// What has lost its peer learns of it now.
		for _, u := range w.users {
			if !u.gone && u.established && !u.over {
				_ = u.disconnect() // it may have ended meanwhile, or be about to
				u.h.arm()
			}
		}
	}
	w.net.Drain(endAt)
	w.judge()
	for _, h := range w.hosts {
		c := h.m.Counters()
		for i := range c.TxRetries {
			w.stats.retries += int(c.TxRetries[i])
			w.stats.duplicates += int(c.RxDuplicates[i])
		}
		w.stats.stale += int(c.Stale)
	}
	w.stats.lost = w.net.Stats[simnet.Lost]
}

// judge checks the end of the run:
//   - nothing waits any more, on either side;
//   - in a polite run, the two ends of each connection agree;
//   - when the users are gone, nothing is left.
func (w *world) judge() {
	for _, u := range w.users {
		w.sum = crc32.Update(w.sum, crc32.IEEETable, fmt.Appendf(nil, "%d %d %v %v", u.p.index, u.side, u.events, u.gone))
		if u.gone {
			continue
		}
		if s := u.conn.State(); s != cm.StateIdle {
			failf("plan %d side %d: still in state %v after %v", u.p.index, u.side, s, u.events)
		}
	}
	if w.p.polite {
		for _, u := range w.users {
			if u.side == client {
				w.judgePair(u)
			}
		}
	}
	for _, u := range w.users {
		if !u.gone {
			u.destroy()
		}
	}
	for _, h := range w.hosts {
		h.empty()
	}
}

// judgePair compares a client with its servers. There is more than one if a REQ came
// late, when its connection was over.
func (w *world) judgePair(c *user) {
	var partner *user
	for _, s := range w.users {
		if s.side != server || s.p != c.p {
			continue
		}
		if s.established {
			if partner != nil {
				failf("plan %d: two servers have the connection", c.p.index)
			}
			partner = s
		}
		if !s.established && !s.failed && !s.over {
			failf("plan %d: a server came to no verdict: %v", c.p.index, s.events)
		}
	}
	switch {
	case c.p.lookup:
		if wanted := c.p.server == accept || c.p.server == ignore; !c.over && wanted && c.p.server != ignore || c.over && !wanted {
			failf("plan %d: the lookup ended with %v", c.p.index, c.events)
		}
	case c.established != (partner != nil):
		failf("plan %d: the client has %v, and its server does not agree", c.p.index, c.events)
	case c.established:
		w.judgeEstablished(c, partner)
	case c.p.server == accept && c.p.client == accept:
		failf("plan %d: no connection, after %v", c.p.index, c.events)
	case !c.failed:
		failf("plan %d: the client came to no verdict: %v", c.p.index, c.events)
	}
}

// judgeEstablished compares the two ends of a connection that was established, and has
// ended.
func (w *world) judgeEstablished(c, s *user) {
	if c.p.server == reject || c.p.server == refuse || c.p.client == reject {
		failf("plan %d: established in spite of a rejection", c.p.index)
	}
	if !c.over || !s.over {
		failf("plan %d: the ends have %v and %v", c.p.index, c.events, s.events)
	}
	ca, sa := c.attr, s.attr
	if sa[0].AH == (rxe.AHAttr{}) {
		return // a DREQ was the first that the server heard after its REP
	}
	const rtr, rts = 0, 1
	if ca[rtr].RQPSN != sa[rts].SQPSN || sa[rtr].RQPSN != ca[rts].SQPSN || ca[rtr].DestQPN != s.conn.LocalQPN() ||
		sa[rtr].DestQPN != c.conn.LocalQPN() || ca[rtr].MaxDestRdAtomic != sa[rts].MaxRdAtomic || sa[rtr].MaxDestRdAtomic != ca[rts].MaxRdAtomic ||
		ca[rtr].PathMTU != sa[rtr].PathMTU || ca[rtr].AH.DGID != s.h.gid() || sa[rtr].AH.DGID != c.h.gid() ||
		ca[rts].Timeout != 17 || sa[rts].Timeout != 17 || ca[rts].RNRRetry != 2 || sa[rts].RNRRetry != 3 {
		failf("plan %d: attributes\n%+v\n%+v", c.p.index, ca, sa)
	}
}

// checksum identifies the run. Two runs of one seed must have the same.
func (w *world) checksum() uint64 { return uint64(w.net.Trace())<<32 | uint64(w.sum) }

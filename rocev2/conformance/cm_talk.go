package conformance

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// A talk is what two connection managers say about one connection, or one resolution of a
// service (IBA 12.9). Its active side sends the REQ. A talk is judged if the capture has
// its REQ. The state of the two sides is not known, only what was seen, so messages that
// crossed or that the capture lacks must excuse what follows.

// maxTalks bounds the talks; the oldest is forgotten.
const maxTalks = 4096

// talkKey names a talk by the identifier that its active side chose.
type talkKey struct {
	active, passive [16]byte
	id              uint32
	lookup          bool // of a service, with an identifier of another kind
}

// The sides of a talk.
const (
	active = iota
	passive
)

type talk struct {
	key   talkKey
	tid   uint64
	sides [2]talkSide

	retries uint8 // how often a message may be sent again
	// timewait is how long the queue pairs must rest, in nanoseconds.
	timewait int64
	over     bool  // a REJ or a DREP was sent
	ended    int64 // when a DREP was sent; 0: not seen
	service  uint64
	xrc      bool // the REQ is of an XRC initiator
	mra      bool // the answer may take longer than the REQ says
}

// talkSide is what one side has said of itself.
type talkSide struct {
	id      uint32 // 0: not said yet
	qpn     wire.QPN
	timeout int64 // within which it is answered, in nanoseconds; 0: not said
	dreqTID uint64
	said    [wire.AttrAPR - wire.AttrREQ + 1]utterance
}

// utterance is one message of a side, which it may have sent again.
type utterance struct {
	times uint64 // 0: not seen
	last  int64
	psn   wire.PSN // of the last one
	sum   uint64   // of its bytes
}

func (s *talkSide) has(a wire.CMAttribute) bool { return s.said[a-wire.AttrREQ].times > 0 }

// talks are the talks of a capture.
type talks struct {
	byKey map[talkKey]*talk
	order []*talk // a ring
	pos   int
	seed  maphash.Seed
}

func newTalks() talks { return talks{byKey: make(map[talkKey]*talk), seed: maphash.MakeSeed()} }

// begin makes a talk.
func (t *talks) begin(k *talk) {
	if len(t.order) < maxTalks {
		t.order = append(t.order, k)
	} else {
		if old := t.order[t.pos]; t.byKey[old.key] == old {
			delete(t.byKey, old.key)
		}
		t.order[t.pos] = k
		t.pos = (t.pos + 1) % maxTalks
	}
	t.byKey[k.key] = k
}

// followTalk compares a message with its talk.
func (c *Checker) followTalk(s *subject, f *Flow, m wire.CMMessage) {
	switch m := m.(type) {
	case wire.CMREQ:
		c.talkREQ(s, f, m)
	case wire.CMSIDRREQ:
		c.talkSIDRREQ(s, f, m)
	case wire.CMSIDRREP:
		key := talkKey{active: f.key.dst, passive: f.key.src, id: m.RequestID(), lookup: true}
		if k := c.talks.byKey[key]; k != nil {
			if m.ServiceID() != k.service {
				c.report(s, f, ruleCMIDs, fmt.Sprintf("service 0x%016x", k.service), fmt.Sprintf("0x%016x", m.ServiceID()))
			}
			c.transaction(s, f, m, k.tid)
			c.say(s, f, k, passive, m)
		}
	case wire.CMREP:
		if k := c.talkOf(s, f, m, m.LocalCommID(), m.RemoteCommID(), passive); k != nil {
			c.talkREP(s, f, k, m)
		}
	case wire.CMRTU:
		if k := c.talkOf(s, f, m, m.LocalCommID(), m.RemoteCommID(), active); k != nil {
			c.transaction(s, f, m, k.tid)
			c.after(s, f, m, k.sides[passive].has(wire.AttrREP), "a REP")
			c.say(s, f, k, active, m)
		}
	case wire.CMMRA:
		if k, side := c.either(s, f, m, m.LocalCommID(), m.RemoteCommID()); k != nil {
			k.mra = true
			c.say(s, f, k, side, m)
		}
	case wire.CMREJ:
		if k, side := c.either(s, f, m, m.LocalCommID(), m.RemoteCommID()); k != nil {
			c.transaction(s, f, m, k.tid)
			k.over = true
			c.say(s, f, k, side, m)
		}
	case wire.CMDREQ:
		if k, side := c.either(s, f, m, m.LocalCommID(), m.RemoteCommID()); k != nil {
			c.talkDREQ(s, f, k, side, m)
		}
	case wire.CMDREP:
		if k, side := c.either(s, f, m, m.LocalCommID(), m.RemoteCommID()); k != nil {
			peer := &k.sides[1-side]
			c.after(s, f, m, peer.has(wire.AttrDREQ), "a DREQ")
			if peer.has(wire.AttrDREQ) {
				c.transaction(s, f, m, peer.dreqTID)
			}
			k.over, k.ended = true, s.at
			c.say(s, f, k, side, m)
		}
	}
}

// talkREQ begins a talk, or continues the one whose REQ is sent again.
func (c *Checker) talkREQ(s *subject, f *Flow, m wire.CMREQ) {
	key := talkKey{active: f.key.src, passive: f.key.dst, id: m.LocalCommID()}
	old := c.talks.byKey[key]
	if old != nil && !old.over && old.tid == m.TID() {
		c.say(s, f, old, active, m)
		return
	}
	if old != nil && old.sides[active].said[0].sum == c.talks.sum(s) {
		return // the network was late
	}
	path := m.PrimaryPath()
	k := &talk{
		key: key, tid: m.TID(), xrc: m.XRC(), retries: m.MaxCMRetries(), timewait: ibaTime(path.LocalACKTimeout),
		sides: [2]talkSide{
			active:  {id: m.LocalCommID(), qpn: m.QPN(), timeout: ibaTime(m.RemoteCMTimeout())},
			passive: {timeout: ibaTime(m.LocalCMTimeout())},
		},
	}
	c.reusedEarly(s, f, old)
	c.talks.begin(k)
	c.say(s, f, k, active, m)
}

// reusedEarly judges whether the identifier of a connection that has ended is used again too
// early (IBA 12.9.8.4).
func (c *Checker) reusedEarly(s *subject, f *Flow, old *talk) {
	if old == nil || old.ended == 0 {
		return
	}
	if passed := s.at - old.ended; passed >= 0 && passed < old.timewait {
		c.report(s, f, ruleCMTimewait, fmt.Sprintf("communication ID 0x%08x to rest for %v", old.key.id, time.Duration(old.timewait)),
			fmt.Sprintf("a REQ with it %v after the DREP", time.Duration(passed)))
	}
}

func (c *Checker) talkSIDRREQ(s *subject, f *Flow, m wire.CMSIDRREQ) {
	key := talkKey{active: f.key.src, passive: f.key.dst, id: m.RequestID(), lookup: true}
	k := c.talks.byKey[key]
	if k == nil || k.tid != m.TID() {
		k = &talk{key: key, tid: m.TID(), service: m.ServiceID(), retries: noLimit}
		c.talks.begin(k)
	}
	c.say(s, f, k, active, m)
}

// noLimit stands for a number of retries that no message says.
const noLimit = 0xff

func (c *Checker) talkREP(s *subject, f *Flow, k *talk, m wire.CMREP) {
	p := &k.sides[passive]
	c.transaction(s, f, m, k.tid)
	if p.id == 0 {
		p.id, p.qpn = m.LocalCommID(), repliedQPN(m, k.xrc)
	}
	if k.xrc && (m.XRCQPN() == 0 || m.QPN() != 0 || !m.SRQ()) {
		c.report(s, f, ruleCMXRC, "a target as end-to-end context, no queue pair, an SRQ",
			fmt.Sprintf("0x%06x, queue pair 0x%06x, SRQ %v", uint32(m.XRCQPN()), uint32(m.QPN()), m.SRQ()))
	}
	c.say(s, f, k, passive, m)
}

func (c *Checker) talkDREQ(s *subject, f *Flow, k *talk, side int, m wire.CMDREQ) {
	c.after(s, f, m, k.sides[passive].has(wire.AttrREP), "a REP")
	if to := &k.sides[1-side]; to.id != 0 && m.RemoteQPN() != to.qpn {
		c.report(s, f, ruleCMIDs, fmt.Sprintf("queue pair 0x%06x", uint32(to.qpn)), fmt.Sprintf("0x%06x", uint32(m.RemoteQPN())))
	}
	k.sides[side].dreqTID = m.TID()
	c.say(s, f, k, side, m)
}

// talkOf returns the talk of a message that only one side may send, nil if its REQ was not
// seen.
func (c *Checker) talkOf(s *subject, f *Flow, m wire.CMMessage, local, remote uint32, want int) *talk {
	k, side := c.either(s, f, m, local, remote)
	if k != nil && side != want {
		names := [...]string{active: "the side that sent the REQ", passive: "the side that got the REQ"}
		c.report(s, f, ruleCMOrder, fmt.Sprintf("%v from %s", m.CMAttribute(), names[want]), "it from "+names[side])
		return nil
	}
	return k
}

// either returns the talk of a message, nil if its REQ was not seen, and the side that sent
// it. It judges the identifiers.
func (c *Checker) either(s *subject, f *Flow, m wire.CMMessage, local, remote uint32) (k *talk, side int) {
	byActive := c.talks.byKey[talkKey{active: f.key.src, passive: f.key.dst, id: local}]
	byPassive := c.talks.byKey[talkKey{active: f.key.dst, passive: f.key.src, id: remote}]
	switch {
	case byActive != nil && byPassive != nil:
		// Both sides may have chosen one number, for two connections.
		if id := byActive.sides[passive].id; id == 0 || id != remote {
			return byPassive, passive
		}
		return byActive, active
	case byActive != nil:
		c.ids(s, f, remote, byActive.sides[passive].id, m)
		return byActive, active
	case byPassive != nil:
		c.ids(s, f, local, byPassive.sides[passive].id, m)
		return byPassive, passive
	}
	return nil, 0
}

// ids judges the identifier that a message has for the passive side. A REJ may have none.
func (c *Checker) ids(s *subject, f *Flow, got, want uint32, m wire.CMMessage) {
	if got == want || want == 0 || got == 0 && m.CMAttribute() == wire.AttrREJ {
		return
	}
	c.report(s, f, ruleCMIDs, fmt.Sprintf("communication ID 0x%08x of the REP", want), fmt.Sprintf("0x%08x in %v", got, m.CMAttribute()))
}

// after judges that a message follows another.
func (c *Checker) after(s *subject, f *Flow, m wire.CMMessage, seen bool, what string) {
	if !seen {
		c.report(s, f, ruleCMOrder, what+" before", m.CMAttribute().String()+" without one")
	}
}

// transaction judges the transaction identifier of an answer.
func (c *Checker) transaction(s *subject, f *Flow, m wire.CMMessage, want uint64) {
	if m.TID() != want {
		c.report(s, f, ruleCMTransaction, fmt.Sprintf("TID 0x%016x", want), fmt.Sprintf("0x%016x in %v", m.TID(), m.CMAttribute()))
	}
}

// say notes a message, and compares it with the same one sent before. A queue pair of datagrams
// counts its packets by the PSN (IBA 9.8.3). So a message that is sent again has a later PSN than
// before, and a message that the network doubled has the same one, however late it comes.
func (c *Checker) say(s *subject, f *Flow, k *talk, side int, m wire.CMMessage) {
	a := m.CMAttribute()
	u, sum := &k.sides[side].said[a-wire.AttrREQ], c.talks.sum(s)
	if u.times == 0 {
		*u = utterance{1, s.at, s.psn, sum}
		return
	}
	switch a {
	case wire.AttrREQ, wire.AttrREP, wire.AttrDREQ, wire.AttrSIDRREQ:
	default:
		return // an answer, whose reason may be another one each time
	}
	if u.sum != sum {
		c.report(s, f, ruleCMResent, "the same "+a.String()+" again", "another one")
		u.sum = sum
	}
	if !u.psn.Less(s.psn) {
		return // the network or the capture doubled it, or the network was late
	}
	since := s.at - u.last
	u.last, u.psn = s.at, s.psn
	u.times++
	if u.times-1 > uint64(k.retries) {
		c.report(s, f, ruleCMRetries, fmt.Sprintf("%v sent again at most %s", a, plural.Of(k.retries, "time")), plural.Of(u.times-1, "time"))
	}
	// Linux computes with powers of two of a millisecond, and so waits a little less.
	if wait := k.sides[side].timeout; !k.mra && since < wait/2 {
		c.report(s, f, ruleCMRetries, fmt.Sprintf("%v again after %v", a, time.Duration(wait)), time.Duration(since).String())
	}
}

// sum returns a hash of a message.
func (t *talks) sum(s *subject) uint64 { return maphash.Bytes(t.seed, s.pkt.Payload()) }

// ibaTime returns 4.096 µs times 2 to the power of a field, in nanoseconds.
func ibaTime(v uint8) int64 { return 4096 << (v & 31) }

package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// A connection manager is played once as each side of each talk. It receives what the other
// side sent. A message that its own side sent has one of three causes: the connection manager
// answers by itself, or repeats a message, or its program has called it.
//
// The numbers that a side draws, its comm ID and its transaction identifiers, are those of the
// capture in all that is compared. Time passes only until a message is sent again.

// manager plays one side of a talk.
type manager struct {
	s      *Session
	talk   *talk
	active bool
	m      *cm.Machine
	conn   *cm.Conn   // nil before the request
	out    []wire.MAD // sent by the machine, and not compared yet
	more   int        // sent beyond maxAnswers
	now    rxe.Time
	tid    uint64 // of the REQ or SIDR_REQ that the machine sent
	drawn  uint64 // the last TID that the captured side drew
	said   map[wire.MAD]copies
	heard  int // messages of the other side so far
}

// copies are what this side has sent of one message.
type copies struct {
	psn   wire.PSN // of the last one
	heard int      // manager.heard at that time
}

// maxAnswers bounds the messages of the machine that the capture lacks.
const maxAnswers = 64

// playManager plays one side of a talk.
func playManager(k *talk, active bool, s *Session) {
	p := &manager{s: s, talk: k, active: active, now: 1, said: make(map[wire.MAD]copies)}
	seed := uint32(0)
	cfg := cm.Config{
		Random: func() uint32 { seed += 0x9e3779b9; return seed },
		Send:   p.send,
	}
	if active {
		if req, ok := parsed(k.request()).(wire.CMREQ); ok {
			cfg.GUID = req.CAGUID()
		}
		cfg.TargetACKDelay = 1 // so the packet lifetime alone makes the local ACK timeout
	} else if rep := k.reply(); rep != nil {
		cfg.GUID, cfg.TargetACKDelay = rep.CAGUID(), rep.TargetACKDelay()
	}
	p.m = cm.New(cfg)
	if !active {
		p.listen()
	}
	sent := -1 // a message that was sent before its turn
	for i := range k.messages {
		e := &k.messages[i]
		if e.active == active {
			if i != sent {
				p.sent(e)
			}
			continue
		}
		if j := k.crossed(i); j > sent {
			p.sent(&k.messages[j])
			sent = j
		}
		p.receive(e)
	}
	for range len(p.out) + p.more {
		s.free("answers that the capture lacks")
	}
}

// send takes a message of the machine.
func (p *manager) send(_ rxe.AHAttr, mad *wire.MAD) {
	if len(p.out) == maxAnswers {
		p.more++
		return
	}
	p.out = append(p.out, *mad)
}

// crossed returns the position of a message that the receiver of message i had sent before that
// one arrived, -1 if there is none. Both are DREQs, or both are DREPs. A receiver that has
// sent neither answers a DREQ with a DREP, and a DREP with nothing.
func (k *talk) crossed(i int) int {
	kind := wire.CMAttribute(k.messages[i].mad.Attribute())
	if kind != wire.AttrDREQ && kind != wire.AttrDREP {
		return -1
	}
	const window = 64
	for j := i + 1; j < min(i+window, len(k.messages)); j++ {
		if e := &k.messages[j]; e.active != k.messages[i].active {
			if wire.CMAttribute(e.mad.Attribute()) == kind {
				return j
			}
			return -1
		}
	}
	return -1
}

// reply returns the first REP of a talk, nil if there is none.
func (k *talk) reply() *wire.CMREP {
	for i := range k.messages {
		if rep, ok := parsed(k.messages[i].mad).(wire.CMREP); ok {
			return &rep
		}
	}
	return nil
}

// listen makes the listener that the first answer of the passive side implies.
func (p *manager) listen() {
	var refusal cm.Verdict // nil: the connection is taken
	switch first := p.talk.first(false).(type) {
	case wire.CMREJ:
		if first.Reason() == wire.RejectInvalidServiceID {
			p.s.assume("that no program listened")
			return
		}
		if first.LocalCommID() == 0 {
			p.s.assume("why the request was refused")
			refusal = cm.Refuse{Reason: first.Reason(), ARI: first.Info(), Data: first.PrivateData()}
		}
	case wire.CMSIDRREP:
		if first.Status() == wire.SIDRUnsupported {
			p.s.assume("that no program listened")
			return
		}
	}
	var service uint64
	switch first := parsed(p.talk.request()).(type) {
	case wire.CMREQ:
		service = first.ServiceID()
	case wire.CMSIDRREQ:
		service = first.ServiceID()
	}
	// A new Machine refuses no listener.
	_, _ = p.m.Listen(service, func(_ rxe.Time, c *cm.Conn, _ *cm.Request) cm.Verdict { //nolint:errcheck // see above
		p.conn = c
		if refusal != nil {
			return refusal
		}
		// it refuses one that is not the only connection of this machine
		verdict, _ := c.Admit(nil, nil)
		return verdict
	})
}

// receive gives the machine a message of the other side.
func (p *manager) receive(e *cmMessage) {
	mad := *e.mad
	if p.conn != nil {
		switch m := parsed(&mad).(type) {
		case identified:
			if m.RemoteCommID() == p.capturedID() && m.RemoteCommID() != 0 {
				m.SetCommIDs(m.LocalCommID(), p.conn.LocalCommID())
			}
		case wire.CMSIDRREP:
			m.SetRequestID(p.conn.LocalCommID())
		}
	}
	from := p.talk.key.active
	if p.active {
		from = p.talk.key.passive
	}
	p.m.Receive(p.now, rxe.AHAttr{DGID: wire.GIDFromAddr(from), PortNum: 1}, &mad)
	p.s.Played++
	p.heard++
}

// capturedID returns the number that this side chose in the capture, 0 if it says none.
func (p *manager) capturedID() uint32 {
	if p.active {
		return p.talk.key.id
	}
	return p.talk.passiveID
}

// sent compares a message of this side with that of the machine.
func (p *manager) sent(e *cmMessage) {
	msg := parsed(e.mad)
	about := msg.CMAttribute()
	last, again := p.said[*e.mad]
	p.said[*e.mad] = copies{e.psn, p.heard}
	if again && last.psn == e.psn {
		p.s.free("messages that the network doubled")
		return
	}
	got := p.take(about)
	if got == nil && again {
		p.expire()
		got = p.take(about)
	}
	if got == nil {
		err := p.call(msg)
		if got = p.take(about); got == nil {
			p.differ(e, msg.String(), missing(about, again, err), whySilent(about, again, p.heard > last.heard))
			return
		}
	}
	p.s.Compared++
	p.compare(e, got)
}

// missing says why the machine does not send a message.
func missing(about wire.CMAttribute, again bool, err error) string {
	switch {
	case again:
		return fmt.Sprintf("does not send the %v again", about)
	case err != nil:
		return fmt.Sprintf("sends no %v: %v", about, err)
	}
	return fmt.Sprintf("sends no %v", about)
}

// whySilent explains why the machine does not send a message. again says that this side has
// sent it before, and heard that the other side has sent something since.
func whySilent(about wire.CMAttribute, again, heard bool) string {
	switch about {
	case wire.AttrMRA:
		return whyNoMRA
	case wire.AttrLAP, wire.AttrAPR:
		return whyNoPaths
	case wire.AttrREQ, wire.AttrREP, wire.AttrDREQ, wire.AttrSIDRREQ:
		if again && heard {
			return whyLostAnswer
		}
	case wire.AttrREJ, wire.AttrRTU, wire.AttrDREP, wire.AttrSIDRREP:
		if again {
			return whyAnswerAgain
		}
	}
	return ""
}

// take returns the first message of a kind that the machine has sent, nil if there is none.
func (p *manager) take(about wire.CMAttribute) *wire.MAD {
	i := slices.IndexFunc(p.out, func(m wire.MAD) bool { return wire.CMAttribute(m.Attribute()) == about })
	if i < 0 {
		return nil
	}
	m := p.out[i]
	p.out = slices.Delete(p.out, i, i+1)
	return &m
}

// expire lets the time of the next timer come.
func (p *manager) expire() {
	if at, ok := p.m.Deadline(); ok {
		p.now = max(p.now, at)
		p.m.Expire(p.now)
	}
}

var (
	errNoRequest = errors.New("it has received no request")
	errNoCall    = errors.New("no call of a program sends it")
	errOneREQ    = errors.New("its request has other bytes")
)

// call does what the program must have done if it made this side send a message.
func (p *manager) call(msg wire.CMMessage) (err error) {
	p.s.Played++
	switch msg := msg.(type) {
	case wire.CMREQ:
		return p.connect(msg)
	case wire.CMSIDRREQ:
		return p.lookup(msg)
	case wire.CMMRA, wire.CMLAP, wire.CMAPR:
		return errNoCall
	}
	if p.conn == nil {
		return errNoRequest
	}
	p.s.assume("the calls of its program")
	switch msg := msg.(type) {
	case wire.CMREP:
		qpn := msg.QPN()
		if req, ok := parsed(p.talk.request()).(wire.CMREQ); ok && req.XRC() {
			qpn = msg.XRCQPN()
		}
		return p.conn.Accept(p.now, &cm.AcceptParams{
			QPN: qpn, StartingPSN: msg.StartingPSN(), ResponderResources: msg.ResponderResources(), InitiatorDepth: msg.InitiatorDepth(),
			RNRRetryCount: msg.RNRRetryCount(), FlowControl: msg.FlowControl(), SRQ: msg.SRQ(), PrivateData: msg.PrivateData(),
		})
	case wire.CMSIDRREP:
		if msg.Status() == wire.SIDRSuccess {
			return p.conn.Accept(p.now, &cm.AcceptParams{QPN: msg.QPN(), QKey: msg.QKey(), Info: msg.Info(), PrivateData: msg.PrivateData()})
		}
		return p.conn.Reject(p.now, 0, nil, msg.PrivateData())
	case wire.CMRTU:
		return p.conn.Ready(p.now)
	case wire.CMREJ:
		if p.active && msg.Reason() == wire.RejectTimeout {
			p.conn.Destroy(p.now) // the program ended it, or was killed
			return nil
		}
		return p.conn.Reject(p.now, msg.Reason(), msg.Info(), msg.PrivateData())
	default: // DREQ and DREP
		return p.conn.Disconnect(p.now)
	}
}

func (p *manager) connect(req wire.CMREQ) (err error) {
	if p.conn != nil {
		return errOneREQ
	}
	path := req.PrimaryPath()
	p.conn, err = p.m.Connect(p.now, &cm.ConnectParams{
		Service: req.ServiceID(), SGID: path.LocalGID, PKey: req.PKey(), QPN: req.QPN(), QPType: transport(req), StartingPSN: req.StartingPSN(),
		Path: rxe.AHAttr{DGID: path.RemoteGID, FlowLabel: path.FlowLabel, HopLimit: path.HopLimit, TrafficClass: path.TrafficClass,
			SL: path.ServiceLevel, StaticRate: path.Rate},
		PathMTU: rxe.MTUOf(req.PathMTU()), ResponderResources: req.ResponderResources(), InitiatorDepth: req.InitiatorDepth(),
		RetryCount: req.RetryCount(), RNRRetryCount: req.RNRRetryCount(), FlowControl: req.FlowControl(), SRQ: req.SRQ(),
		PacketLifetime: max(path.LocalACKTimeout, 1) - 1, PrivateData: req.PrivateData(),
	}, nil)
	return p.began(err)
}

func (p *manager) lookup(req wire.CMSIDRREQ) (err error) {
	if p.conn != nil {
		return errOneREQ
	}
	p.conn, err = p.m.Lookup(p.now, &cm.LookupParams{
		Service: req.ServiceID(), Path: rxe.AHAttr{DGID: wire.GIDFromAddr(p.talk.key.passive)}, PKey: req.PKey(), PrivateData: req.PrivateData(),
	}, nil)
	return p.began(err)
}

func (p *manager) began(err error) error {
	if err != nil {
		p.conn = nil
		return err
	}
	p.s.assume("the calls of its program")
	if n := len(p.out); n > 0 {
		p.tid = p.out[n-1].TID()
	}
	return nil
}

// transport returns the type of queue pair that a REQ is for, 0 for one that does not exist.
func transport(req wire.CMREQ) rxe.QPType {
	switch typ := req.TransportType(); {
	case typ == 0:
		return rxe.QPRC
	case typ == 1:
		return rxe.QPUC
	case typ == 3 && req.ExtendedTransportType() == 1:
		return rxe.QPXRCIni
	}
	return rxe.QPUD // which Connect refuses
}

// compare compares the bytes of a captured message with those of the machine.
func (p *manager) compare(e *cmMessage, got *wire.MAD) {
	switch m := parsed(got).(type) {
	case wire.CMREQ:
		m.SetLocalCommID(p.talk.key.id)
	case wire.CMSIDRREQ:
		m.SetRequestID(p.talk.key.id)
	case identified:
		if p.conn != nil && m.LocalCommID() == p.conn.LocalCommID() {
			m.SetCommIDs(p.capturedID(), m.RemoteCommID())
		}
	}
	switch about := wire.CMAttribute(got.Attribute()); {
	case about == wire.AttrREQ || about == wire.AttrSIDRREQ || about == wire.AttrDREQ:
		got.SetTID(e.mad.TID()) // which its sender draws
		p.drawn = e.mad.TID()
	case p.active && got.TID() == p.tid:
		got.SetTID(p.talk.request().TID())
	}
	if *got == *e.mad {
		return
	}
	first, n := -1, 0
	for i := range got {
		if got[i] != e.mad[i] {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	if first >= 4 {
		first &^= 3
	}
	show := func(m *wire.MAD) string {
		return fmt.Sprintf("%v, 0x%08x at byte %d (different: %s)", parsed(m), binary.BigEndian.Uint32(m[first:]), first, plural.Of(n, "byte"))
	}
	explained, own := "", *got
	if own.SetTID(p.drawn); wire.CMAttribute(got.Attribute()) == wire.AttrDREP && own == *e.mad {
		explained = whyOwnTID
	}
	p.differ(e, show(e.mad), show(got), explained)
}

func (p *manager) differ(e *cmMessage, captured, engine, explained string) {
	p.s.differ(Difference{
		Packet: e.number, About: wire.CMAttribute(e.mad.Attribute()).String(), Captured: captured, Engine: engine, Explained: explained,
	})
}

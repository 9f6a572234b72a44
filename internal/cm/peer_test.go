package cm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// peerRig is one node and a peer that is made of hand-written messages.
type peerRig struct {
	*node
	other *node // only its GID is used
	c     *Conn
}

const (
	peerGUID = 0x77
	peerID   = 0x0badcafe
	peerTID  = 0x1234_0000_5678
)

func newPeerRig(t *testing.T) *peerRig {
	r := &peerRig{node: newNode(t, 0x5e, "192.0.2.2"), other: newNode(t, peerGUID, "192.0.2.1")}
	r.listen()
	return r
}

// from delivers a message of the peer.
func (r *peerRig) from(mad *wire.MAD) { r.receive(r.other, mad) }

// The messages of the peer, about r.c.

func (r *peerRig) req() *wire.MAD {
	var m wire.MAD
	req := m.InitREQ(peerTID)
	req.SetLocalCommID(peerID)
	req.SetServiceID(testService)
	req.SetCAGUID(peerGUID)
	req.SetQPN(clientQPN)
	req.SetStartingPSN(0x123456)
	req.SetResponderResources(5)
	req.SetInitiatorDepth(6)
	req.SetRetryCount(4)
	req.SetRNRRetryCount(3)
	req.SetLocalCMTimeout(20)
	req.SetRemoteCMTimeout(20)
	req.SetMaxCMRetries(15)
	req.SetPathMTU(3)
	req.SetPKey(wire.DefaultPKey)
	req.SetPrimaryPath(&wire.CMPath{LocalGID: r.other.gid, RemoteGID: r.gid, HopLimit: 64, TrafficClass: 8, FlowLabel: 9, LocalACKTimeout: 17})
	copy(req.PrivateData(), "hello")
	return &m
}

func (r *peerRig) rep() *wire.MAD {
	var m wire.MAD
	rep := m.InitREP(r.c.tid)
	rep.SetCommIDs(peerID, r.c.commID)
	rep.SetCAGUID(peerGUID)
	rep.SetQPN(serverQPN)
	rep.SetStartingPSN(0x654321)
	rep.SetResponderResources(7)
	rep.SetInitiatorDepth(8)
	rep.SetRNRRetryCount(2)
	rep.SetTargetACKDelay(15)
	return &m
}

func (r *peerRig) rtu() *wire.MAD {
	var m wire.MAD
	m.InitRTU(peerTID).SetCommIDs(peerID, r.c.commID)
	return &m
}

func (r *peerRig) mra(of wire.CMSubject) *wire.MAD {
	var m wire.MAD
	mra := m.InitMRA(r.c.tid)
	mra.SetCommIDs(peerID, r.c.commID)
	mra.SetMessageMRAed(of)
	mra.SetServiceTimeout(mraServiceTimeout)
	return &m
}

func (r *peerRig) rej(of wire.CMSubject, reason wire.CMReason) *wire.MAD {
	var m wire.MAD
	rej := m.InitREJ(r.c.tid)
	rej.SetCommIDs(peerID, r.c.commID)
	rej.SetMessageRejected(of)
	rej.SetReason(reason)
	return &m
}

// takeBack is the REJ with which a peer takes its REQ back. It does not know r.c's ID.
func (r *peerRig) takeBack() *wire.MAD {
	var m wire.MAD
	rej := m.InitREJ(peerTID)
	rej.SetCommIDs(peerID, 0)
	rej.SetMessageRejected(wire.CMSubjectOther)
	rej.SetReason(wire.RejectTimeout)
	rej.SetInfo(binary.BigEndian.AppendUint64(nil, peerGUID))
	return &m
}

func (r *peerRig) dreq() *wire.MAD {
	var m wire.MAD
	dreq := m.InitDREQ(peerTID + 1)
	dreq.SetCommIDs(peerID, r.c.commID)
	dreq.SetRemoteQPN(r.c.qp.localQPN)
	return &m
}

func (r *peerRig) drep() *wire.MAD {
	var m wire.MAD
	m.InitDREP(r.c.tid).SetCommIDs(peerID, r.c.commID)
	return &m
}

func (r *peerRig) sidrREQ() *wire.MAD {
	var m wire.MAD
	req := m.InitSIDRREQ(peerTID)
	req.SetRequestID(peerID)
	req.SetServiceID(testService)
	req.SetPKey(wire.DefaultPKey)
	return &m
}

func (r *peerRig) sidrREP() *wire.MAD {
	var m wire.MAD
	rep := m.InitSIDRREP(r.c.tid)
	rep.SetRequestID(r.c.commID)
	rep.SetServiceID(testService)
	rep.SetQPN(serverQPN)
	rep.SetQKey(0x01234567)
	return &m
}

func (r *peerRig) lap() *wire.MAD {
	var m wire.MAD
	lap := m.InitLAP(peerTID)
	lap.SetCommIDs(peerID, r.c.commID)
	lap.SetRemoteQPN(r.c.qp.localQPN)
	return &m
}

func (r *peerRig) apr() *wire.MAD {
	var m wire.MAD
	m.InitAPR(peerTID).SetCommIDs(peerID, r.c.commID)
	return &m
}

// passive makes r.c the connection of a REQ that the user has.
func (r *peerRig) passive() {
	r.from(r.req())
	r.c = r.taken[len(r.taken)-1]
}

// reach brings r.c into a state, and forgets what was sent and heard on the way.
// StateREQRcvd and StateREPRcvd are those of a handler: reach then calls during from
// it, and returns.
func (r *peerRig) reach(s State, during func()) {
	r.t.Helper()
	switch s {
	case StateREQSent, StateMRAREQRcvd, StateREPRcvd, StateMRAREPSent:
		r.c = r.connect(r.other)
	case StateSIDRREQSent:
		var err error
		r.c, err = r.m.Lookup(r.now, &LookupParams{Service: testService, Path: rxe.AHAttr{DGID: r.other.gid}}, r.handler)
		r.noError(err)
	case StateSIDRREQRcvd:
		r.from(r.sidrREQ())
		r.c = r.taken[len(r.taken)-1]
	case StateREQRcvd:
		r.verdict = func(c *Conn, _ *Request) Verdict {
			r.c = c
			c.SetHandler(r.handler)
			r.now++
			r.verdict = nil
			r.check(s)
			during()
			return take
		}
		r.from(r.req())
		return
	default:
		r.passive()
	}
	switch s {
	case StateMRAREQRcvd:
		r.from(r.mra(wire.CMSubjectREQ))
	case StateREPRcvd:
		r.c.SetHandler(func(now rxe.Time, ev *Event) {
			r.c.SetHandler(r.handler)
			r.check(s)
			during()
		})
		r.from(r.rep())
		return
	case StateMRAREPSent:
		r.from(r.rep())
	case StateREPSent, StateMRAREPRcvd, StateEstablished, StateDREQSent, StateDREQRcvd, StateTimewait, StateIdle, StateDestroyed:
		r.noError(r.c.Accept(r.now, acceptParams()))
	default:
	}
	switch s {
	case StateMRAREPRcvd:
		r.from(r.mra(wire.CMSubjectREP))
	case StateEstablished, StateDREQSent, StateDREQRcvd, StateTimewait, StateIdle, StateDestroyed:
		r.from(r.rtu())
	default:
	}
	switch s {
	case StateDREQSent, StateTimewait, StateIdle:
		r.noError(r.c.Disconnect(r.now))
	case StateDREQRcvd:
		r.from(r.dreq())
	case StateDestroyed:
		r.c.Destroy(r.now)
	default:
	}
	switch s {
	case StateTimewait:
		r.from(r.drep())
	case StateIdle:
		r.from(r.drep())
		r.advance(time.Duration(duration(17)))
	default:
	}
	r.check(s)
	during()
}

// check checks the state, and clears the record.
func (r *peerRig) check(s State) {
	r.t.Helper()
	r.state(r.c, s)
	r.sent, r.events = nil, nil
}

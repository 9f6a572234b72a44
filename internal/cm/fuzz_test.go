package cm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// FuzzReceive receives any datagram in every state. The fuzzer may have it name the
// connection that is in this state, so that it is not lost at the first check.
func FuzzReceive(f *testing.F) {
	r := newPeerRig(&testing.T{})
	r.c = &Conn{m: r.m, commID: 1}
	for _, mad := range []*wire.MAD{
		r.req(), r.rep(), r.rtu(), r.mra(wire.CMSubjectREQ), r.rej(wire.CMSubjectREP, wire.RejectStale), r.takeBack(), r.dreq(), r.drep(),
		r.sidrREQ(), r.sidrREP(), r.lap(), r.apr(),
	} {
		f.Add(byte(3), byte(StateEstablished), mad[:])
	}
	f.Fuzz(func(t *testing.T, name, state byte, data []byte) {
		r := newPeerRig(t)
		s := State(state) % (StateDestroyed + 1)
		r.reach(s, func() {
			var m wire.MAD
			copy(m[:], data)
			if name&1 != 0 { // a datagram of the connection manager
				m[0], m[1], m[2], m[3] = 1, byte(wire.MADClassCM), 2, byte(wire.MADSend)
				m[16], m[17] = 0, byte(wire.AttrREQ)+m[17]%16
			}
			if name&2 != 0 { // from the peer, for the connection
				binary.BigEndian.PutUint32(m[wire.MADHeaderLen:], peerID)
				if name&4 != 0 {
					binary.BigEndian.PutUint32(m[wire.MADHeaderLen:], r.c.commID)
				}
				if m[17] != byte(wire.AttrREQ) {
					binary.BigEndian.PutUint32(m[wire.MADHeaderLen+4:], r.c.commID)
				}
			}
			before := r.m.Counters().RxMsgs
			r.from(&m)
			_, err := wire.ParseCM(m[:])
			if counted := r.m.Counters().RxMsgs != before; counted != (err == nil && m.Method() == wire.MADSend) {
				t.Fatalf("a datagram was counted as a message: %v", counted)
			}
			if len(r.sent) > 2 {
				t.Fatalf("one datagram is answered with %v", r.messages())
			}
		})
		consistent(t, r.m)
		r.advance(20 * time.Minute)
		consistent(t, r.m)
		r.m.Close(r.now)
		r.gone()
	})
}

// FuzzCalls does what the fuzzer says with two Machines and their connections: calls,
// and messages that are delivered in any order, twice, or never.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 8, 2, 8, 3, 8, 4, 8, 4, 8, 9, 0})               // connect, disconnect
	f.Add([]byte{1, 8, 2, 8, 7, 0, 0, 8, 5, 8, 6, 6})               // lookup, reject, destroy
	f.Add([]byte{0, 8, 11, 8, 9, 20, 10, 30, 0, 8, 8, 2, 9, 40, 6}) // duplicates and time
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 200 {
			return
		}
		run := newFuzzRun(t)
		for len(program) > 1 {
			run.step(program[0], program[1])
			program = program[2:]
			consistent(t, run.nodes[0].m)
			consistent(t, run.nodes[1].m)
		}
		run.end()
	})
}

// fuzzRun is two nodes, all connections that they had, and the messages between them.
type fuzzRun struct {
	nodes [2]*node
	conns []fuzzConn
	wire  []fuzzMessage
}

type fuzzConn struct {
	n *node
	c *Conn
}

type fuzzMessage struct {
	from, to *node
	mad      wire.MAD
}

func newFuzzRun(t *testing.T) *fuzzRun {
	run := &fuzzRun{nodes: [2]*node{newNode(t, 0xa, "192.0.2.1"), newNode(t, 0xb, "192.0.2.2")}}
	for _, n := range run.nodes {
		n.m.cfg.Limits = Limits{Conns: 12, PerUser: 10, HalfOpen: 6, PerListener: 4, PerRequester: 3}
		n.verdict = func(c *Conn, req *Request) Verdict {
			run.conns = append(run.conns, fuzzConn{n, c})
			c.SetHandler(n.handler)
			switch req.PrivateData[0] % 5 {
			case 1:
				return Ignore
			case 2:
				return Refuse{Reason: wire.RejectConsumer}
			case 3:
				c.Destroy(n.now)
			case 4:
				_ = c.Accept(n.now, acceptParams()) // the state of a new request allows it
			}
			return take
		}
		n.listen()
	}
	return run
}

// step does one thing, with one argument.
func (run *fuzzRun) step(what, arg byte) {
	n := run.nodes[arg&1]
	other := run.nodes[1-arg&1]
	var c fuzzConn
	if len(run.conns) > 0 {
		c = run.conns[int(arg)%len(run.conns)]
	}
	var err error
	switch what % 12 {
	case 0:
		p := n.connectParams(other)
		p.PrivateData, p.QPN = []byte{arg >> 1}, wire.QPN(arg>>4)
		c = fuzzConn{n: n}
		if c.c, err = n.m.Connect(n.now, p, n.handler); err == nil {
			run.conns = append(run.conns, c)
		}
	case 1:
		p := &LookupParams{Service: testService, Path: rxe.AHAttr{DGID: other.gid}, PrivateData: []byte{arg >> 1}}
		c = fuzzConn{n: n}
		if c.c, err = n.m.Lookup(n.now, p, n.handler); err == nil {
			run.conns = append(run.conns, c)
		}
	case 8, 11: // deliver, and keep for later
		run.collect()
		if len(run.wire) > 0 {
			i := int(arg) % len(run.wire)
			m := run.wire[i]
			if what%12 == 8 {
				run.wire = append(run.wire[:i], run.wire[i+1:]...)
			}
			m.to.receive(m.from, &m.mad)
		}
	case 9:
		for _, n := range run.nodes {
			n.advance(time.Duration(arg) * 300 * time.Millisecond)
		}
	case 10:
		run.collect()
		run.wire = nil
	}
	if c.c == nil {
		return
	}
	switch what % 12 {
	case 2:
		p := acceptParams()
		p.QPN += wire.QPN(arg >> 6)
		err = c.c.Accept(c.n.now, p)
	case 3:
		err = c.c.Ready(c.n.now)
	case 4:
		err = c.c.Disconnect(c.n.now)
	case 5:
		err = c.c.Reject(c.n.now, wire.CMReason(arg), nil, []byte{arg})
	case 6:
		c.c.Destroy(c.n.now)
	case 7:
		err = c.c.Established(c.n.now)
	}
	if err != nil && err != ErrState && err != ErrConnected && err != ErrLimit {
		run.nodes[0].t.Fatal(err)
	}
}

// collect takes what the nodes have sent.
func (run *fuzzRun) collect() {
	for i, n := range run.nodes {
		for _, s := range n.sent {
			run.wire = append(run.wire, fuzzMessage{from: n, to: run.nodes[1-i], mad: s.mad})
		}
		n.sent = nil
	}
}

// end lets all time pass, and destroys all connections.
func (run *fuzzRun) end() {
	for _, n := range run.nodes {
		n.advance(time.Hour)
		consistent(n.t, n.m)
		if len(n.m.timers) != 0 {
			n.t.Fatal("a timer runs after an hour")
		}
	}
	for _, c := range run.conns {
		c.c.Destroy(c.n.now)
	}
	run.nodes[0].gone()
	run.nodes[1].gone()
}

package daemon

import (
	"context"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// A private daemon lives as long as the programs of the runs that overlap in time:
//
//  1. It waits for its first session as long as the `gorxe run` lives that started it
//     (Ready.AwaitEnd).
//  2. When its last program has ended, it takes no session any more. A run that comes then waits
//     until the socket is free, and starts a daemon of its own. So no run gets the devices or the
//     capture of programs that have ended.
//  3. It ends when the connections about faults and reports have ended too. It closes the last
//     connection after it has given up its socket and its UDP ports: a `gorxe run` returns after
//     that, so that the next command finds them free.

// settleLimit is how long a private daemon that ends waits for packets that fault rules delay.
const settleLimit = time.Second

// enter makes n one of the sessions. If ends is true, the daemon takes no sessions any more. The
// caller then calls conclude, once it has told the client why: a daemon that ends closes the
// connections of its clients.
func (s *Server) enter(n *session) (ends bool, err error) {
	limit := n.tenant.Enter() // without the lock: it may wait
	ends, err = s.admit(n, limit)
	if err != nil && limit == nil {
		n.tenant.Leave()
	}
	return ends, err
}

// admit is enter for a session that its user may have, or not: limit says why.
func (s *Server) admit(n *session, limit error) (ends bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false, proto.ErrEnding
	}
	if s.cfg.Private && n.wanted.Network != 0 && n.wanted.Network != proto.ThisNetwork() {
		return false, proto.ErrElsewhere
	}
	if err := s.suits(&n.wanted); err != nil {
		if s.cfg.Private && s.unused() {
			s.ending = true // make room for a daemon that fits
			return true, proto.ErrEnding
		}
		return false, err
	}
	if limit != nil {
		return false, limit
	}
	s.lastID++
	n.id = s.lastID
	s.sessions[n] = struct{}{}
	return false, nil
}

// programEnded is called when the program of a session has ended, before its keeper learns of it.
func (s *Server) programEnded(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.over = true
	s.refuseMore()
	s.hold(n.conn)
}

// leave is called once for each session that entered.
func (s *Server) leave(n *session) {
	n.faults.end()
	s.mu.Lock()
	delete(s.sessions, n)
	last := n.faults.unuse()
	s.mu.Unlock()
	if last {
		n.faults.clear()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.tenant.Leave()
	s.left()
}

// endTalk is called once for each connection about faults or reports, which is still open.
func (s *Server) endTalk(conn *proto.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talks--
	s.hold(conn)
	s.left()
}

// left ends a private daemon that no client needs. The caller holds mu.
func (s *Server) left() {
	s.refuseMore()
	if s.cfg.Private && s.unused() {
		s.conclude()
	}
}

// refuseMore makes a private daemon take no session any more, if the programs of all have ended.
// The caller holds mu.
func (s *Server) refuseMore() {
	for n := range s.sessions {
		if !n.over {
			return
		}
	}
	s.ending = s.ending || s.cfg.Private
}

// hold keeps a client's connection open, if it is the last one of a private daemon that ends. The
// caller holds mu, and closes its own descriptor.
func (s *Server) hold(conn *proto.Conn) {
	if !s.cfg.Private || !s.ending || s.talks > 0 {
		return
	}
	if f, err := conn.File(); err == nil { // otherwise the client waits for less
		s.held = append(s.held, f)
	}
}

// letGo closes the connections of hold.
func (s *Server) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.held {
		f.Close()
	}
	s.held = nil
}

// unused reports whether no client needs the daemon. The caller holds mu.
func (s *Server) unused() bool { return len(s.sessions) == 0 && s.talks == 0 }

// EndUnasked ends a private daemon that has had no session. It is called when the `gorxe run` is
// gone that started it.
func (s *Server) EndUnasked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastID == 0 && !s.ending {
		s.ending = true
		s.conclude()
	}
}

// settle sends the packets that fault rules have delayed, as a network would that still has them.
func (s *Server) settle() {
	limit, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	for _, d := range s.devices {
		d.faults.Settle(limit.Done())
	}
}

package daemon

import (
	"errors"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// live captures for programs that follow, as gorxe extcap. While there are some, the devices have a
// Tap, also without --pcap.
type live struct {
	segments segment.Users // of raw packets, whose frames are captured with the devices' packets
	talks    sync.WaitGroup
	mu       sync.Mutex // below
	conns    map[*rocev2.Follower]*proto.Conn
	// nil: there are no followers, or the devices have the Tap of --pcap anyway
	tap   *rocev2.Tap
	ended bool
}

// maxFollowers bounds the programs that follow a capture.
const maxFollowers = 4

var followerCost = quota.Cost{Memory: rocev2.FollowerCost + socketBuffer}

// liveChunk is how many bytes of a live capture are in one message.
const liveChunk = 32 << 10

// lastPackets is how long a daemon that ends waits until its followers have the last packets.
const lastPackets = time.Second

// follow begins a live capture.
func (s *Server) follow(conn *proto.Conn) (*rocev2.Follower, error) {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	switch {
	case s.live.ended:
		return nil, proto.ErrEnding
	case len(s.live.conns) == maxFollowers:
		return nil, errors.New("other programs capture already: end one of them")
	}
	tap := s.tap
	if tap == nil {
		if s.live.tap == nil {
			var err error
			if s.live.tap, err = rocev2.NewLiveTap("gorxe"); err != nil {
				return nil, err
			}
		}
		tap = s.live.tap
	}
	f := tap.Follow()
	if s.live.conns == nil {
		s.live.conns = make(map[*rocev2.Follower]*proto.Conn)
	}
	s.live.conns[f] = conn
	s.live.talks.Add(1)
	if len(s.live.conns) == 1 {
		s.setTaps(tap, tapWork{tap, s.work()})
	}
	return f, nil
}

// unfollow ends a live capture.
func (s *Server) unfollow(f *rocev2.Follower) {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	f.Stop()
	s.live.talks.Done()
	if delete(s.live.conns, f); len(s.live.conns) == 0 && !s.live.ended {
		s.live.tap = nil
		s.setTaps(s.tap, s.work())
	}
}

// endLive ends the live captures, with the packets until now.
func (s *Server) endLive() {
	s.live.mu.Lock()
	s.live.ended = true
	for f, conn := range s.live.conns {
		conn.Sock.SetWriteDeadline(time.Now().Add(lastPackets)) //nolint:errcheck // closed: its talk ends anyway
		f.Stop()
	}
	s.live.mu.Unlock()
	s.live.talks.Wait()
}

func (s *Server) setTaps(tap *rocev2.Tap, work rxe.WorkTap) {
	for _, d := range s.devices {
		d.engine.SetTap(tap, work)
	}
	s.setFrameTap(tap)
}

// setFrameTap sets what captures the frames of raw packet queue pairs; nil: nothing does.
func (s *Server) setFrameTap(tap *rocev2.Tap) {
	if tap == nil {
		s.live.segments.Capture(nil)
		return
	}
	s.live.segments.Capture(tap)
}

// liveTalk sends packets as they come, until the client or the daemon ends. The
// packets have the data of all users, so only root and the daemon's own user may have them.
func (s *Server) liveTalk(conn *proto.Conn, uid uint32, u *tenant.Tenant) {
	if !s.owns(uid) {
		refuse(conn, errors.New("only root and the user of the daemon may capture: packets have the data of all users"))
		return
	}
	if err := u.Budget.Take(followerCost); err != nil {
		refuse(conn, err)
		return
	}
	defer u.Budget.Give(followerCost)
	f, err := s.follow(conn)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer s.unfollow(f)
	if conn.Send(proto.Reply{Version: proto.ProtocolVersion}) != nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		conn.RecvOnly(new(proto.Request)) //nolint:errcheck // whatever comes, or the end, ends the capture
		f.Stop()
	}()
	defer func() {
		conn.Close()
		<-gone
	}()
	var buf []byte
	for {
		if buf = f.Read(buf); len(buf) == 0 {
			return
		}
		for rest := buf; len(rest) > 0; {
			n := min(len(rest), liveChunk)
			if _, err := conn.Sock.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// tapWork tells a Tap which packets are of which work requests.
type tapWork struct {
	tap  *rocev2.Tap
	also rxe.WorkTap // nil: none
}

// Posted implements rxe.WorkTap.
func (t tapWork) Posted(q *rxe.QP, id uint64, op rxe.WROpcode, bytes uint32) {
	if t.also != nil {
		t.also.Posted(q, id, op, bytes)
	}
}

// Began implements rxe.WorkTap.
func (t tapWork) Began(q *rxe.QP, id uint64, first, last wire.PSN, route *wire.Route, peer wire.QPN) {
	if route != nil {
		t.tap.Work(route, q.Num(), peer, q.Type() == rxe.QPUD, first, last, id)
	}
	if t.also != nil {
		t.also.Began(q, id, first, last, route, peer)
	}
}

// Completed implements rxe.WorkTap.
func (t tapWork) Completed(q *rxe.QP, wc rxe.WC, receive bool) {
	if t.also != nil {
		t.also.Completed(q, wc, receive)
	}
}

// work returns what sees the work requests of devices that are captured.
func (s *Server) work() rxe.WorkTap {
	if s.journal == nil {
		return nil
	}
	return s.journal
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/rxe"
)

// reports is what went wrong in a session, and what its processes left behind.
type reports struct {
	log   explain.Log
	steps steps

	mu      sync.Mutex // below
	readers int        // connections that ask for reports
	ended   []proto.ProcessStatus
	listed  int // objects in ended
	leftOut int // files that there was no room for
	// of the processes that opened a device, as long as they run; at most maxEnds
	names map[int]named
	ends  []proto.ProcessEnd
	roles map[string]role // by their names
}

// named is how a process is called.
type named struct{ name, role string }

// maxEnds bounds names, and ends.
const maxEnds = 256

// maxEnded bounds the objects of ended.
const maxEnded = 1024

// endedCost is what n objects of ended take at most, with their counters.
func endedCost(n int) quota.Cost { return quota.Cost{Memory: int64(n) * 4 << 10} }

// fileReports receives the errors of one open file. It implements uverbs.Reports and
// kernel.Refusals.
type fileReports struct {
	to              *reports
	pid             int
	program, device string
	role            string         // in gorxe pair; empty: none
	budget          *quota.Budget  // of the user; nil: states of queue pairs are not kept
	rules           *inject.Link   // of the device; nil: none
	sanitizer       *sanitize.File // nil: none
}

// of returns what is told of the errors of a file that a process has opened.
func (r *reports) of(pid int, device string) *fileReports {
	who := named{processName(pid), r.roleOf(pid)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers > 0 && len(r.names) < maxEnds {
		if r.names == nil {
			r.names = make(map[int]named)
		}
		r.names[pid] = who
	}
	return &fileReports{to: r, pid: pid, program: who.name, role: who.role, device: device}
}

// ProcessEnded implements trap.Mourner.
func (n *session) ProcessEnded(pid int, status *unix.WaitStatus) {
	n.reports.processEnded(n.tenant.Budget, pid, status)
}

// processEnded notes the end of a process that had a device open, if a connection will ask.
func (r *reports) processEnded(budget *quota.Budget, pid int, status *unix.WaitStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who, ok := r.names[pid]
	delete(r.names, pid)
	if !ok || r.readers == 0 || len(r.ends) >= maxEnds || budget.TakeNow(endedCost(1)) != nil {
		return
	}
	r.listed++
	end := proto.ProcessEnd{Time: time.Now(), PID: pid, Name: who.name, Role: who.role, Stopped: r.roles[who.role].stopped}
	switch {
	case status == nil:
	case status.Signaled():
		end.Signal = unix.SignalName(status.Signal())
	default:
		code := status.ExitStatus()
		end.Status = &code
	}
	r.ends = append(r.ends, end)
}

func (f *fileReports) add(r explain.Record) {
	r.PID, r.Program, r.Role, r.Device = f.pid, f.program, f.role, f.device
	f.to.log.Add(r)
}

// Refused implements kernel.Refusals.
func (f *fileReports) Refused(verb string, errno unix.Errno, err error) {
	f.add(explain.Refused(verb, errno, err))
}

// Failed implements rxe.Reports.
func (f *fileReports) Failed(q *rxe.QP, failure *rxe.Failure) {
	if f.sanitizer != nil {
		f.sanitizer.Failed(q, failure)
	}
	r := explain.Failed(q.Num(), failure)
	if packets, receives := r.Lost(); f.rules != nil && (packets || receives) {
		r.Blame(f.rules.Blame(q, failure, receives))
	}
	f.add(r)
}

// leave notes what a process leaves behind in a file that it closes, if a connection will ask.
func (r *reports) leave(f *file) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers == 0 {
		return
	}
	if r.listed >= maxEnded {
		r.leftOut++
		return
	}
	st, listed := f.status(maxEnded - r.listed)
	if listed == 0 && st.PDs+st.MWs+st.AHs+st.XRCDs+st.Channels+st.Flows+st.WQs+st.RSS == 0 {
		return
	}
	r.keep(f.session.tenant.Budget, listed+1, &proto.ProcessStatus{PID: f.who.PID, Name: f.reports.program, Role: f.reports.role, Files: []proto.FileStatus{st}})
}

// keep adds n objects to ended, if the user has memory for them; r.mu is held.
func (r *reports) keep(budget *quota.Budget, n int, p *proto.ProcessStatus) {
	if budget.TakeNow(endedCost(n)) != nil {
		r.leftOut++
		return
	}
	r.listed += n
	r.ended = append(r.ended, *p)
}

// done is called when a connection ends. After the last one, nobody asks for what processes left.
func (r *reports) done(budget *quota.Budget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps.done(budget)
	if r.readers--; r.readers == 0 {
		budget.Give(endedCost(r.listed))
		r.ended, r.listed, r.leftOut = nil, 0, 0
		r.names, r.ends = nil, nil
	}
}

// errors returns the last errors of the session.
func (n *session) errors() proto.Errors {
	list, total := n.reports.log.Records()
	if list == nil {
		list = []explain.Record{}
	}
	explain.Join(list)
	return proto.Errors{Session: n.id, UID: n.cred.Uid, Command: n.command, Total: total, Errors: list}
}

// errorsOf returns the last errors of the sessions that a user may see.
func (s *Server) errorsOf(uid uint32) []proto.Errors {
	list := []proto.Errors{}
	sessions, _ := s.visible(uid)
	for _, n := range sessions {
		list = append(list, n.errors())
	}
	return list
}

// reportTalk serves a connection about a session.
func (s *Server) reportTalk(ctx context.Context, conn *proto.Conn, uid uint32, u *tenant.Tenant, first *proto.Request) {
	n, err := s.sessionOf(first.Session, uid)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer s.endReports(n, conn)
	for req := first; ; {
		if req.Op != proto.OpReport || req.Session != first.Session {
			refuse(conn, errors.New("unexpected request "+req.Op))
			return
		}
		s.sendText(ctx, conn, u, func() any {
			s.flush()
			return s.reportOf(n, uid)
		})
		req = new(proto.Request)
		if conn.RecvOnly(req) != nil {
			return
		}
	}
}

// sessionOf returns a session that the user may see, and counts a connection about it.
func (s *Server) sessionOf(id uint64, uid uint32) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		if n.id == id && (uid == n.cred.Uid || s.owns(uid)) {
			n.reports.mu.Lock()
			defer n.reports.mu.Unlock()
			n.reports.readers++
			n.reports.steps.wanted()
			s.talks++
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no session %d of user %d: gorxe status lists them", id, uid)
}

func (s *Server) endReports(n *session, conn *proto.Conn) {
	n.reports.done(n.tenant.Budget)
	s.endTalk(conn)
}

// reportOf returns what is known of a session.
func (s *Server) reportOf(n *session, uid uint32) *proto.Report {
	r := &proto.Report{Errors: n.errors(), Devices: []proto.DeviceStatus{}, Ended: []proto.ProcessStatus{}}
	r.Session, _ = n.status(maxEnded)
	if s.tap != nil {
		r.CaptureLeftOut = s.tap.LeftOut()
	}
	if s.journal != nil && s.owns(uid) {
		r.Work = s.journal.Report()
	}
	for _, d := range s.devices {
		r.Devices = append(r.Devices, d.status(s.owns(uid)))
	}
	n.reports.steps.report(r)
	n.reports.mu.Lock()
	defer n.reports.mu.Unlock()
	r.Ended, r.EndedLeftOut = append(r.Ended, n.reports.ended...), n.reports.leftOut
	r.Ends = append(r.Ends, n.reports.ends...)
	if n.sanitizer != nil {
		r.Sanitizer = n.sanitizer.Report()
		for i := range r.Ends {
			if r.Ends[i].Signal != "" {
				r.Sanitizer.Killed(r.Ends[i].PID)
			}
		}
	}
	return r
}

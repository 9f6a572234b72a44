package daemon

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
)

// fail adds an error to the sessions of a server.
func (s *running) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		n.reports.of(os.Getpid(), "rxe0").Refused("create_qp", unix.EINVAL, unix.EINVAL)
	}
}

// TestReports: a connection about a session learns of its errors, also when the session has ended.
func TestReports(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c := s.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := proto.DialReports([]string{s.cfg.Socket}, hello.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.fail()
	c.Close()
	must.Eventually(t, "the session ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 0
	})
	rep, err := r.Ask()
	if err != nil {
		t.Fatal(err)
	}
	if e := &rep.Errors; e.Total != 1 || len(e.Errors) != 1 || e.Errors[0].Verb != "ibv_create_qp" || e.Errors[0].PID != os.Getpid() {
		t.Errorf("the report has %+v", e)
	}
	for _, session := range []uint64{0, hello.Session, 99} {
		if _, err := proto.DialReports([]string{s.cfg.Socket}, session); err == nil {
			t.Errorf("session %d, which does not exist, has a report", session)
		}
	}
}

// TestErrorsAtEnd: the keeper learns how many errors its program had, before the connection ends.
func TestErrorsAtEnd(t *testing.T) {
	for _, want := range []uint64{0, 2} {
		s := startTest(t, Config{}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
			for range want {
				cfg.Host.(*session).reports.of(os.Getpid(), "rxe0").Refused("create_qp", unix.EINVAL, unix.EINVAL)
			}
			return nil
		})
		c := s.attached(t)
		if err := c.Questions(nil, nil); err != nil || c.Recorded != want {
			t.Errorf("%d errors (%v), want %d", c.Recorded, err, want)
		}
	}
}

// TestErrorsOfUsers: a user sees the errors of no other, unless it owns the daemon.
func TestErrorsOfUsers(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c := s.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	s.fail()
	if list := s.errorsOf(uint32(os.Geteuid())); len(list) != 1 || list[0].Total != 1 {
		t.Errorf("the owner sees %+v", list)
	}
	const stranger = 4711
	if list := s.errorsOf(stranger); len(list) != 0 {
		t.Errorf("another user sees %+v", list)
	}
	if _, err := s.sessionOf(hello.Session, stranger); err == nil || !strings.Contains(err.Error(), "there is no session") {
		t.Errorf("another user's report: %v", err)
	}
}

// TestUnreadReport: a report is one of the user's texts, of which there is one at a time. It is
// charged until the user has read it.
func TestUnreadReport(t *testing.T) {
	s := startTest(t, Config{textWait: 1}, nil)
	hello, err := s.dial(t).Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	ask := proto.Request{Version: proto.ProtocolVersion, Op: proto.OpReport, Session: hello.Session}
	c := s.dial(t)
	if err := c.Conn.Send(ask); err != nil {
		t.Fatal(err)
	}
	must.Eventually(t, "the report is charged", func() bool { return s.used().Memory >= socketBuffer })
	if _, err := proto.DialReports([]string{s.cfg.Socket}, hello.Session); !errors.Is(err, proto.ErrLimit) {
		t.Fatalf("a second report: %v", err)
	}
	c.Close()
	must.Eventually(t, "the report is given back", func() bool { return s.used().Memory < socketBuffer })
	r, err := proto.DialReports([]string{s.cfg.Socket}, hello.Session)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestEndedMemory: what processes left behind is charged to the user, until no connection can ask
// for it.
func TestEndedMemory(t *testing.T) {
	budget := quota.New(endedCost(3))
	r := &reports{readers: 2, steps: steps{readers: 2}}
	for _, n := range []int{2, 2, 1} {
		r.keep(budget, n, &proto.ProcessStatus{})
	}
	if r.listed != 3 || len(r.ended) != 2 || r.leftOut != 1 || budget.Used() != endedCost(3) {
		t.Errorf("%d objects of %d processes are kept, %d left out, and %+v is charged", r.listed, len(r.ended), r.leftOut, budget.Used())
	}
	if r.done(budget); len(r.ended) != 2 {
		t.Error("the other connection has nothing to ask for")
	}
	if r.done(budget); len(r.ended) != 0 || budget.Used() != (quota.Cost{}) {
		t.Errorf("%d processes are kept, and %+v is charged after the last connection", len(r.ended), budget.Used())
	}
}

// TestProcessEnds: a report has the ends of the processes that had a device open, in their order,
// and 256 of them at most. Nothing is kept if nobody asks.
func TestProcessEnds(t *testing.T) {
	budget := quota.New(quota.Cost{Memory: 64 << 20})
	killed, exited := unix.WaitStatus(unix.SIGKILL), unix.WaitStatus(7<<8)
	var r reports
	r.of(1, "rxe0")
	r.processEnded(budget, 1, &killed)
	if len(r.ends)+len(r.names) != 0 {
		t.Errorf("nobody asks, and %v, %v are kept", r.ends, r.names)
	}
	r.readers, r.steps.readers = 1, 1
	for pid := 1; pid <= 3; pid++ {
		r.of(pid, "rxe0")
	}
	r.processEnded(budget, 4, &killed) // it had no device
	r.processEnded(budget, 3, &killed)
	r.processEnded(budget, 1, &exited)
	r.processEnded(budget, 2, nil)
	if e := r.ends; len(e) != 3 || e[0].PID != 3 || e[0].Signal != "SIGKILL" || e[0].Status != nil || e[1].Signal != "" ||
		*e[1].Status != 7 || e[2].PID != 2 || e[2].Signal != "" || e[2].Status != nil {
		t.Errorf("the ends are %+v", e)
	}
	for pid := 10; pid < 1000; pid++ {
		r.of(pid, "rxe0")
		r.processEnded(budget, pid, &exited)
	}
	if len(r.ends) != maxEnds || len(r.names) > maxEnds {
		t.Errorf("%d ends, %d names", len(r.ends), len(r.names))
	}
	r.done(budget)
	if used := budget.Used(); used != (quota.Cost{}) {
		t.Errorf("%+v is not given back", used)
	}
}

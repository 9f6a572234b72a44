package daemon

import (
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/wire"
)

// maxSteps bounds the states of queue pairs that a session keeps.
const maxSteps = 2048

// stepCost is what n of them take, as values and as text.
func stepCost(n int) quota.Cost { return quota.Cost{Memory: int64(n) * 512} }

// steps are the states that a session's queue pairs came to. Its lock is a leaf: verbs add to it.
type steps struct {
	mu      sync.Mutex
	readers int
	list    []proto.QPStep
	leftOut int
}

// wanted counts a connection that will ask.
func (s *steps) wanted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
}

// add notes a state, if a connection will ask.
func (s *steps) add(budget *quota.Budget, step *proto.QPStep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.readers == 0:
	case len(s.list) == maxSteps || budget.TakeNow(stepCost(1)) != nil:
		s.leftOut++
	default:
		s.list = append(s.list, *step)
	}
}

// done is called when a connection ends.
func (s *steps) done(budget *quota.Budget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers--; s.readers == 0 {
		budget.Give(stepCost(len(s.list)))
		s.list, s.leftOut = nil, 0
	}
}

// report adds the states to a report.
func (s *steps) report(r *proto.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Steps, r.StepsLeftOut = append(r.Steps, s.list...), s.leftOut
}

// Moved implements uverbs.Reports.
func (f *fileReports) Moved(q wire.QPN, state string) {
	if f.budget != nil {
		f.to.steps.add(f.budget, &proto.QPStep{Time: time.Now(), PID: f.pid, Name: f.program, Role: f.role, QPN: uint32(q), State: state})
	}
}

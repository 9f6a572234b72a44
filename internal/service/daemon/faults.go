package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// faultRules is the fault rules of a session. They touch packets of the session's queue pairs;
// those for whole devices, which only root and the daemon's user may set, touch all. They fire as
// long as the session lives, and what they did is known as long as a connection asks for it.
type faultRules struct {
	set     *fault.Set
	devices []*device
	budget  *quota.Budget // of the session's user

	mu    sync.Mutex // below
	users int        // the session, and connections
	ended bool       // the session has
	paid  int        // rules that the budget pays for
	// The session's programs run, and their doorbells are trapped.
	running, trapped bool

	delayed atomic.Int32 // calls
}

// ruleCost is what n rules take at most, their texts on the way included.
func ruleCost(n int) quota.Cost { return quota.Cost{Memory: int64(n) * 2 << 10} }

func newFaultRules(b *quota.Budget, devices []*device) *faultRules {
	return &faultRules{set: fault.NewSet(time.Now), devices: devices, budget: b, users: 1}
}

// change changes the set with do, which adds, removes or reads rules.
func (r *faultRules) change(adds int, do func() ([]fault.Status, error)) ([]fault.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended && adds > 0 {
		return nil, errors.New("the session has ended")
	}
	if err := r.budget.Take(ruleCost(adds)); err != nil {
		return nil, fmt.Errorf("fault rules: %w", err)
	}
	r.paid += adds
	list, err := do()
	r.settle()
	r.update()
	return list, err
}

// settle gives back what the budget paid for rules that are no longer there.
func (r *faultRules) settle() {
	n := r.set.Len()
	r.budget.Give(ruleCost(r.paid - n))
	r.paid = n
}

func (r *faultRules) update() {
	for _, d := range r.devices {
		d.faults.Update(r.set)
	}
}

// end ends the rules with their session.
func (r *faultRules) end() {
	r.mu.Lock()
	r.ended = true
	r.set.Close()
	r.update()
	r.mu.Unlock()
	r.leave()
}

// leave is called by each user once. The last one gives all back.
func (r *faultRules) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.set.Clear()
		r.settle()
	}
}

// faultTalk serves a connection about the fault rules of a session.
func (s *Server) faultTalk(conn *proto.Conn, cred unix.Ucred, first *proto.Request) {
	rules, err := s.rulesOf(first.Faults, cred.Uid)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer s.endTalk(rules)
	var texts []string
	for req := first; ; {
		if req.Op != proto.OpFaults || req.Faults == nil || req.Faults.Session != first.Faults.Session {
			refuse(conn, errors.New("unexpected request "+req.Op))
			return
		}
		texts = append(texts, req.Faults.Rules...)
		switch {
		case len(texts) > fault.MaxRules:
			refuse(conn, fmt.Errorf("more than %d fault rules", fault.MaxRules))
			return
		case !req.Faults.More:
			list, err := rules.answer(req.Faults, texts, cred.Uid)
			if texts = nil; err != nil {
				refuse(conn, err)
				break
			}
			text, err := json.Marshal(list)
			if err != nil {
				refuse(conn, err)
				break
			}
			conn.SendText(text)
		}
		req = new(proto.Request)
		if conn.RecvOnly(req) != nil {
			return
		}
	}
}

// rulesOf returns the rules of a session that the user may change, and counts a connection.
func (s *Server) rulesOf(req *proto.FaultRequest, uid uint32) (*faultRules, error) {
	if req == nil {
		return nil, errors.New("a request about no session")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		if n.id != req.Session || uid != n.cred.Uid && !owns(uid) {
			continue
		}
		n.faults.mu.Lock()
		defer n.faults.mu.Unlock()
		n.faults.users++
		s.talks++
		return n.faults, nil
	}
	return nil, fmt.Errorf("there is no session %d of user %d: gorxe status lists them", req.Session, uid)
}

func (s *Server) endTalk(r *faultRules) {
	r.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talks--
	s.left()
}

// answer does what a request asks for.
func (r *faultRules) answer(req *proto.FaultRequest, texts []string, uid uint32) ([]fault.Status, error) {
	switch req.Do {
	case proto.FaultAdd:
		rules, err := parseFaults(texts, owns(uid))
		if err != nil {
			return nil, err
		}
		return r.change(len(rules), func() ([]fault.Status, error) {
			if err := r.checkVerbs(rules); err != nil {
				return nil, err
			}
			return r.add(rules)
		})
	case proto.FaultRemove:
		return r.change(0, func() ([]fault.Status, error) { return r.set.Remove(req.IDs...) })
	case proto.FaultClear:
		return r.change(0, func() ([]fault.Status, error) { return r.set.Clear(), nil })
	case proto.FaultList:
		return r.change(0, func() ([]fault.Status, error) { return r.set.Status(), nil })
	}
	return nil, errors.New("unknown request about fault rules: " + req.Do)
}

func (r *faultRules) add(rules []fault.Rule) (added []fault.Status, err error) {
	first, err := r.set.Add(rules...)
	if err != nil {
		return nil, err
	}
	for _, s := range r.set.Status() {
		if s.ID >= first {
			added = append(added, s)
		}
	}
	return added, nil
}

func parseFaults(texts []string, owner bool) ([]fault.Rule, error) {
	rules := make([]fault.Rule, 0, len(texts))
	for _, text := range texts {
		r, err := fault.Parse(text)
		if err != nil {
			return nil, err
		}
		if r.WholeDevice && !owner {
			return nil, &fault.Error{Rule: text, Why: "only root and the user of the daemon may set rules with scope=device"}
		}
		rules = append(rules, r)
	}
	return rules, nil
}

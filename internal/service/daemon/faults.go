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
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
)

// faultRules is the fault rules of a session. They touch packets of the session's queue pairs;
// those for whole devices, which only root and the daemon's user may set, touch all. They fire as
// long as the session lives, and what they did is known as long as a connection asks for it.
type faultRules struct {
	set     *fault.Set
	devices []*device
	verbs   *inject.Verbs // of all sessions
	client  int           // the process whose rules these are
	label   string        // of the session
	budget  *quota.Budget // of the session's user
	users   int           // the session, and connections; Server.mu guards it

	// A change of many rules holds mu for long, so nothing waits for it with a lock that is common
	// to sessions.
	mu    sync.Mutex // below
	ended bool       // the session has
	paid  int        // rules that the budget pays for
	// The session's programs run, and their doorbells are trapped.
	running, trapped bool

	delayed atomic.Int32 // calls
}

// ruleCost is what n rules take at most, with their texts.
func ruleCost(n int) quota.Cost { return quota.Cost{Memory: int64(n) * (2<<10 + fault.MaxText)} }

func newFaultRules(b *quota.Budget, devices []*device, verbs *inject.Verbs, client int) *faultRules {
	r := &faultRules{set: fault.NewSet(time.Now), devices: devices, verbs: verbs, client: client, budget: b, users: 1}
	r.set.PaidBy(payer{b})
	return r
}

// sharedRules is how many rules a session may have whose user shares the daemon. Threads that serve
// all users compare a packet, a verb or a work request of the session with sharedCompared of them
// at most.
const (
	sharedRules    = 1000
	sharedCompared = 50
)

// mostRules returns how many rules a session may have, and with how many a packet may be compared;
// 0: any number. owner says whether its user owns the daemon.
func mostRules(owner bool) (rules, compared int) {
	if owner {
		return fault.MaxRules, 0
	}
	return sharedRules, sharedCompared
}

// payer makes a budget pay for what rules keep. It implements fault.Payer, which threads of all
// users call.
type payer struct{ *quota.Budget }

func (p payer) TakeBytes(n int64) bool { return p.TakeNow(quota.Cost{Memory: n}) == nil }
func (p payer) GiveBytes(n int64)      { p.Give(quota.Cost{Memory: n}) }

// pay makes the budget pay for more, the rules of a message. texts are the rules of the messages
// before it.
func (r *faultRules) pay(texts, more []string) error {
	if len(texts)+len(more) > fault.MaxRules {
		return fmt.Errorf("more than %d fault rules", fault.MaxRules)
	}
	for _, text := range more {
		if len(text) > fault.MaxText {
			_, err := fault.Parse(text) // it says so
			return err
		}
	}
	if err := r.budget.Take(ruleCost(len(more))); err != nil {
		return fmt.Errorf("fault rules: %w", err)
	}
	return nil
}

// change changes the set with do, which adds, removes or reads rules.
func (r *faultRules) change(do func() ([]fault.Status, error)) ([]fault.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
	r.verbs.Update(r.set)
	for _, d := range r.devices {
		d.faults.Update(r.set)
	}
}

// end ends the rules with their session.
func (r *faultRules) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.set.Close()
	r.update()
}

// unuse is called by each user once. It reports whether there is none left, and clear must be
// called. Server.mu is locked.
func (r *faultRules) unuse() (last bool) {
	r.users--
	return r.users == 0
}

// clear gives back what nobody asks for any more.
func (r *faultRules) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.Clear()
	r.settle()
}

// faultTalk serves a connection about the fault rules of a session.
func (s *Server) faultTalk(conn *proto.Conn, cred unix.Ucred, u *tenant.Tenant, first *proto.Request) {
	rules, err := s.rulesOf(first.Faults, cred.Uid)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer s.endFaultTalk(rules, conn)
	var texts []string // which are paid for
	defer func() { rules.budget.Give(ruleCost(len(texts))) }()
	for req := first; ; {
		if req.Op != proto.OpFaults || req.Faults == nil || req.Faults.Session != first.Faults.Session {
			refuse(conn, errors.New("unexpected request "+req.Op))
			return
		}
		if err := rules.pay(texts, req.Faults.Rules); err != nil {
			refuse(conn, err)
			return
		}
		if texts = append(texts, req.Faults.Rules...); !req.Faults.More {
			list, err := rules.answer(req.Faults, texts, s.owns(cred.Uid))
			if texts = nil; err == nil {
				err = sendFaults(conn, u.Budget, list)
			}
			if err != nil {
				refuse(conn, err)
			}
		}
		req = new(proto.Request)
		if conn.RecvOnly(req) != nil {
			return
		}
	}
}

// sendFaults sends what rules did. The budget pays for it until the client has read it.
func sendFaults(conn *proto.Conn, budget *quota.Budget, list []fault.Status) error {
	cost := quota.Cost{Memory: socketBuffer}
	for i := range list {
		cost.Memory += statusCost + int64(len(list[i].Rule))
	}
	if cost.Memory <= smallAnswer { // also for users who have spent everything
		budget.Charge(cost)
	} else if err := budget.Take(cost); err != nil {
		return fmt.Errorf("what fault rules did: %w", err)
	}
	defer budget.Give(cost)
	text, err := json.Marshal(list)
	if err == nil {
		conn.SendText(text)
	}
	return err
}

const (
	// statusCost is what the state of a rule takes at most, without the rule's text.
	statusCost = 1 << 10
	// smallAnswer is what an answer may take that only the number of a user's connections bounds.
	smallAnswer = socketBuffer + 64<<10
)

// rulesOf returns the rules of a session that the user may change, and counts a connection.
func (s *Server) rulesOf(req *proto.FaultRequest, uid uint32) (*faultRules, error) {
	if req == nil {
		return nil, errors.New("a request about no session")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		if n.id != req.Session || uid != n.cred.Uid && !s.owns(uid) {
			continue
		}
		n.faults.users++
		s.talks++
		return n.faults, nil
	}
	return nil, fmt.Errorf("there is no session %d of user %d: gorxe status lists them", req.Session, uid)
}

func (s *Server) endFaultTalk(r *faultRules, conn *proto.Conn) {
	s.mu.Lock()
	last := r.unuse()
	s.mu.Unlock()
	if last {
		r.clear()
	}
	s.endTalk(conn)
}

// answer does what a request asks for. The budget has paid for the texts, and pays for the rules
// that are made of them from now on.
func (r *faultRules) answer(req *proto.FaultRequest, texts []string, owner bool) ([]fault.Status, error) {
	if req.Do != proto.FaultAdd {
		r.budget.Give(ruleCost(len(texts)))
	}
	switch req.Do {
	case proto.FaultAdd:
		rules, wrong := parseFaults(texts, owner)
		return r.change(func() ([]fault.Status, error) {
			r.paid += len(texts)
			switch {
			case wrong != nil:
				return nil, wrong
			case r.ended:
				return nil, errors.New("the session has ended")
			}
			if err := errors.Join(r.checkVerbs(rules), checkKills(rules, r.client)); err != nil {
				return nil, err
			}
			if r.running {
				if err := fault.Fixed(rules); err != nil {
					return nil, err
				}
			}
			return r.add(rules)
		})
	case proto.FaultRemove:
		return r.remove(req.IDs, func() ([]fault.Status, error) { return r.set.Remove(req.IDs...) })
	case proto.FaultClear:
		return r.remove(nil, func() ([]fault.Status, error) { return r.set.Clear(), nil })
	case proto.FaultList:
		return r.change(func() ([]fault.Status, error) { return r.set.Status(), nil })
	}
	return nil, errors.New("unknown request about fault rules: " + req.Do)
}

// remove removes rules with do; no ids: all of them. Limits stay while programs run.
func (r *faultRules) remove(ids []uint64, do func() ([]fault.Status, error)) ([]fault.Status, error) {
	return r.change(func() ([]fault.Status, error) {
		if r.running {
			if err := r.set.Fixed(ids...); err != nil {
				return nil, err
			}
		}
		return do()
	})
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

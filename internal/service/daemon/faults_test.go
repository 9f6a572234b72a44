package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

// ruled is a session of a daemon, and a connection about its fault rules.
func (r *running) ruled(t *testing.T) (c *proto.Client, n *session, f *proto.Faults) {
	t.Helper()
	c = r.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil || hello.Session == 0 {
		t.Fatalf("hello: %+v, %v", hello, err)
	}
	if f, err = proto.DialFaults([]string{r.cfg.Socket}, hello.Session); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	r.mu.Lock()
	defer r.mu.Unlock()
	for each := range r.sessions {
		if each.id == hello.Session {
			n = each
		}
	}
	return c, n, f
}

// without waits until a session has ended.
func (r *running) without(t *testing.T, n *session) {
	t.Helper()
	must.Eventually(t, "the session ends", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, there := r.sessions[n]
		return !there
	})
}

// TestFaults: a connection adds, lists and removes the rules of a session. It knows what they did
// when the session has ended, and the user's budget pays for them until then.
func TestFaults(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c, n, f := s.ruled(t)
	const lots = 3000 // more than a message takes
	rules := make([]string, lots)
	for i := range rules {
		rules[i] = "packet drop,opcode=RC_SEND_ONLY,first=1"
	}
	added, err := f.Add(rules)
	if err != nil || len(added) != lots || added[lots-1].ID != lots || added[0].Rule != rules[0] {
		t.Fatalf("%d rules were added: %v", len(added), err)
	}
	if _, err := f.Add([]string{"packet mark", "packet drp"}); err == nil || !strings.Contains(err.Error(), "is it drop?") {
		t.Errorf("a wrong rule: %v", err)
	}
	if _, err := f.Remove([]uint64{1, lots + 1}); err == nil {
		t.Error("a rule that is not there was removed")
	}
	if removed, err := f.Remove([]uint64{1, 2}); err != nil || len(removed) != 2 {
		t.Errorf("%d rules were removed: %v", len(removed), err)
	}
	c.Close()
	s.without(t, n)
	if _, err := f.Add([]string{"packet mark"}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a rule for a session that has ended: %v", err)
	}
	if list, err := f.List(); err != nil || len(list) != lots-2 || len(fault.Missed(list)) != len(list) {
		t.Errorf("%d rules are listed: %v", len(list), err)
	}
	if _, err := proto.DialFaults([]string{s.cfg.Socket}, 0); err == nil {
		t.Error("a session of an older daemon has rules")
	}
	later, err := proto.DialFaults([]string{s.cfg.Socket}, n.id)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if _, err := later.List(); err == nil || !strings.Contains(err.Error(), "there is no session") {
		t.Errorf("the rules of a session that has ended: %v", err)
	}
}

// TestFaultsFired: the status counts what rules did, also when their session has ended.
func TestFaultsFired(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c, n, f := s.ruled(t)
	if _, err := f.Add([]string{"verb fail,verb=query_port,errno=EIO"}); err != nil {
		t.Fatal(err)
	}
	if err := n.faults.ofFile("rxe0", 1).Verb("query_port", nil); !errors.Is(err, unix.EIO) {
		t.Errorf("the verb returns %v", err)
	}
	c.Close()
	s.without(t, n)
	if fired := s.Status().FaultsFired; !slices.Contains(fired, fault.Hits{Where: "verb", What: "fail", Fired: 1}) {
		t.Errorf("fired: %v", fired)
	}
	if fired := s.status(12345).FaultsFired; fired != nil {
		t.Errorf("another user sees %v", fired)
	}
}

// TestLimitsFixed: limits neither come nor go once a program of the session runs.
func TestLimitsFixed(t *testing.T) {
	s := startTest(t, Config{}, nil)
	_, n, f := s.ruled(t)
	if _, err := f.Add([]string{"packet mark", "limits set,max_qp=4", "limits set,max_cq=4"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Remove([]uint64{3}); err != nil {
		t.Fatal(err)
	}
	n.doorbells() // as attach does
	for what, do := range map[string]func() error{
		"add":    func() error { _, err := f.Add([]string{"limits set,max_qp=3"}); return err },
		"remove": func() error { _, err := f.Remove([]uint64{2}); return err },
		"clear":  func() error { _, err := f.Clear(); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), fault.ErrFixed.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Remove([]uint64{1}); err != nil {
		t.Errorf("a rule about packets: %v", err)
	}
	if list, err := f.List(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestFaultsPaid: the budget pays for rules from the message on that has them, and for an answer
// until the client has read it.
func TestFaultsPaid(t *testing.T) {
	s := startTest(t, Config{}, nil)
	_, n, f := s.ruled(t)
	s.mu.Lock()
	n.faults.budget = quota.New(quota.Cost{}) // which pays for nothing else
	s.mu.Unlock()
	pays := func(when string, rules int) {
		t.Helper()
		must.Eventually(t, when, func() bool { return n.faults.budget.Used() == ruleCost(rules) })
	}
	send := func(do string, more bool, rules ...string) *proto.Client {
		t.Helper()
		c := s.dial(t)
		ask := proto.FaultRequest{Do: do, Session: n.id, Rules: rules, More: more}
		if err := c.Conn.Send(proto.Request{Version: proto.ProtocolVersion, Op: proto.OpFaults, Faults: &ask}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const rule = "packet drop,first=1"
	for _, do := range []string{proto.FaultAdd, proto.FaultList, "nonsense"} {
		c := send(do, true, rule, rule)
		pays(do+": rules are on their way", 2)
		c.Close()
		pays(do+": the client has gone", 0)
	}
	for rule, why := range map[string]string{
		"packet drp": "is it drop?",
		"packet drop,name=" + strings.Repeat("x", fault.MaxText): "longer than",
	} {
		var reply proto.Reply
		if err := send(proto.FaultAdd, false, rule).Conn.RecvOnly(&reply); err != nil || !strings.Contains(reply.Error, why) {
			t.Errorf("%.20s: %q, %v", rule, reply.Error, err)
		}
		pays("a rule is refused", 0)
	}
	const lots = 1000
	if _, err := f.Add(slices.Repeat([]string{rule}, lots)); err != nil {
		t.Fatal(err)
	}
	pays("the rules are there", lots)
	unread := send(proto.FaultList, false)
	answer := func() bool { return n.tenant.Budget.Used().Memory >= lots*int64(statusCost+len(rule)) }
	must.Eventually(t, "the user pays for an answer", answer)
	unread.Close()
	must.Eventually(t, "the client has gone", func() bool { return !answer() })
	if _, err := f.Remove([]uint64{1, 2}); err != nil {
		t.Fatal(err)
	}
	pays("some rules are gone", lots-2)
	if _, err := f.Clear(); err != nil {
		t.Fatal(err)
	}
	pays("the rules are gone", 0)
}

// TestLongChange: while a session's rules change, other users come and go, and so does the session.
func TestLongChange(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c, n, f := s.ruled(t)
	n.faults.mu.Lock() // as a change does
	changed := make(chan error, 1)
	go func() {
		_, err := f.List()
		changed <- err
	}()
	served := func(what string) {
		t.Helper()
		must.Eventually(t, what+", and the daemon serves", func() bool {
			free := s.mu.TryLock()
			if free {
				s.mu.Unlock()
			}
			return free
		})
		if _, err := s.dial(t).Hello([]string{"other"}, proto.Wanted{}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	must.Eventually(t, "the daemon has the request", func() bool {
		if !s.mu.TryLock() {
			return false
		}
		defer s.mu.Unlock()
		return s.talks == 1
	})
	served("a request waits")
	c.Close()
	must.Eventually(t, "the session ends", func() bool {
		n.removed.mu.Lock()
		defer n.removed.mu.Unlock()
		return n.removed.ending
	})
	served("the session's end waits")
	n.faults.mu.Unlock()
	if err := <-changed; err != nil {
		t.Error(err)
	}
	s.without(t, n)
}

// TestKeptPackets: the budget of a session's user pays for the packets that its rules keep.
func TestKeptPackets(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 1000})
	p := payer{b}
	if !p.TakeBytes(900) || p.TakeBytes(101) || b.Used().Memory != 900 {
		t.Errorf("%+v is taken", b.Used())
	}
	p.GiveBytes(900)
	quotatest.WantGiven(t, b)
	r := newFaultRules(b, nil, nil, 1)
	if _, err := r.set.Add(fault.Rule{Where: fault.WherePacket, What: fault.Delay, Effect: fault.Effect{Time: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 12)
	hits, _ := r.set.Packet(&fault.Packet{Data: data, Mine: fault.Out}, false, nil)
	if len(hits) != 1 || hits[0].Payer() != (payer{b}) {
		t.Errorf("%d rules fire, and another one pays", len(hits))
	}
}

// TestFaultsOfOthers: only root, the daemon's user and the session's user have a session's rules,
// and of the rules for a whole device only the first two.
func TestFaultsOfOthers(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c := s.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	const other = 54321
	if _, err := s.rulesOf(&proto.FaultRequest{Session: hello.Session}, other); err == nil {
		t.Error("another user has the rules of a session")
	}
	if _, err := s.rulesOf(nil, other); err == nil {
		t.Error("a request about nothing")
	}
	if !s.owns(0) || s.owns(other) {
		t.Error("the owner is another user")
	}
	if rules, compared := mostRules(true); rules != fault.MaxRules || compared != 0 {
		t.Errorf("root may have %d rules, %d of them for one packet", rules, compared)
	}
	if rules, compared := mostRules(false); rules != sharedRules || compared != sharedCompared {
		t.Errorf("another user may have %d rules, %d of them for one packet", rules, compared)
	}
	for _, rule := range []string{
		"packet drop,scope=device", "verb fail,verb=create_qp,errno=EIO,scope=device", "completion delay,time=1ms,scope=device",
		"peer rnr,scope=device", "peer silent,scope=device", "device remove,scope=device", "port down,scope=device",
	} {
		whole := []string{rule}
		if _, err := parseFaults(whole, false); err == nil || !strings.Contains(err.Error(), "only root") {
			t.Errorf("another user sets rules for the whole device: %v", err)
		}
		if _, err := parseFaults(whole, true); err != nil {
			t.Error(err)
		}
	}
}

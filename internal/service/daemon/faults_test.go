package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestFaults: a connection adds, lists and removes the rules of a session. It knows what they did
// when the session has ended, and the user's budget pays for them until then.
func TestFaults(t *testing.T) {
	s := startTest(t, Config{}, nil)
	c := s.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil || hello.Session == 0 {
		t.Fatalf("hello: %+v, %v", hello, err)
	}
	f, err := proto.DialFaults([]string{s.cfg.Socket}, hello.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
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
	// The session's end.
	c.Close()
	eventually(t, "the session ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 0
	})
	if _, err := f.Add([]string{"packet mark"}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a rule for a session that has ended: %v", err)
	}
	if list, err := f.List(); err != nil || len(list) != lots-2 || len(fault.Missed(list)) != len(list) {
		t.Errorf("%d rules are listed: %v", len(list), err)
	}
	if _, err := proto.DialFaults([]string{s.cfg.Socket}, 0); err == nil {
		t.Error("a session of an older daemon has rules")
	}
	later, err := proto.DialFaults([]string{s.cfg.Socket}, hello.Session)
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
	c := s.dial(t)
	hello, err := c.Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := proto.DialFaults([]string{s.cfg.Socket}, hello.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Add([]string{"verb fail,verb=query_port,errno=EIO"}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	for n := range s.sessions {
		if err := n.faults.verbs("rxe0", 1).Verb("query_port", nil); !errors.Is(err, unix.EIO) {
			t.Errorf("the verb returns %v", err)
		}
	}
	s.mu.Unlock()
	c.Close()
	eventually(t, "the session ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 0
	})
	if fired := s.Status().FaultsFired; !slices.Contains(fired, fault.Hits{Where: "verb", What: "fail", Fired: 1}) {
		t.Errorf("fired: %v", fired)
	}
	if fired := s.status(12345).FaultsFired; fired != nil {
		t.Errorf("another user sees %v", fired)
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
	if !owns(0) || owns(other) {
		t.Error("the owner is another user")
	}
	whole := []string{"packet drop,scope=device"}
	if _, err := parseFaults(whole, false); err == nil || !strings.Contains(err.Error(), "only root") {
		t.Errorf("another user sets rules for the whole device: %v", err)
	}
	if _, err := parseFaults(whole, true); err != nil {
		t.Error(err)
	}
}

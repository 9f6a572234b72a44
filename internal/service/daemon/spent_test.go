package daemon

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// TestNobodyLooksForOthers: some functions are called with locks of the trap held, or in threads that serve all
// users. With a spent budget they make nobody look for what is not needed: a look takes those locks, and waits.
func TestNobodyLooksForOthers(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 1})
	if err := b.Take(quota.Cost{Memory: 1}); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(){
		"the end of a process": func() {
			r := reports{readers: 1, names: map[int]string{7: "program"}}
			if r.processEnded(b, 7, nil); len(r.ends) != 0 {
				t.Error("the end of a process is kept, which nobody pays for")
			}
		},
		"a delayed packet": func() {
			if (payer{b}).TakeBytes(1) {
				t.Error("a packet is kept, which nobody pays for")
			}
		},
	} {
		end := b.BeforeRefusal(func() { t.Errorf("%s: somebody looks", name) })
		take()
		end()
	}
}

// TestEnterLooksWithoutLock: a session whose user has nothing left holds up nobody else while others look.
func TestEnterLooksWithoutLock(t *testing.T) {
	s := startTest(t, Config{}, nil)
	u := s.tenants.Of(nobody)
	all := quota.Cost{Files: 1 << 20}
	for ; all.Files > 0; all.Files /= 2 {
		for u.Budget.TakeNow(all) == nil {
			defer u.Budget.Give(all)
		}
	}
	looked := false
	defer u.Budget.BeforeRefusal(func() {
		looked = true
		if !s.mu.TryLock() {
			t.Error("the lock of the daemon is held")
			return
		}
		s.mu.Unlock()
	})()
	n := &session{server: s.Server, log: s.log, cred: unix.Ucred{Uid: nobody}, tenant: u}
	if _, err := s.enter(n); err == nil || !looked {
		t.Errorf("without a descriptor left: %v, somebody looked: %v", err, looked)
	}
}

package daemon

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// TestNobodyLooksForOthers: some functions are called with locks of the trap held, or in threads
// that serve all users. With a spent budget they make nobody look for what is not needed: a look
// takes those locks, and waits.
func TestNobodyLooksForOthers(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 1})
	if err := b.Take(quota.Cost{Memory: 1}); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(){
		"the end of a process": func() {
			r := reports{readers: 1, names: map[int]named{7: {name: "program"}}}
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

// TestLooksWithoutLock: a session whose user has no descriptor left holds up nobody while others
// look for some.
func TestLooksWithoutLock(t *testing.T) {
	s := startTest(t, Config{}, nil)
	u := s.tenants.Of(nobody)
	n := &session{server: s.Server, log: s.log, cred: unix.Ucred{Uid: nobody}, tenant: u, mads: make(map[*madFile]struct{})}
	all := quota.Cost{Files: 1 << 20}
	for ; all.Files > 0; all.Files /= 2 {
		for u.Budget.TakeNow(all) == nil {
			defer u.Budget.Give(all)
		}
	}
	for name, c := range map[string]struct {
		lock *sync.Mutex
		take func() error
	}{
		"a session":                    {&s.mu, func() error { _, err := s.enter(n); return err }},
		"management datagrams, opened": {&n.mu, func() error { _, err := n.openMAD(s.devices[0]); return err }},
	} {
		looked := false
		end := u.Budget.BeforeRefusal(func() {
			looked = true
			if !c.lock.TryLock() {
				t.Errorf("%s: the lock is held", name)
				return
			}
			c.lock.Unlock()
		})
		if err := c.take(); err == nil || !looked {
			t.Errorf("%s: %v, somebody looked: %v", name, err, looked)
		}
		end()
	}
}

package tenant

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/trap"
)

// Limits of one user, besides the budget.
const (
	MaxSessions    = 256
	MaxConnections = MaxSessions + 64
)

// What a connection and a session cost besides the program's own processes and files. The
// descriptors of a session are the listener, trap's duplicate of it, the shared page, and two
// for direct doorbells. Threads that receive its calls and direct doorbells are taken when they
// start (package trap): an idle session has none.
var (
	connectionCost = quota.Cost{Memory: 2 << 10, Files: 1}
	sessionCost    = quota.Cost{Memory: 128 << 10, Files: 5}
)

// ErrLimit says that a user has reached a limit.
var ErrLimit = errors.New("user limit reached")

// Tenant is a user who is connected, or whose objects still exist.
type Tenant struct {
	UID     uint32
	Budget  *quota.Budget
	Threads trap.User
	Text    chan struct{} // holds an element while an answer is on its way

	all         *Tenants
	connections int // under all.mu, like sessions
	sessions    int
}

// Tenants are the users of a daemon. The methods may be called by several threads.
type Tenants struct {
	limits Limits
	owners *Owners
	budget *quota.Budget // of all

	mu   sync.Mutex // only the locks of budgets are taken under it
	byID map[uint32]*Tenant
}

// New returns the users of a daemon that has none yet. With nil owners, no user id is
// subordinate.
func New(limits Limits, owners *Owners) *Tenants {
	return &Tenants{limits: limits, owners: owners, budget: quota.NewTotal(limits.All), byID: make(map[uint32]*Tenant)}
}

// Of returns the user with a number, or the user that the number is subordinate to.
func (t *Tenants) Of(uid uint32) *Tenant {
	uid = t.owners.of(uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(uid)
}

// Is reports whether a budget is that of the user with a number.
func (t *Tenants) Is(uid uint32, b *quota.Budget) bool {
	uid = t.owners.of(uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.byID[uid]
	return u != nil && u.Budget == b
}

func (t *Tenants) of(uid uint32) *Tenant {
	u := t.byID[uid]
	if u == nil {
		u = &Tenant{UID: uid, Budget: t.budget.Share(t.limits.User), Text: make(chan struct{}, 1), all: t}
		t.byID[uid] = u
	}
	return u
}

// Len returns how many users there are.
func (t *Tenants) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	return len(t.byID)
}

// sweep forgets users who have nothing left.
func (t *Tenants) sweep() {
	for uid, u := range t.byID {
		if u.connections == 0 && u.Budget.Used() == (quota.Cost{}) {
			delete(t.byID, uid)
		}
	}
}

// Greet counts a connection of a user, unless there are too many. Dismiss undoes it. The
// connections of a user's subordinate ids are the user's.
func (t *Tenants) Greet(uid uint32) (*Tenant, error) {
	uid = t.owners.of(uid)
	t.mu.Lock()
	t.sweep()
	u := t.of(uid)
	n := u.connections
	if n < MaxConnections {
		u.connections++
	}
	t.mu.Unlock()
	if n >= MaxConnections {
		return nil, fmt.Errorf("%w: user %d has %d connections", ErrLimit, uid, n)
	}
	if err := u.Budget.Take(connectionCost); err != nil { // without the lock: it may wait
		u.count(&u.connections, -1)
		return nil, u.refused("a connection", err)
	}
	return u, nil
}

// count adds n to one of u's numbers.
func (u *Tenant) count(number *int, n int) {
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	*number += n
}

// Dismiss undoes Greet.
func (u *Tenant) Dismiss() {
	u.Budget.Give(connectionCost)
	u.count(&u.connections, -1)
}

// Enter counts a session of the user, unless there are too many. Leave undoes it.
func (u *Tenant) Enter() error {
	u.all.mu.Lock()
	n := u.sessions
	if n < MaxSessions {
		u.sessions++
	}
	u.all.mu.Unlock()
	if n >= MaxSessions {
		return fmt.Errorf("%w: user %d has %d sessions", ErrLimit, u.UID, n)
	}
	if err := u.Budget.Take(sessionCost); err != nil { // without the lock: it may wait
		u.count(&u.sessions, -1)
		return u.refused("a session", err)
	}
	return nil
}

// refused says that a budget has no room, and which setting bounds it.
func (u *Tenant) refused(what string, err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: user %d, the files of %s: %w; all of the daemon's files are bounded by RLIMIT_NOFILE (ulimit -n, LimitNOFILE=)",
			ErrLimit, u.UID, what, err)
	default:
		return fmt.Errorf("%w: user %d, %s: %w", ErrLimit, u.UID, what, err)
	}
}

// Leave undoes Enter.
func (u *Tenant) Leave() {
	u.Budget.Give(sessionCost)
	u.count(&u.sessions, -1)
}

package daemon

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/trap"
)

// Default limits of one user: a share of the daemon's resources that is enough for a queue
// pair of the largest size.
const (
	leastUserMemory = 1 << 30
	memoryShare     = 4
	filesShare      = 4
)

// UserMemory returns the default limit of the daemon's memory that programs of one user may
// take, in bytes.
func UserMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return leastUserMemory
	}
	return max(leastUserMemory, int64(info.Totalram)*int64(info.Unit)/memoryShare)
}

// userFiles returns how many of the daemon's descriptors they may take.
func userFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur/filesShare, 1<<20))
}

// tenant is a user who is connected, or whose objects still exist.
type tenant struct {
	budget      *quota.Budget
	threads     trap.User
	connections int
	sessions    int
	text        chan struct{} // holds an element while an answer is on its way
}

// tenants maps user numbers to tenants.
type tenants struct {
	limit quota.Cost
	byID  map[uint32]*tenant
}

func newTenants(memory int64) tenants {
	if memory == 0 {
		memory = UserMemory()
	}
	return tenants{quota.Cost{Memory: memory, Files: userFiles()}, make(map[uint32]*tenant)}
}

// of returns the user with that number.
func (t *tenants) of(uid uint32) *tenant {
	u := t.byID[uid]
	if u == nil {
		u = &tenant{budget: quota.New(t.limit), text: make(chan struct{}, 1)}
		t.byID[uid] = u
	}
	return u
}

// sweep forgets users who have nothing left.
func (t *tenants) sweep() {
	for uid, u := range t.byID {
		if u.connections == 0 && u.budget.Used() == (quota.Cost{}) {
			delete(t.byID, uid)
		}
	}
}

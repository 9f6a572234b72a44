package tenant

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// These are a user's share, and that of all users. What remains covers memory that the
// budgets only estimate, and the descriptors with which the daemon refuses a user.
const (
	share        = 4
	allNumerator = 3 // of share: what all users may take
	reserveFiles = 64
)

// Limits are what users may take.
type Limits struct {
	User, All quota.Cost
	Memory    Memory  // what the memory is a share of
	Threads   Threads // what the threads are a share of
}

// Find returns the limits in a process that uses files descriptors itself, and may use
// the memory m and the threads t. If memory is not 0, it is a user's share of the memory.
// A quarter of the threads is for the devices and for Go.
func Find(m Memory, t Threads, memory int64, files int) Limits {
	l := Limits{Memory: m, Threads: t}
	l.All.Threads = max(1, t.Count/share*allNumerator)
	l.User.Threads = max(1, t.Count/share)
	l.All.Memory = m.Bytes / share * allNumerator
	l.User.Memory = m.Bytes / share
	if memory != 0 {
		l.User.Memory = memory
		l.All.Memory = max(l.All.Memory, memory)
	}
	l.All.Files = max(1, OpenLimit()-files-reserveFiles)
	l.User.Files = max(1, l.All.Files/share)
	return l
}

// OpenLimit returns how many descriptors this process may have.
func OpenLimit() int {
	const most = 4 << 20 // larger limits count as none
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	return int(min(limit.Cur, most))
}

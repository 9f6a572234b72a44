package tenant

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// A user's share of what there is. All users together leave a part of the memory to what the
// budgets only estimate, and descriptors to say no with.
const (
	share        = 4
	allNumerator = 3 // of share: what all users may take
	reserveFiles = 64
)

// Limits are what users may take.
type Limits struct {
	User, All quota.Cost
	Memory    Memory  // what the memory is a share of
	Threads   Threads // likewise
}

// Find returns the limits in a process that has files descriptors open for itself, and may use
// m and t. A user's memory is forced to memory bytes, if that is not 0. A quarter of the threads
// is for the devices and for Go.
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
	l.All.Files = max(1, openLimit()-files-reserveFiles)
	l.User.Files = max(1, l.All.Files/share)
	return l
}

// openLimit returns how many descriptors this process may have.
func openLimit() int {
	const most = 4 << 20 // what counts as no limit
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	return int(min(limit.Cur, most))
}

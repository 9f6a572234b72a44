package tenant

import (
	"io/fs"
	"math"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Threads is how many threads a process may have, and the setting that says so.
type Threads struct {
	Count int
	Bound string
}

// goThreads is with how many threads Go ends a program (runtime/debug.SetMaxThreads).
const goThreads = 10_000

// Process returns how many threads this process may have by Go's limit and by RLIMIT_NPROC.
func Process() Threads {
	debug.SetMaxThreads(goThreads) // nothing else in gorxe changes the default
	t := Threads{goThreads, "Go's limit of threads"}
	var limit unix.Rlimit
	// The kernel does not apply RLIMIT_NPROC to root (copy_process of kernel/fork.c).
	if unix.Getuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil {
		t = t.least(int64(min(limit.Cur, math.MaxInt32)), "RLIMIT_NPROC (ulimit -u, LimitNPROC=)")
	}
	return t
}

// Within returns the least of t, the limits of this process's control groups on processes, and
// the kernel's limits. A limit that it cannot read does not count. Files is the root directory.
func (t Threads) Within(files fs.FS) Threads {
	names := []string{"pids.max"}
	groupFiles(files, "pids", names, names, func(name string) {
		if n, ok := readLimit(files, name); ok {
			t = t.least(n, name+" (TasksMax=)")
		}
	})
	for _, name := range []string{"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"} {
		if n, ok := readLimit(files, name); ok {
			t = t.least(n, name)
		}
	}
	return t
}

func (t Threads) least(n int64, bound string) Threads {
	if n < int64(t.Count) {
		return Threads{int(n), bound}
	}
	return t
}

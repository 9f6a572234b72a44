package tenant

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

func limits(files int) Limits {
	return Limits{User: quota.Cost{Memory: 1 << 30, Files: files}, All: quota.Cost{Memory: 3 << 30, Files: 3 * files}}
}

func TestTenants(t *testing.T) {
	all := New(limits(100), nil)
	one, err := all.Greet(1)
	if err != nil {
		t.Fatal(err)
	}
	if all.Of(1) != one || all.Of(2) == one {
		t.Error("users are confused")
	}
	if n := all.Len(); n != 1 {
		t.Errorf("%d users have something, want 1", n)
	}
	if err := one.Enter(); err != nil {
		t.Fatal(err)
	}
	one.Leave()
	one.Dismiss()
	if n := all.Len(); n != 0 || one.Budget.Used() != (quota.Cost{}) {
		t.Errorf("at the end %d users, %+v", n, one.Budget.Used())
	}
}

// Connections and sessions are taken of the user's descriptors. So a daemon with 1,024 of
// them, like one with more, has some for others.
func TestDescriptors(t *testing.T) {
	all := New(Find(Memory{Bytes: 1 << 30}, Threads{Count: 1 << 20}, 0, OpenLimit()-reserveFiles-960), nil)
	for uid := range uint32(3) {
		sessions := 0
		var err error
		for err == nil {
			var u *Tenant
			if u, err = all.Greet(uid); err == nil {
				if err = u.Enter(); err == nil {
					sessions++
				}
			}
		}
		if !errors.Is(err, ErrLimit) || !errors.Is(err, unix.EMFILE) || !errors.Is(err, quota.ErrSpent) {
			t.Errorf("user %d, after %d sessions: %v", uid, sessions, err)
		}
		if !strings.Contains(err.Error(), "LimitNOFILE=") {
			t.Errorf("the refusal does not name the setting: %v", err)
		}
		if want := 960 / 4 / 6; sessions != want { // a connection has one, a session five
			t.Errorf("user %d has %d sessions, want %d", uid, sessions, want)
		}
	}
	// All of them together leave the reserve.
	var err error
	for uid := uint32(3); err == nil; uid++ {
		_, err = all.Greet(uid)
	}
	if !errors.Is(err, quota.ErrTotalSpent) {
		t.Errorf("users without end: %v", err)
	}
	if used := all.budget.Used().Files; used != 960 {
		t.Errorf("%d descriptors are taken of 960", used)
	}
}

func TestMaxima(t *testing.T) {
	all := New(limits(1<<20), nil)
	var u *Tenant
	for range MaxConnections {
		var err error
		if u, err = all.Greet(7); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.Greet(7); !errors.Is(err, ErrLimit) {
		t.Errorf("one connection more: %v", err)
	}
	for range MaxSessions {
		if err := u.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Enter(); !errors.Is(err, ErrLimit) {
		t.Errorf("one session more: %v", err)
	}
}

// A session takes no thread before it has work. The threads of a user are a quarter of those of the
// daemon, and those of all users three quarters.
func TestThreads(t *testing.T) {
	const threads = 2300 // of the daemon
	l := Find(Memory{Bytes: 1 << 40}, Threads{threads, "pids.max of a test"}, 0, OpenLimit()-reserveFiles-1<<20)
	all := New(l, nil)
	thread := quota.Cost{Threads: 1}
	taken := 0
	var refused error
	for uid := range uint32(5) {
		u, err := all.Greet(uid)
		if err != nil {
			t.Fatal(err)
		}
		for range MaxSessions {
			if err := u.Enter(); err != nil {
				t.Fatalf("an idle session of user %d: %v", uid, err)
			}
		}
		own := 0
		for err = u.Budget.Take(thread); err == nil; err = u.Budget.Take(thread) {
			own++
		}
		if own > threads/4 {
			t.Errorf("user %d has %d threads", uid, own)
		}
		taken += own
		refused = err
	}
	if taken > threads*3/4 || taken < threads/2 {
		t.Errorf("%d threads are taken of %d", taken, threads)
	}
	if !errors.Is(refused, quota.ErrTotalSpent) || !errors.Is(refused, unix.EAGAIN) {
		t.Errorf("the last user: %v", refused)
	}
}

// What a person's subordinate ids take is the person's.
func TestSubordinates(t *testing.T) {
	files := fstest.MapFS{
		"etc/passwd": {Data: []byte("root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n")},
		"etc/subuid": {Data: []byte("ann:100000:65536\n1001:165536:10\nnobody-knows:1:1000\n# no line\nann:x:y\n")},
	}
	all := New(limits(1<<20), NewOwners(files))
	ann := all.Of(1000)
	for uid, want := range map[uint32]bool{1000: true, 100_000: true, 165_535: true, 165_536: false, 99_999: false, 0: false, 5: false} {
		if got := all.Of(uid) == ann; got != want {
			t.Errorf("user %d is ann: %v", uid, got)
		}
	}
	if all.Of(165_545) != all.Of(1001) {
		t.Error("an owner that is a number is not found")
	}
	for i := range uint32(MaxConnections) {
		if _, err := all.Greet(100_000 + i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.Greet(1000); !errors.Is(err, ErrLimit) {
		t.Errorf("one connection more: %v", err)
	}
	// A range that is added later counts from then on.
	files["etc/subuid"] = &fstest.MapFile{Data: []byte("ann:300000:65536\n"), ModTime: time.Unix(1, 0)}
	if ann = all.Of(1000); all.Of(300_000) != ann || all.Of(100_000) == ann {
		t.Error("the file was not read again")
	}
}

// How many threads there may be is the least of Go's limit, the process's, the control groups'
// and the kernel's.
func TestThreadsWithin(t *testing.T) {
	if p := Process(); p.Count <= 0 || p.Count > goThreads || p.Bound == "" {
		t.Errorf("the process: %+v", p)
	}
	const mounts = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	for name, c := range map[string]struct {
		group string
		files map[string]string
		want  Threads
	}{
		"nothing":   {"0::/a\n", nil, Threads{1000, "Go"}},
		"unlimited": {"0::/a\n", map[string]string{"sys/fs/cgroup/a/pids.max": "max\n"}, Threads{1000, "Go"}},
		"own":       {"0::/a\n", map[string]string{"sys/fs/cgroup/a/pids.max": "500\n"}, Threads{500, "/sys/fs/cgroup/a/pids.max (TasksMax=)"}},
		"parent's":  {"0::/a/b\n", map[string]string{"sys/fs/cgroup/a/b/pids.max": "max\n", "sys/fs/cgroup/a/pids.max": "400\n"}, Threads{400, "/sys/fs/cgroup/a/pids.max (TasksMax=)"}},
		"version 1": {"8:pids:/p\n", map[string]string{"sys/fs/cgroup/pids/p/pids.max": "300\n"}, Threads{300, "/sys/fs/cgroup/pids/p/pids.max (TasksMax=)"}},
		"kernel":    {"0::/a\n", map[string]string{"proc/sys/kernel/threads-max": "200\n"}, Threads{200, "/proc/sys/kernel/threads-max"}},
	} {
		files := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.group)}, "proc/self/mountinfo": {Data: []byte(mounts)}}
		for file, text := range c.files {
			files[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := (Threads{1000, "Go"}).Within(files); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

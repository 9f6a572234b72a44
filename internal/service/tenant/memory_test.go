package tenant

import (
	"os"
	"strconv"
	"testing"
	"testing/fstest"
)

// What a process may use is the least of the machine and all control groups above it.
func TestMemoryWithin(t *testing.T) {
	const (
		v2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
		v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
		// mounted after all others
		sysfs = "50 23 0:40 / /sys rw - sysfs sysfs rw\n"
		sub   = "31 23 0:28 /user.slice /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	)
	parent := "proc/" + strconv.Itoa(os.Getppid())
	for _, c := range []struct {
		name, group, mounts string
		files               map[string]string
		want                Memory
	}{
		{"no control groups", "", "", nil, Memory{1000, "machine"}},
		{"own limit", "0::/a/b\n", v2, map[string]string{"sys/fs/cgroup/a/b/memory.max": "500\n"},
			Memory{500, "/sys/fs/cgroup/a/b/memory.max"}},
		{"the parent's is lower", "0::/a/b\n", v2, map[string]string{
			"sys/fs/cgroup/a/b/memory.max": "500\n", "sys/fs/cgroup/a/memory.max": "400\n", "sys/fs/cgroup/c/memory.max": "1\n"},
			Memory{400, "/sys/fs/cgroup/a/memory.max"}},
		{"throttled before", "0::/a\n", v2, map[string]string{
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.high": "300\n"}, Memory{300, "/sys/fs/cgroup/a/memory.high"}},
		{"more than the machine has", "0::/a\n", v2, map[string]string{"sys/fs/cgroup/a/memory.max": "5000\n"}, Memory{1000, "machine"}},
		{"version 1", "8:pids:/x\n4:memory:/p\n0::/\n", v1 + v2, map[string]string{
			"sys/fs/cgroup/memory/p/memory.limit_in_bytes": "200\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
			Memory{200, "/sys/fs/cgroup/memory/p/memory.limit_in_bytes"}},
		{"a container's mount", "0::/user.slice/u\n", sub, map[string]string{"sys/fs/cgroup/u/memory.max": "100\n"},
			Memory{100, "/sys/fs/cgroup/u/memory.max"}},
		{"a group outside of the mount", "0::/../x\n", v2, map[string]string{"sys/fs/cgroup/memory.max": "90\n"},
			Memory{90, "/sys/fs/cgroup/memory.max"}},
		{"ip netns exec", "0::/a\n", sysfs, map[string]string{"proc/1/mountinfo": v2, "proc/1/root/sys/fs/cgroup/a/memory.max": "80\n"},
			Memory{80, "/proc/1/root/sys/fs/cgroup/a/memory.max"}},
		{"its parent", "0::/a\n", sysfs, map[string]string{parent + "/mountinfo": v2, parent + "/root/sys/fs/cgroup/a/memory.max": "60\n"},
			Memory{60, "/" + parent + "/root/sys/fs/cgroup/a/memory.max"}},
		{"covered", "0::/a\n", v2 + sysfs, map[string]string{"proc/1/mountinfo": v2, "proc/1/root/sys/fs/cgroup/a/memory.max": "70\n"},
			Memory{70, "/proc/1/root/sys/fs/cgroup/a/memory.max"}},
	} {
		files := fstest.MapFS{
			"proc/self/cgroup":    {Data: []byte(c.group)},
			"proc/self/mountinfo": {Data: []byte(c.mounts)},
		}
		for name, text := range c.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := (Memory{1000, "machine"}).Within(files); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	if m := Machine(); m.Bytes <= 0 {
		t.Errorf("machine: %+v", m)
	}
	// No floor: a service with MemoryMax=1G is not killed for one user.
	l := Find(Memory{1 << 30, "memory.max"}, Threads{Count: 1000}, 0, 20)
	if l.User.Memory != 256<<20 || l.All.Memory != 768<<20 {
		t.Errorf("of 1 GiB: %+v", l)
	}
	if want := OpenLimit() - 20 - reserveFiles; l.All.Files != want || l.User.Files != want/4 {
		t.Errorf("files: %+v", l)
	}
	if l := Find(Memory{1 << 30, ""}, Threads{Count: 1000}, 1<<40, 0); l.User.Memory != 1<<40 || l.All.Memory != 1<<40 {
		t.Errorf("with --user-memory: %+v", l)
	}
	if l := Find(Memory{1 << 30, ""}, Threads{Count: 1000}, 1<<20, 1<<30); l.User.Memory != 1<<20 || l.All.Memory != 768<<20 || l.User.Files != 1 {
		t.Errorf("with few files: %+v", l)
	}
}

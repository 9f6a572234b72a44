package doctor

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

const libs = "usr/lib/x86_64-linux-gnu/"

// sound returns a host without a fault.
func sound() *Host {
	return &Host{
		Files: fstest.MapFS{
			"proc/self/status":                     {Data: []byte("Name:\tgorxe\nSeccomp:\t0\nSeccomp_filters:\t0\n")},
			libs + "libibverbs.so.1.14.56.1":       {},
			libs + "libibverbs/librxe-rdmav57.so":  {},
			libs + "libibverbs/libmlx5-rdmav57.so": {},
			libs + "librdmacm.so.1.3.56.1":         {},
			"usr/lib64/libibverbs.so.1":            {},
			"usr/lib64/libibverbs/librxe-rdmav.so": {},
		},
		Release: "6.12.9-amd64", CPUs: 2, OpenFiles: 1 << 20, Space: unix.RLIM_INFINITY,
		JoinClass:     func() error { return nil },
		SeccompAction: func() error { return nil },
		ReadMemory:    func() error { return nil },
		Faults:        func() error { return nil },
		Addresses: func() ([]Address, error) {
			return []Address{{netip.MustParseAddr("192.0.2.7"), "eth0", false}, {netip.MustParseAddr("fe80::7"), "eth0", false}}, nil
		},
		Bind:         func(Address) error { return nil },
		SocketOption: func(int) error { return nil },
		Trial:        func() error { return nil },
	}
}

func (h *Host) with(name, text string) {
	h.Files.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(text)}
}

// without removes the files whose names have a part.
func (h *Host) without(part string) {
	files := h.Files.(fstest.MapFS)
	for name := range files {
		if strings.Contains(name, part) {
			delete(files, name)
		}
	}
}

func TestSoundHost(t *testing.T) {
	findings := sound().Examine()
	for _, f := range findings {
		if f.Level != OK || f.Remedy != "" || f.Text == "" || f.Subject == "" {
			t.Errorf("%+v", f)
		}
	}
	if Worst(findings) != OK || len(findings) != 18 {
		t.Errorf("%d findings, the worst is %v", len(findings), Worst(findings))
	}
}

// Each fault is one finding, with a remedy, and no other finding changes.
// TestDoorbells: they are trapped by default on one processor.
func TestDoorbells(t *testing.T) {
	for cpus, want := range map[int]string{1: "trapped", 2: "direct"} {
		h := sound()
		h.CPUs = cpus
		if f := h.doorbells()[0]; f.Level != OK || !strings.HasPrefix(f.Text, want) {
			t.Errorf("%d processors: %+v", cpus, f)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(h *Host)
		subject string
		level   Level
		says    string
		remedy  string
	}{
		"old kernel":       {func(h *Host) { h.Release = "5.10.0-30-amd64" }, "kernel", Failure, "5.10.0-30-amd64", "5.14"},
		"kernel, signals":  {func(h *Host) { h.Release = "5.15.0" }, "kernel", Warning, "signal", "5.19"},
		"kernel, slow":     {func(h *Host) { h.Release = "6.1.0" }, "kernel", Note, "post_send", "6.6"},
		"kernel, unknown":  {func(h *Host) { h.Release = "six" }, "kernel", Warning, "six", "5.14"},
		"seccomp refused":  {func(h *Host) { h.SeccompAction = errnoOf(unix.EPERM) }, "seccomp", Failure, "forbidden", "profile"},
		"no seccomp":       {func(h *Host) { h.SeccompAction = errnoOf(unix.ENOSYS) }, "seccomp", Failure, "not implemented", "CONFIG_SECCOMP_FILTER"},
		"under a filter":   {func(h *Host) { h.with("proc/self/status", "Seccomp:\t2\n") }, "seccomp", Note, "already", "another listener"},
		"no userfaultfd":   {func(h *Host) { h.Faults = errnoOf(unix.EPERM) }, "an adapter's doorbells", Note, "polled (operation not permitted)", "5.19"},
		"scope 3":          {func(h *Host) { h.with("proc/sys/kernel/yama/ptrace_scope", "3\n"); h.TracesAll = true }, "programs' memory", Failure, "is 3", "boot"},
		"scope 2":          {func(h *Host) { h.with("proc/sys/kernel/yama/ptrace_scope", "2\n") }, "programs' memory", Failure, "is 2", "CAP_SYS_PTRACE"},
		"scope 1":          {func(h *Host) { h.with("proc/sys/kernel/yama/ptrace_scope", "1\n") }, "programs' memory", Note, "is 1", "CAP_SYS_PTRACE"},
		"no process_vm":    {func(h *Host) { h.ReadMemory = errnoOf(unix.EPERM) }, "programs' memory", Warning, "process_vm_readv", "profile"},
		"scope 1, sandbox": {func(h *Host) { h.with("proc/sys/kernel/yama/ptrace_scope", "1\n"); h.ReadMemory = errnoOf(unix.ENOSYS) }, "programs' memory", Warning, "process_vm_readv", "profile"},
		"few files":        {func(h *Host) { h.OpenFiles = 1000 }, "open files", Warning, "1000", "LimitNOFILE"},
		"no files":         {func(h *Host) { h.OpenFiles = 64 }, "open files", Failure, "64", "ulimit"},
		"little space":     {func(h *Host) { h.Space = 2 << 30 }, "address space", Failure, "2048 MiB", "ulimit -v"},
		"one processor":    {func(h *Host) { h.CPUs = 1 }, "processors", Note, "1:", "second"},
		"no real time":     {func(h *Host) { h.JoinClass = errnoOf(unix.EPERM) }, "real-time class", Note, "not permitted", "LimitRTPRIO"},
		"no library":       {func(h *Host) { h.without("libibverbs.so") }, "libibverbs", Warning, "not found", "apt install"},
		"old library":      {func(h *Host) { h.with(libs+"libibverbs.so.1.14.44.0", "") }, "libibverbs", Note, "rdma-core 44", "55"},
		"no provider":      {func(h *Host) { h.without("librxe") }, "librxe", Warning, "no provider", "ibverbs-providers"},
		"no mlx5":          {func(h *Host) { h.without("libmlx5") }, "libmlx5", Note, "not found", "ibverbs-providers"},
		"no CM library":    {func(h *Host) { h.without("librdmacm") }, "librdmacm", Note, "not found", "librdmacm1"},
		"no address":       {func(h *Host) { h.Addresses = func() ([]Address, error) { return nil, errors.New("no address at all") } }, "interface", Failure, "no address at all", "ip link set lo up"},
		"interface down": {func(h *Host) {
			h.Addresses = func() ([]Address, error) { return []Address{{netip.MustParseAddr("127.0.0.1"), "lo", true}}, nil }
		}, "interface", Warning, "lo is down", "ip link set lo up"},
		"port taken": {func(h *Host) { h.Bind = taken("fe80::7") }, "UDP port 4791", Note, "fe80::7", "another address"},
		"rdma_rxe": {func(h *Host) { h.Bind = taken("192.0.2.7"); h.with("sys/module/rdma_rxe/refcnt", "0\n") },
			"UDP port 4791", Warning, "rdma_rxe", "rdma link delete"},
		"port forbidden": {func(h *Host) { h.Bind = func(Address) error { return unix.EACCES } }, "UDP port 4791", Warning, "permission denied", "policy"},
		"no GSO":         {func(h *Host) { h.SocketOption = lacks(unix.UDP_SEGMENT) }, "UDP offloads", Warning, "UDP_SEGMENT", "5.0"},
		"no GRO":         {func(h *Host) { h.SocketOption = lacks(unix.UDP_GRO) }, "UDP offloads", Warning, "UDP_GRO", "5.0"},
		"trial":          {func(h *Host) { h.Trial = func() error { return errors.New("gorxe: another listener\n") } }, "a program", Failure, "another listener", "--log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			c.fault(h)
			findings := h.Examine()
			for _, f := range findings {
				switch {
				case f.Subject != c.subject:
					// What needs that which failed is left out, and says so.
					left := f.Level == Note && strings.HasPrefix(f.Text, "left out, because of "+c.subject+": ")
					if f.Level != OK && (!left || c.level != Failure) {
						t.Errorf("besides: %+v", f)
					}
					if f.Subject == "a program" && c.level == Failure && !left {
						t.Errorf("%s failed, and still: %+v", c.subject, f)
					}
				case f.Level != c.level || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Remedy, c.remedy):
					t.Errorf("%+v", f)
				}
			}
			if Worst(findings) != c.level {
				t.Errorf("the worst is %v", Worst(findings))
			}
		})
	}
}

// A control group may have less memory than the machine.
func TestMemoryLimit(t *testing.T) {
	h := sound()
	h.with("proc/self/cgroup", "0::/job\n")
	h.with("proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	h.with("sys/fs/cgroup/job/memory.max", "67108864\n")
	f := h.memoryLimit()
	if f.Level != Warning || !strings.Contains(f.Text, "64 MiB") || !strings.Contains(f.Text, "memory.max") || f.Remedy == "" {
		t.Errorf("%+v", f)
	}
}

// The findings on this machine are plausible, and a second examination has the same ones.
func TestThisHost(t *testing.T) {
	h, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	h.Trial = func() error { return nil }
	h.Bind = func(Address) error { return nil } // other tests use the port
	first := h.Examine()
	second := h.Examine()
	for i, f := range first {
		if f != second[i] {
			t.Errorf("%+v, and then %+v", f, second[i])
		}
	}
	if major, _, ok := release(h.Release); !ok || major < 5 {
		t.Errorf("the kernel is %q", h.Release)
	}
	if err := h.ReadMemory(); err != nil {
		t.Error(err)
	}
	if err := h.SocketOption(unix.UDP_SEGMENT); err != nil {
		t.Error(err)
	}
	if h.SocketOption(999) == nil {
		t.Error("UDP has an option 999")
	}
}

func errnoOf(err error) func() error { return func() error { return err } }

func taken(addr string) func(Address) error {
	return func(a Address) error {
		if a.Addr == netip.MustParseAddr(addr) {
			return unix.EADDRINUSE
		}
		return nil
	}
}

func lacks(option int) func(int) error {
	return func(o int) error {
		if o == option {
			return unix.ENOPROTOOPT
		}
		return nil
	}
}

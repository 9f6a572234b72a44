package trap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// compile builds a C program of testdata, static, with musl.
func compile(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(worldDir(t), name)
	cmd := exec.Command(tool(t, "musl-gcc"), "-static", "-O1", "-o", out, filepath.Join("testdata", name+".c"))
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	return out
}

// worldDir is a directory that every user may enter.
func worldDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gorxe-trap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStaticProgram(t *testing.T) {
	h := newFakes(t)
	run(t, options{host: h}, compile(t, "old"))
	h.allClosed(t)
	if got := h.rings.Load(); got != 8 {
		t.Errorf("%d writes of 8", got)
	}
}

// TestChroot: in a root that has neither /sys nor /dev nor /proc the devices are
// there all the same.
func TestChroot(t *testing.T) {
	asRoot(t)
	h := newFakes(t)
	exe := compile(t, "old")
	run(t, options{host: h, chroot: filepath.Dir(exe)}, "/old")
	h.allClosed(t)
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may do that")
	}
}

// TestUnprivileged runs the tests again as an ordinary user, the serving side
// included.
func TestUnprivileged(t *testing.T) {
	asRoot(t)
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir := worldDir(t)
	exe = filepath.Join(dir, "trap.test")
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout=10m",
		"-test.run=^Test(Files|Descriptors|LowLimit|Signals|Threads|Forks|Kill|Stop|Stall|InnocentDoorbell|Exec|IbvDevices|IbvDevinfo|Space.*)$")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- PASS: Test"); n < 10 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}

// TestForbiddenProcessVM runs tests again where a sandbox refuses
// process_vm_readv and process_vm_writev.
func TestForbiddenProcessVM(t *testing.T) {
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout=10m",
		"-test.run=^Test(Files|Descriptors|Exec|IbvDevinfo|Pingpong)$")
	cmd.Env = append(os.Environ(), forbidEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "process_vm_readv is refused") {
		t.Errorf("it was not forbidden:\n%s", out)
	}
}

const forbidEnv = "GORXE_TRAP_FORBID"

// forbidProcessVM is such a sandbox, for this process and its children.
func forbidProcessVM() error {
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PROCESS_VM_READV, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PROCESS_VM_WRITEV, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestTracers: a program can be looked at while it is behind the filter.
func TestTracers(t *testing.T) {
	for _, command := range []string{
		"strace -f -o /dev/null ibv_devices",
		"gdb -q -batch -ex run --args ibv_devices 2>/dev/null",
	} {
		name, _, _ := strings.Cut(command, " ")
		t.Run(name, func(t *testing.T) {
			tool(t, name)
			if out := run(t, options{}, "/bin/bash", "-c", command); !strings.Contains(out, "rxe0") {
				t.Errorf("%s\n%s", command, out)
			}
		})
	}
}

// TestTools: what people use to look around works as on a host with the device.
func TestTools(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"ls /sys/class/infiniband", "rxe0\n"},
		{"ls -l /dev/infiniband/uverbs0 | cut -c1-10,11-20", "crw-rw-rw-"},
		{"ls -lR /sys/class/infiniband/rxe0/ports >/dev/null && echo ok", "ok\n"},
		{"ls -la /dev/infiniband/ /sys/class/infiniband/ | grep -c ' \\.\\.$'", "2\n"},
		{"stat -c %F /sys/class/infiniband/..", "directory\n"},
		{"cat /sys/class/infiniband/*/node_type", "1: CA\n"},
		{"cd / && cat sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n"},
		{"find /sys/class/infiniband_verbs/ -name 'uverbs*'", "/sys/class/infiniband_verbs/uverbs0\n"},
		{"find -L /sys/class/infiniband/rxe0/ports/1 -name 'pkeys' -type d", "/sys/class/infiniband/rxe0/ports/1/pkeys\n"},
		{"grep -r ACTIVE /sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n"},
		{"test -c /dev/infiniband/uverbs0 && test -r /dev/infiniband/uverbs0 && echo yes", "yes\n"},
		{"test -e /dev/infiniband/rdma_cm || echo no", "no\n"},
		{"readlink -f /sys/class/infiniband/rxe0", "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0\n"},
		{"realpath /sys/class/infiniband/rxe0/ports", "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0/ports\n"},
		{"stat -c %t:%T /dev/infiniband/uverbs0", "e7:c0\n"},
		{"stat -f -c %T /sys/class/infiniband", "sysfs\n"},
		{"head -c 4 /sys/class/infiniband/rxe0/node_type", "1: C"},
		{"wc -l < /sys/class/infiniband/rxe0/node_type", "1\n"},
		{"dd if=/sys/class/infiniband/rxe0/node_type status=none", "1: CA\n"},
		{"d=$(mktemp -d) && cp -r /sys/class/infiniband/rxe0/ports/1/gids $d && cat $d/gids/0; rm -r $d", "0000:0000:0000:0000:0000:ffff:c000:0201\n"},
		{"d=$(mktemp -d) && cp --preserve=all /sys/class/infiniband/rxe0/node_type $d && stat -c %a $d/node_type; rm -r $d", "444\n"},
		{"/usr/bin/python3 -c 'import os; f=open(\"/sys/class/infiniband/rxe0/node_type\"); print(os.path.samestat(os.fstat(f.fileno()), os.stat(f.name)))'", "True\n"},
		{"tar -C /sys/class/infiniband/rxe0/ports/1 -c pkeys/0 2>/dev/null | tar -t", "pkeys/0\n"},
		{"/usr/bin/python3 -c 'f=[open(\"/sys/class/infiniband/rxe0/node_type\") for _ in range(300)]; print({x.read() for x in f})'", "{'1: CA\\n'}\n"},
		{"echo x 2>/dev/null >/sys/class/infiniband/rxe0/node_type || echo refused", "refused\n"},
		{"cd /sys/class/infiniband 2>/dev/null || echo refused", "refused\n"},
		{"/usr/bin/python3 -c 'import os; print(os.listdir(\"/sys/class/infiniband\"))'", "['rxe0']\n"},
		{"/usr/bin/python3 -c 'import os; fd=os.open(\"/sys/class/infiniband_verbs\", os.O_RDONLY); print(sorted(os.listdir(fd)))'", "['abi_version', 'uverbs0']\n"},
	} {
		t.Run("", func(t *testing.T) {
			p := start(t, options{}, "/bin/bash", "-c", tt.command)
			out := p.wait()
			if p.err.Len() > 0 {
				t.Errorf("%s says: %s", tt.command, p.err.String())
			}
			if !strings.HasSuffix(strings.TrimSpace(out), strings.TrimSpace(tt.want)) && !strings.HasPrefix(out, tt.want) {
				t.Errorf("%s\n%q, want %q", tt.command, out, tt.want)
			}
		})
	}
}

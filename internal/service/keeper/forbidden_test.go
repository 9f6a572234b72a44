package keeper

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// mainForbid runs a command that is forbidden a system call, as by a sandbox: with
// this number and first argument; any, if that is -1.
func mainForbid(args []string) {
	number, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		panic(err)
	}
	first, err := strconv.ParseInt(args[1], 10, 32)
	if err != nil {
		panic(err)
	}
	// Offsets in struct seccomp_data: number 0, first argument 16.
	jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: uint32(first)}
	if first < 0 {
		jump.Jf = 1
	}
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 2, K: uint32(number)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		jump,
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	const tsync = unix.SECCOMP_FILTER_FLAG_TSYNC
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, tsync, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		panic(errno)
	}
	panic(syscall.Exec(self, args[2:], os.Environ()))
}

// What a sandbox forbids is named, with what to do about it.
func TestForbidden(t *testing.T) {
	tests := []struct {
		name          string
		number, first int // see mainForbid
	}{
		{"PR_SET_CHILD_SUBREAPER", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER},
		{"memfd_create", unix.SYS_MEMFD_CREATE, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := newStage(t).run("true")
			cmd.Args = append([]string{cmd.Args[0], "forbid", strconv.Itoa(tt.number), strconv.Itoa(tt.first), "gorxe"}, cmd.Args[1:]...)
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != ExitFailed {
				t.Errorf("exit code %d (%v)", code, err)
			}
			for _, w := range []string{tt.name, "sandbox", "seccomp profile"} {
				if !strings.Contains(string(out), w) {
					t.Errorf("%q lacks %q", out, w)
				}
			}
		})
	}
}

// In a chroot, /proc may be missing.
func TestNoProc(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := newStage(t).run("true")
	cmd.Path = unshare
	cmd.Args = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh", exe}, cmd.Args[1:]...)
	if os.Geteuid() != 0 {
		cmd.Args = slices.Insert(cmd.Args, 1, "-r")
	}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(string(out), "/proc is not mounted") {
		t.Errorf("%q", out)
	}
}

// A shell that is not there is one that SHELL names.
func TestNoShell(t *testing.T) {
	run := newStage(t).run()
	run.Env = append(run.Env, "SHELL=/no/such/shell")
	out, _ := run.CombinedOutput()
	if code := run.ProcessState.ExitCode(); code != ExitNotFound {
		t.Errorf("exit code %d", code)
	}
	if got := string(out); !strings.Contains(got, "SHELL") || !strings.Contains(got, "/no/such/shell") {
		t.Errorf("%q", got)
	}
}

package interpose

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeeper(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	mem, err := KeepMem(pidfd)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	s := newSpace(dupFD(t, int(mem.Fd())), cmd.Process.Pid, new(Held))
	defer s.release()
	if !s.alive() {
		t.Error("the memory is not the child's")
	}
	null, err := statID(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := KeepStat(pidfd, 0); err != nil || id != null {
		t.Errorf("KeepStat: %v, %v; want %v", id, err, null)
	}
	if _, err := KeepStat(pidfd, 77); !errors.Is(err, unix.ENOENT) {
		t.Errorf("KeepStat of nothing: %v", err)
	}
	if err := CheckAccess(cmd.Process.Pid); err != nil {
		t.Errorf("CheckAccess: %v", err)
	}

	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := KeepMem(pidfd); !errors.Is(err, unix.ESRCH) {
		t.Errorf("KeepMem of an ended process: %v", err)
	}
	if err := CheckAccess(cmd.Process.Pid); err == nil {
		t.Error("CheckAccess of an ended process")
	}
}

// TestKeeperStrangers: nothing but the keeper's own descendants is opened.
func TestKeeperStrangers(t *testing.T) {
	for _, pid := range []int{1, os.Getppid()} {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := KeepMem(pidfd); !errors.Is(err, unix.EPERM) {
			t.Errorf("KeepMem of %d: %v", pid, err)
		}
		if _, err := KeepStat(pidfd, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("KeepStat of %d: %v", pid, err)
		}
		unix.Close(pidfd)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := KeepMem(int(r.Fd())); err == nil {
		t.Error("KeepMem of what is not a pidfd")
	}
}

func TestNoAccess(t *testing.T) {
	err := noAccess(unix.EACCES)
	if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
		t.Errorf("%v", err)
	}
}

func TestStatus(t *testing.T) {
	st, err := readStatus(os.Getpid())
	want := status{tgid: os.Getpid(), ppid: os.Getppid(), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if err != nil || st != want {
		t.Errorf("%+v, %v; want %+v", st, err, want)
	}
	if _, err := readStatus(0); !errors.Is(err, errInvisible) {
		t.Errorf("thread 0: %v", err)
	}
	if s := stamp(os.Getpid()); len(strings.Fields(s)) != 7 {
		t.Errorf("stamp %q", s)
	}
	if s := stamp(-1); s != "" {
		t.Errorf("stamp of nothing %q", s)
	}
}

// Who is refused hears which setting does it, and what is to be done.
func TestWhyNoAccess(t *testing.T) {
	for scope, want := range map[string][]string{
		"":  {"another user", "CAP_SYS_PTRACE"},
		"0": {"another user", "CAP_SYS_PTRACE"},
		"1": {"ptrace_scope is 1", "ancestor", "set the value to 0", "CAP_SYS_PTRACE"},
		"2": {"ptrace_scope is 2", "set it to 0 or 1", "CAP_SYS_PTRACE"},
		"3": {"ptrace_scope is 3", "boot"},
	} {
		got := whyNoAccess(scope)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("scope %q: %q lacks %q", scope, got, w)
			}
		}
		// Neither a right nor a new value helps against 3 (yama_dointvec_minmax,
		// yama_ptrace_access_check).
		if scope == "3" && (strings.Contains(got, "CAP_") || strings.Contains(got, "set it")) {
			t.Errorf("scope 3: %q", got)
		}
	}
}

package trap

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/procmem"
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
	fd, err := unix.FcntlInt(mem.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := procmem.New(fd, cmd.Process.Pid, new(procmem.User))
	defer s.Release()
	if !s.Alive() {
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
	if err := procmem.CheckAccess(cmd.Process.Pid); err != nil {
		t.Errorf("CheckAccess: %v", err)
	}

	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := KeepMem(pidfd); !errors.Is(err, unix.ESRCH) {
		t.Errorf("KeepMem of an ended process: %v", err)
	}
	if err := procmem.CheckAccess(cmd.Process.Pid); err == nil {
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

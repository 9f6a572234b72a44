package procfs

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEndOf: how a process ended is known before its parent asks, and on Linux 6.15 afterward, too.
func TestEndOf(t *testing.T) {
	for command, want := range map[string]unix.WaitStatus{"kill -KILL $$": unix.WaitStatus(unix.SIGKILL), "exit 7": 7 << 8} {
		cmd := exec.Command("sh", "-c", command)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfd)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				break
			}
		}
		if ws, ok := EndOf(pid, pidfd); !ok || ws != want {
			t.Errorf("%s: a zombie ended with %#x, %v; want %#x", command, ws, ok, want)
		}
		_ = cmd.Wait() // want says how it ends
		if ws, ok := EndOf(pid, pidfd); ok && ws != want {
			t.Errorf("%s: a process that is gone ended with %#x, want %#x", command, ws, want)
		}
	}
}

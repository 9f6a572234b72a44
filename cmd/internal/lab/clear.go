package lab

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/program"
)

// How long the processes that programs have left may take to end: by themselves, as daemons do, and
// then after SIGKILL.
const (
	leftGrace = 3 * time.Second
	killGrace = 2 * time.Second
	leftLook  = 20 * time.Millisecond
)

// Adopt makes this process the parent of processes whose own parent has ended, so that ClearUp
// finds them.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	return nil
}

// ClearUp waits until the daemons have ended, and kills what is left of the programs.
func ClearUp() {
	if left(leftGrace, false) {
		left(killGrace, true)
	}
}

// left waits until no process is left below this one, and reports whether some still are after the
// time. It kills them if that is wanted.
func left(grace time.Duration, kill bool) bool {
	for end := time.Now().Add(grace); ; time.Sleep(leftLook) {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		below := program.Family(os.Getpid())[1:]
		switch {
		case len(below) == 0:
			return false
		case time.Now().After(end):
			return true
		}
		for _, pid := range below {
			if kill {
				unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it may have ended
			}
		}
	}
}

package daemon

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// victim is a process that a fault rule may kill.
type victim struct {
	pid     int
	started string // empty: it is not known, and the process is not killed
}

func newVictim(pid int) victim { return victim{pid, procfs.Started(pid)} }

// kill ends the process.
func (v victim) kill() { v.signal(unix.SIGKILL) }

// signal sends a signal, unless the process has ended. Another one that has got its number gets
// none.
func (v victim) signal(number unix.Signal) {
	fd, err := unix.PidfdOpen(v.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if v.started != "" && procfs.Started(v.pid) == v.started {
		_ = unix.PidfdSendSignal(fd, number, nil, 0) // it may have ended
	}
}

// errMayNotKill refuses a rule.
var errMayNotKill = errors.New("peer killed: the daemon may not send signals to this user's programs: it needs CAP_KILL, or to be of the same user")

// checkKills reports whether rules that kill can do so.
func checkKills(rules []fault.Rule, client int) error {
	for i := range rules {
		if rules[i].What == fault.Killed && errors.Is(unix.Kill(client, 0), unix.EPERM) {
			return errMayNotKill
		}
	}
	return nil
}

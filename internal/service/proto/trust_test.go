package proto

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTrusted(t *testing.T) {
	for _, tt := range []struct {
		daemon   unix.Ucred
		own      uint32
		allUsers bool
		want     bool
	}{
		{unix.Ucred{Pid: 7, Uid: 0}, 0, true, true},
		{unix.Ucred{Pid: 7, Uid: 0}, 1000, true, true},
		{unix.Ucred{Pid: 7, Uid: 1000}, 1000, true, true},
		{unix.Ucred{Pid: 7, Uid: 1000}, 0, true, false},
		{unix.Ucred{Pid: 7, Uid: 1000}, 1001, true, false},
		{unix.Ucred{Pid: 7, Uid: overflowUID}, 0, true, false},
		{unix.Ucred{Pid: 0, Uid: overflowUID}, 0, true, false},
		// In a container with a user namespace.
		{unix.Ucred{Pid: 7, Uid: overflowUID}, 0, false, false},
		{unix.Ucred{Pid: 0, Uid: overflowUID}, 0, false, true},
		{unix.Ucred{Pid: 0, Uid: 1000}, 0, false, false},
		{unix.Ucred{Pid: 7, Uid: overflowUID}, overflowUID, false, true},
	} {
		if got := trusted(tt.daemon, tt.own, tt.allUsers); got != tt.want {
			t.Errorf("user %d trusts process %d of user %d (all users: %t): %t", tt.own, tt.daemon.Pid, tt.daemon.Uid, tt.allUsers, got)
		}
	}
}

package keeper

import (
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// TestUnasked: a daemon that a run has started ends with that run, if the run dies before it has a session. A later run does not
// join it.
func TestUnasked(t *testing.T) {
	s := newStage(t)
	run := search{paths: []string{s.socket}, cfg: Config{DeviceFlags: []string{"--device", "rxe0=" + s.addr}}}
	if err := run.startPrivate(); err != nil {
		t.Fatal(err)
	}
	client, err := proto.Dial(run.paths)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	st, err := client.Status()
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(st.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	run.close()
	waitEnd(t, pidfd)
	if c := s.dial(); c != nil {
		t.Error("the daemon is left")
	}
}

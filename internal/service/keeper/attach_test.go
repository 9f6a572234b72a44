package keeper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// TestBesideForbidden: a run that can have no daemon names the one that refused its user.
func TestBesideForbidden(t *testing.T) {
	taken := errors.New("UDP port taken")
	refused := fmt.Errorf("%w; %w", proto.ErrNoDaemon, &proto.ForbiddenError{Path: "/run/gorxe.sock", Why: "for user root only"})
	if got := besideForbidden(refused, taken).Error(); !strings.HasPrefix(got, "socket /run/gorxe.sock: for user root only") || !strings.Contains(got, ".\nA daemon of this user cannot serve either: UDP port taken") {
		t.Error(got)
	}
	if got := besideForbidden(proto.ErrNoDaemon, taken); got != taken {
		t.Error(got)
	}
}

// TestUnasked: a daemon that a run has started ends with that run, if the run dies before it has a
// session. A later run does not join it.
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

// TestKilledOfContainer: the daemon that a container runtime has started was killed. A program that
// comes then has none, and learns what helps. A daemon that a run of the container has started is
// replaced.
func TestKilledOfContainer(t *testing.T) {
	s := newStage(t)
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	cfg := Config{Socket: s.socket, Container: true, DeviceFlags: []string{"--device", "rxe0=" + s.addr}}
	if _, _, err := attach(cfg, []string{"program"}); err == nil || !strings.Contains(err.Error(), "was killed: restart the container") {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.socket+proto.LockSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	client, _, err := attach(cfg, []string{"program"})
	if err != nil {
		t.Fatal(err)
	}
	client.Finish()
}

package hosts

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestAllow: a chroot is told by its root, which is not a mount point.
func TestAllow(t *testing.T) {
	const proc = "52 50 0:22 / /proc rw,relatime shared:9 - proc proc rw\n"
	const root = "50 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	for mounts, chroot := range map[string]bool{"": false, root + proc: false, proc: true} {
		if got := allow(mounts); strings.Contains(got, "chroot") != chroot || !strings.Contains(got, "run as root") {
			t.Errorf("%q: %s", mounts, got)
		}
	}
}

// envInside is the variable with the socket of TestEnter for the program inside.
const envInside = "GORXE_TEST_INSIDE"

// TestEnter: a signal to the process outside ends its context, and the program inside hears of it.
func TestEnter(t *testing.T) {
	const code = 7
	if path := os.Getenv(envInside); path != "" {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		conn, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(1)
		}
		go func() {
			conn.Read(make([]byte, 1)) //nolint:errcheck // the test has given up
			os.Exit(1)
		}()
		<-signals
		os.Exit(code)
	}
	path := filepath.Join(t.TempDir(), "s")
	t.Setenv(envInside, path)
	l := must.Get[net.Listener](t)(net.Listen("unix", path))
	ctx, cancel := context.WithCancel(t.Context())
	var (
		got   int
		err   error
		ended = make(chan struct{})
	)
	go func() {
		defer close(ended)
		got, err = Enter(ctx, "the test", []string{"-test.run=^TestEnter$"})
		l.Close()
	}()
	conn, failure := l.Accept()
	cancel()
	if failure == nil {
		conn.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // Read says more
		conn.Read(make([]byte, 1))                        //nolint:errcheck // it returns at the end of the program
		conn.Close()
	}
	<-ended
	switch {
	case err != nil:
		t.Skip(err) // this user may make no namespaces here
	case got != code:
		t.Errorf("exit code %d", got)
	}
}

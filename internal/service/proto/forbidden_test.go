package proto

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestForbidden: a socket that refuses this user says whom it is for, and whether a daemon is there
// at all.
func TestForbidden(t *testing.T) {
	if got := allowed(0o600, 0, 0); !strings.Contains(got, "for user root only") || !strings.Contains(got, "--socket-group") {
		t.Errorf("the owner's socket: %s", got)
	}
	if got := allowed(0o660, 0, 4000000000); got != "it is for group 4000000000: ask for membership" {
		t.Errorf("a group's socket: %s", got)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	for _, left := range []bool{false, true} {
		if left {
			l.Close()
		}
		err := fmt.Errorf("x: %w", forbidden(path))
		var forbidden *ForbiddenError
		if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &forbidden) || forbidden.Path != path ||
			strings.Contains(err.Error(), "remove the file") != left {
			t.Errorf("left %v: %v", left, err)
		}
	}
}

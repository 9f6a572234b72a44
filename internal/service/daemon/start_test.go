package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// TestFailedStart: a daemon whose UDP port is taken says so each time that it tries, and leaves the
// capture as it was.
func TestFailedStart(t *testing.T) {
	spec := testSpec("rxe0")
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: spec.Address.AsSlice(), Port: wire.UDPPort})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for _, c := range []struct {
		name     string
		text     string // of the file before; none: there is no file
		prepared bool
	}{{"prepared", "", true}, {"old", "of an earlier run", false}, {"new", "none", false}} {
		path := filepath.Join(dir, c.name)
		if c.text != "none" {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := Config{Socket: filepath.Join(dir, "s"), SocketMode: 0o600, Devices: []proto.Spec{spec}, Capture: path}
		if c.prepared {
			cfg.CaptureMax = 1 << 20
		}
		for try := range 2 {
			if s, err := Start(cfg); err == nil {
				s.release() //nolint:errcheck // the test fails
				t.Errorf("%s, try %d: the port is taken, and the daemon started", c.name, try)
			} else if !errors.Is(err, rocev2.ErrPortTaken) {
				t.Errorf("%s, try %d: %v", c.name, try, err)
			}
		}
		text, err := os.ReadFile(path)
		if c.text == "none" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the file is there, with %q: %v", c.name, text, err)
			}
		} else if err != nil || string(text) != c.text {
			t.Errorf("%s: the file has %q: %v", c.name, text, err)
		}
	}
}

package daemon

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestFreeAddress: devices at free addresses do not meet, and the daemon says where they are. A
// device of lo of a private daemon is at such an address if the port is taken, and a shared daemon
// refuses to start.
func TestFreeAddress(t *testing.T) {
	free := []proto.Spec{proto.FreeSpec(0), proto.FreeSpec(1)}
	seen := make(map[netip.Addr]bool)
	for range 2 {
		s := startTest(t, Config{Devices: free}, nil)
		hello, err := s.dial(t).Hello(nil, proto.Wanted{Devices: free})
		if err != nil {
			t.Fatal(err)
		}
		if hello.Address != hello.Devices[0].Address {
			t.Errorf("the address is %v, of %v", hello.Address, hello.Devices)
		}
		for _, d := range hello.Devices {
			if !d.Free || !d.Address.IsLoopback() || seen[d.Address] {
				t.Errorf("%+v, beside %v", d, seen)
			}
			seen[d.Address] = true
		}
	}
	if free[0].Address.IsValid() {
		t.Error("the daemon has changed its caller's devices")
	}
	lo := []proto.Spec{{Name: "rxe0", Interface: "lo"}}
	holder, err := Start(Config{Devices: lo, Socket: filepath.Join(t.TempDir(), "s")})
	if err == nil {
		defer holder.release() //nolint:errcheck // it was not run
	} // or else the port is taken by something else
	s := startTest(t, Config{Devices: lo, Private: true}, nil)
	hello, err := s.dial(t).Hello(nil, proto.Wanted{Devices: lo})
	if err != nil || !hello.Devices[0].Free || hello.Devices[0].Name != "rxe0" || !hello.Address.IsLoopback() {
		t.Errorf("a second device of lo: %+v, %v", hello, err)
	}
	if _, err := Start(Config{Devices: lo, Socket: filepath.Join(t.TempDir(), "s")}); err == nil {
		t.Error("a shared daemon has another address than it was told")
	}
}

// TestElsewhere: a private daemon is for one network namespace. A shared one is for all that reach
// its socket.
func TestElsewhere(t *testing.T) {
	for _, private := range []bool{true, false} {
		s := startTest(t, Config{Private: private}, nil)
		if _, err := s.dial(t).Hello(nil, proto.Wanted{Network: proto.ThisNetwork()}); err != nil {
			t.Error(err)
		}
		_, err := s.dial(t).Hello(nil, proto.Wanted{Network: proto.ThisNetwork() + 1, Capture: "x"})
		if errors.Is(err, proto.ErrElsewhere) != private {
			t.Errorf("private %v: %v", private, err)
		}
	}
}

// TestPrivateSocket: no two are the same, and what a daemon left that was killed is removed. That
// of one that runs is not.
func TestPrivateSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a*[b") // a name is no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir) // root's are in /run
	live, err := proto.PrivateSocket()
	if err != nil {
		t.Fatal(err)
	}
	startTest(t, Config{Socket: live, Private: true}, nil)
	dead, err := proto.PrivateSocket()
	if err != nil || dead == live {
		t.Fatalf("%s, %s, %v", live, dead, err)
	}
	for _, name := range []string{dead, dead + ".lock"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := proto.PrivateSocket(); err != nil {
		t.Fatal(err)
	}
	if got := proto.PrivateSockets(); !slices.Contains(got, live) || slices.Contains(got, dead) {
		t.Errorf("private runs are at %q, want %s and not %s", got, live, dead)
	}
	for name, want := range map[string]bool{live: true, live + ".lock": true, dead: false, dead + ".lock": false} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

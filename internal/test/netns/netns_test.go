package netns

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

func hosts(t *testing.T) (a, b *Host) {
	t.Helper()
	var err error
	if a, err = New(); err == nil {
		t.Cleanup(a.Close)
		b, err = New()
	}
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	t.Cleanup(b.Close)
	return a, b
}

// TestCable: what one host says the other hears, and this process's own
// namespace does not.
func TestCable(t *testing.T) {
	a, b := hosts(t)
	if err := Cable(a, b, 4500, netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("10.77.0.2/24")); err != nil {
		t.Fatal(err)
	}
	var server net.Listener
	err := b.Do(func() (err error) {
		server, err = net.Listen("tcp", "10.77.0.2:18000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := a.Do(func() error {
		c, err := net.Dial("tcp", "10.77.0.2:18000")
		if err == nil {
			c.Close()
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if l, err := net.Listen("tcp", "10.77.0.2:18000"); err == nil {
		l.Close()
		t.Error("this process has the address of a host")
	}
	if Listens(os.Getpid(), 18000) {
		t.Error("a listener in another namespace is seen here")
	}
}

func TestListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if !Listens(os.Getpid(), port) {
		t.Errorf("port %d is not seen", port)
	}
	l.Close()
	if Listens(os.Getpid(), port) {
		t.Errorf("port %d is still seen", port)
	}
}

func TestZeroHost(t *testing.T) {
	called := false
	var h Host
	if err := h.Do(func() error { called = true; return nil }); err != nil || !called {
		t.Errorf("%v, called: %v", err, called)
	}
	h.Close()
	if err := h.IP("no such command"); err == nil {
		t.Error("a failure of ip is not told")
	}
}

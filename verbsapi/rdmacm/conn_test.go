package rdmacm

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/wire"
)

func listen(t testing.TB, address string) *Listener {
	t.Helper()
	l, err := Listen(testContext(t), address)
	must.OK(t, err)
	t.Cleanup(l.Close)
	return l
}

// accepted is what a goroutine that accepts reports.
type accepted struct {
	conn *Conn
	asks string // the client's private data
	err  error
}

// accept accepts one connection, in a goroutine.
func accept(t testing.TB, l *Listener, cfg Config) <-chan accepted {
	result := make(chan accepted, 1)
	ctx := testContext(t)
	go func() {
		r, err := l.Accept(ctx)
		if err != nil {
			result <- accepted{err: err}
			return
		}
		asks := text(r.PrivateData())
		c, err := r.Accept(ctx, cfg)
		result <- accepted{c, asks, err}
	}()
	return result
}

// TestDial: a client and a server connect, exchange messages, and each learns that the
// other one ends.
func TestDial(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hosts func(t *testing.T) (server, client *host)
	}{
		{"one device", func(t *testing.T) (_, _ *host) { h := newHost(t); return h, h }},
		{"two devices", func(t *testing.T) (_, _ *host) { return newHost(t), newHost(t) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := tt.hosts(t)
			l := listen(t, a.at(0).String())
			serving := accept(t, l, a.config("welcome"))
			client, err := Dial(testContext(t), l.Addr().String(), b.config("hello"))
			must.OK(t, err)
			server := <-serving
			must.OK(t, server.err)
			if server.asks != "hello" || text(client.PrivateData()) != "welcome" || len(client.PrivateData()) != 196 {
				t.Errorf("private data %q and %q", server.asks, client.PrivateData())
			}
			if client.RemoteAddr() != server.conn.LocalAddr() || client.LocalAddr() != server.conn.RemoteAddr() {
				t.Errorf("addresses %v to %v, at the server %v to %v", client.LocalAddr(), client.RemoteAddr(),
					server.conn.RemoteAddr(), server.conn.LocalAddr())
			}
			if a != b {
				b.send(client.QP(), "ping", verbsapi.SendWR{})
				b.expect(8)
				a.expect(7)
				if got := string(a.mr.Bytes()[2000:2004]); got != "ping" {
					t.Errorf("received %q", got)
				}
				a.send(server.conn.QP(), "pong", verbsapi.SendWR{})
				a.expect(8)
				b.expect(7)
			}
			must.OK(t, client.Close())
			<-server.conn.Done()
			<-client.Done()
			must.OK(t, server.conn.Close())
			must.OK(t, server.conn.Close())
		})
	}
}

// TestRefused: what a client learns if there is no connection.
func TestRefused(t *testing.T) {
	a, b := newHost(t), newHost(t)
	_, err := Dial(testContext(t), a.at(7200).String(), b.config(""))
	if rejected := new(RejectedError); !errors.As(err, &rejected) || rejected.Reason != wire.RejectInvalidServiceID {
		t.Errorf("nobody listens: %v", err)
	}

	l := listen(t, a.at(0).String())
	rejecting := make(chan error, 1)
	go func() {
		r, err := l.Accept(testContext(t))
		if err == nil {
			err = r.Reject([]byte("not today"))
		}
		rejecting <- err
	}()
	_, err = Dial(testContext(t), l.Addr().String(), b.config(""))
	must.OK(t, <-rejecting)
	if rejected := new(RejectedError); !errors.As(err, &rejected) || rejected.Reason != wire.RejectConsumer ||
		text(rejected.PrivateData) != "not today" || len(rejected.PrivateData) != 148 {
		t.Errorf("rejected: %v", err)
	}

	// A domain of another device than the address leads to.
	serving := accept(t, l, b.config(""))
	if _, err := Dial(testContext(t), l.Addr().String(), a.config("")); err == nil {
		t.Error("the server has accepted with a domain of another device")
	}
	if s := <-serving; !errors.Is(s.err, ErrInvalid) {
		t.Errorf("server: %v", s.err)
	}

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(canceled, l.Addr().String(), b.config("")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestBadAddresses(t *testing.T) {
	h := newHost(t)
	for _, tt := range []struct {
		address string
		want    error
	}{
		{"nothing", nil},
		{"127.0.0.1:http", ErrInvalid},
		{"127.0.0.1:65536", ErrInvalid},
		{"192.0.2.1:7471", unix.EADDRNOTAVAIL},
	} {
		if l, err := Listen(testContext(t), tt.address); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			if err == nil {
				l.Close()
			}
			t.Errorf("%s: %v, want %v", tt.address, err, tt.want)
		}
	}
	l := listen(t, h.at(0).String())
	// The kernel takes loopback addresses for wildcards here.
	if second, err := Listen(testContext(t), l.Addr().String()); !errors.Is(err, unix.EADDRNOTAVAIL) {
		if err == nil {
			second.Close()
		}
		t.Errorf("an address that is in use: %v", err)
	}
}

// TestResolveAddr: what addresses mean, as text.
func TestResolveAddr(t *testing.T) {
	for _, tt := range []struct {
		address, want string
		err           error
	}{
		{"10.0.0.2:7471", "10.0.0.2:7471", nil},
		{"[::ffff:10.0.0.2]:7471", "10.0.0.2:7471", nil},
		{"[fe80::1%eth0]:7471", "[fe80::1%eth0]:7471", nil},
		{":7471", "[::]:7471", nil},
		{"127.0.0.1:http", "invalid AddrPort", ErrInvalid},
		{"127.0.0.1:65536", "invalid AddrPort", ErrInvalid},
	} {
		if got, err := ResolveAddr(t.Context(), tt.address); got.String() != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v; want %s, %v", tt.address, got, err, tt.want, tt.err)
		}
	}
}

// TestListenerCloses: a goroutine in Accept, and a client whose request nobody fetched,
// learn it.
func TestListenerCloses(t *testing.T) {
	a, b := newHost(t), newHost(t)
	l, err := Listen(testContext(t), a.at(0).String())
	must.OK(t, err)
	dialed := make(chan error, 1)
	go func() {
		_, err := Dial(testContext(t), l.Addr().String(), b.config(""))
		dialed <- err
	}()
	must.Eventually(t, "a request comes", func() bool { return l.id.undelivered.Load() > 0 })
	l.Close()
	if rejected := new(RejectedError); !errors.As(<-dialed, &rejected) {
		t.Error("the client was not refused")
	}
	if _, err := l.Accept(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}

// TestDeviceCloses: both ends of a connection learn that a device is gone.
func TestDeviceCloses(t *testing.T) {
	a, b := newHost(t), newHost(t)
	l := listen(t, a.at(0).String())
	serving := accept(t, l, a.config(""))
	client, err := Dial(testContext(t), l.Addr().String(), b.config(""))
	must.OK(t, err)
	server := <-serving
	must.OK(t, server.err)
	must.OK(t, a.pd.Context().Close())
	<-server.conn.Done()
	<-client.Done()
	server.conn.Close() //nolint:errcheck // its device is closed
	client.Close()      //nolint:errcheck // its device is closed
}

// TestLaterDevice: a wildcard listener hears a device that is opened after it.
func TestLaterDevice(t *testing.T) {
	l := listen(t, ":0")
	h := newHost(t)
	serving := accept(t, l, h.config(""))
	client, err := Dial(testContext(t), h.at(l.Addr().Port()).String(), h.config(""))
	must.OK(t, err)
	server := <-serving
	must.OK(t, server.err)
	must.OK(t, client.Close())
	must.OK(t, server.conn.Close())
}

// Package verbstest makes RDMA devices for one Go test. They are on loopback addresses that
// no other test uses, and are closed when the test ends. If the test fails, a capture of each
// device's packets is kept, and the test's log names it.
//
//	func TestWrite(t *testing.T) {
//		client, server := verbstest.Pair(t, verbstest.Config{})
//		...
//		client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{client.SGE(0, 64)},
//			RemoteAddr: server.MR.Addr(), RKey: server.MR.RKey()})
//		client.Await(1)
//	}
package verbstest

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/verbsapi"
)

// EnvCaptures names a directory for the captures of tests that fail. Without it they are in
// the directory for temporary files.
const EnvCaptures = "GORXE_CAPTURES"

// Open opens a device for the test. It fills in what cfg leaves out: an address of its own,
// a capture, and a log that goes to the test's. The device
// is closed when the test ends. If cfg.Sanitize has found an error, the test fails with its report.
func Open(t testing.TB, cfg verbsapi.Config) *verbsapi.Context {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	captures := cfg.Tap == nil
	var ctx *verbsapi.Context
	open := func(address netip.Addr) (err error) {
		cfg.Address = address
		if captures {
			cfg.Tap = startCapture(t, address)
		}
		ctx, err = verbsapi.Open(cfg)
		return err
	}
	var err error
	if cfg.Interface != "" || cfg.Address.IsValid() {
		err = open(cfg.Address)
	} else {
		err = rocev2.OnFreeLoopback(open)
	}
	if err != nil {
		t.Fatalf("no device for the test: %v", err)
	}
	t.Cleanup(func() {
		// The others are notes of a program that may be right.
		if m := ctx.Misuse(); m.Errors > 0 {
			t.Errorf("misuse of the device at %v:\n%s", ctx.Addr(), m.Text)
		} else if m.Warnings > 0 {
			t.Logf("the device at %v:\n%s", ctx.Addr(), m.Text)
		}
		if err := ctx.Close(); err != nil && !errors.Is(err, verbsapi.ErrClosed) {
			t.Errorf("closing the device at %v: %v", ctx.Addr(), err)
		}
	})
	return ctx
}

// startCapture starts the capture of a device. It is removed if the test passes. Cleanup functions
// run last first, so that the device is closed before it.
func startCapture(t testing.TB, addr netip.Addr) *rocev2.Tap {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(EnvCaptures), "gorxe-")
	if err != nil {
		t.Fatalf("a directory for the capture (%s): %v", EnvCaptures, err)
	}
	name := strings.ReplaceAll(t.Name(), "/", "_")
	if addr.IsValid() {
		name += "-" + addr.String()
	}
	path := filepath.Join(dir, name+".pcapng")
	tap, err := rocev2.OpenTap(path, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Errorf("capture: %v", err)
		}
		if t.Failed() {
			t.Logf("packets of the device at %v: gorxe pcap check %s", addr, path)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Errorf("capture: %v", err)
		}
	})
	return tap
}

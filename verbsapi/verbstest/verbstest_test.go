package verbstest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/verbsapi"
)

func TestPair(t *testing.T) {
	for _, typ := range []verbsapi.QPType{verbsapi.QPRC, verbsapi.QPUC} {
		client, server := Pair(t, Config{Type: typ})
		copy(client.Buffer, "hello")
		server.PostRecv(7, 0, 64)
		client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRSend, SGL: []verbsapi.SGE{client.SGE(0, 5)}})
		client.Await(1)
		if wc := server.Await(7); wc.ByteLen != 5 || string(server.Buffer[:5]) != "hello" {
			t.Errorf("%v: received %d bytes, %q", typ, wc.ByteLen, server.Buffer[:5])
		}
	}
	client, _ := Pair(t, Config{})
	client.Post(verbsapi.SendWR{ID: 2, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{client.SGE(0, 1)}})
	client.AwaitStatus(2, verbsapi.WCRemAccessErr)
}

// TestPairLike: both devices look like the adapter.
func TestPairLike(t *testing.T) {
	client, server := Pair(t, Config{Like: "connectx6"})
	for _, e := range []*End{client, server} {
		if attr, err := e.Context.QueryDevice(); err != nil || attr.VendorPartID != 4123 {
			t.Errorf("%+v, %v", attr, err)
		}
	}
	client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRSend, SGL: []verbsapi.SGE{client.SGE(0, 5)}})
	server.PostRecv(7, 0, 64)
	client.Await(1)
	server.Await(7)
}

// Devices of one test, and of parallel ones, have addresses of their own.
func TestOpen(t *testing.T) {
	seen := make(map[netip.Addr]bool)
	for range 8 {
		ctx := Open(t, verbsapi.Config{})
		if a := ctx.Addr(); seen[a] || !a.IsLoopback() || a == netip.MustParseAddr("127.0.0.1") {
			t.Errorf("a device at %v", a)
		}
		seen[ctx.Addr()] = true
	}
	fixed := netip.AddrFrom4([4]byte{127, 3, byte(os.Getpid() >> 8), byte(os.Getpid())})
	if ctx := Open(t, verbsapi.Config{Address: fixed}); ctx.Addr() != fixed {
		t.Errorf("a device at %v", ctx.Addr())
	}
}

const envInner = "GORXE_VERBSTEST_INNER"

// TestInner is run by TestCapture, in a process of its own.
func TestInner(t *testing.T) {
	how := os.Getenv(envInner)
	if how == "" {
		return
	}
	client, server := Pair(t, Config{})
	server.PostRecv(7, 0, 64)
	client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRSend, SGL: []verbsapi.SGE{client.SGE(0, 5)}})
	client.Await(1)
	server.Await(7)
	if how == "fail" {
		t.Error("as asked")
	}
}

// The captures of a test that fails are kept, and have its packets. Those of one that passes
// are not.
func TestCapture(t *testing.T) {
	for how, fails := range map[string]bool{"pass": false, "fail": true} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestInner$", "-test.v")
		cmd.Env = append(os.Environ(), envInner+"="+how, EnvCaptures+"="+dir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if failed := errors.As(err, &exit); failed != fails || !failed && err != nil {
			t.Fatalf("%s: %v\n%s", how, err, out)
		}
		kept, err := filepath.Glob(dir + "/*/*.pcapng")
		if err != nil || len(kept) != map[bool]int{true: 2}[fails] {
			t.Fatalf("%s: %v is kept (%v)\n%s", how, kept, err, out)
		}
		if !fails {
			continue
		}
		for _, path := range kept {
			if !strings.Contains(string(out), "gorxe pcap check "+path+"\n") {
				t.Errorf("the log does not name %s:\n%s", path, out)
			}
			if n := packets(t, path); n != 2 {
				t.Errorf("the capture has %d packets, want a SEND and its ACK", n)
			}
		}
	}
}

func packets(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if err := r.Next(new(capture.Packet)); err != nil {
			return n
		}
		n++
	}
}

// fakeT records what a test would be told.
type fakeT struct {
	testing.TB
	said strings.Builder
}

type ended struct{}

func (f *fakeT) Fatalf(format string, args ...any) {
	fmt.Fprintf(&f.said, format, args...)
	panic(ended{})
}
func (f *fakeT) Helper() {}

// What goes wrong is said in words.
func TestRefused(t *testing.T) {
	client, server := Pair(t, Config{Depth: 2})
	for want, do := range map[string]func(*End){
		"post_send took 0 of 1 work requests": func(e *End) {
			e.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRSend, SGL: make([]verbsapi.SGE, 99)})
		},
		"want work request 5": func(e *End) {
			e.Post(verbsapi.SendWR{ID: 4, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{e.SGE(0, 1)}, RemoteAddr: server.MR.Addr(), RKey: server.MR.RKey()})
			e.Await(5)
		},
	} {
		fake := &fakeT{TB: t}
		e := *client
		e.t = fake
		func() {
			defer func() {
				if r := recover(); r != nil && r != (ended{}) {
					panic(r)
				}
			}()
			do(&e)
		}()
		if !strings.Contains(fake.said.String(), want) {
			t.Errorf("said %q, want %q", fake.said.String(), want)
		}
	}
}

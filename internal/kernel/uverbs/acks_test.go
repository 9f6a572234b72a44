package uverbs

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// library is a caller with a struct of libibverbs at address 4096.
type library struct {
	kernel.Caller
	own []byte
}

func (l *library) Read(addr uint64, p []byte) error {
	if addr != 4096 || len(p) > len(l.own) {
		return unix.EFAULT
	}
	copy(p, l.own)
	return nil
}

// TestUnacknowledged: what is read of libibverbs's struct counts only if it can be one.
func TestUnacknowledged(t *testing.T) {
	for _, c := range []struct {
		name                  string
		typ                   uapi.ObjectType
		user                  uint64
		handle, at, has, want uint32
	}{
		{"a completion event", uapi.ObjCQ, 4096, 7, 120, 1, 4},
		{"an event", uapi.ObjCQ, 4096, 7, 124, 2, 3},
		{"of a queue pair", uapi.ObjQP, 4096, 7, 152, 1, 1},
		{"of a shared queue", uapi.ObjSRQ, 4096, 7, 120, 2, 0},
		{"more than there were", uapi.ObjCQ, 4096, 7, 120, 4, 0},
		{"another handle", uapi.ObjCQ, 4096, 8, 120, 1, 0},
		{"no address", uapi.ObjCQ, 1, 7, 120, 1, 0},
		{"of no queue", uapi.ObjPD, 4096, 7, 120, 1, 0},
	} {
		own := make([]byte, 160)
		o := &dispatch.Object{Type: c.typ, Handle: 7, User: c.user, AsyncReported: 2}
		if c.typ == uapi.ObjCQ {
			o.CompReported = 3
		}
		binary.NativeEndian.PutUint32(own[ownStructs[c.typ].handle:], c.handle)
		binary.NativeEndian.PutUint32(own[c.at:], c.has)
		if got := unacknowledged(&library{own: own}, o); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// stopped is a library whose process has one thread, and that a signal may have interrupted.
type stopped struct {
	library
	interrupted, threads bool
}

func (s *stopped) Stack(int) (kernel.Stack, bool) { return kernel.Stack{}, false }
func (s *stopped) Maps(int) string                { return "" }
func (s *stopped) Alone() bool                    { return !s.threads }
func (s *stopped) Interrupted() bool              { return s.interrupted }

// TestForgive: libibverbs waits for no event that the program has not acknowledged if a signal may
// be to blame. Another thread may acknowledge it yet.
func TestForgive(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		return // ownStructs
	}
	for _, c := range []struct {
		name                 string
		interrupted, threads bool
		want                 uint32
	}{
		{"no signal", false, false, 3},
		{"a signal", true, false, 1},
		{"another thread", true, true, 3},
	} {
		own := make([]byte, 160)
		at := ownStructs[uapi.ObjCQ]
		binary.NativeEndian.PutUint32(own[at.handle:], 7)
		binary.NativeEndian.PutUint32(own[at.comp:], 1)
		o := &dispatch.Object{Type: uapi.ObjCQ, Handle: 7, User: 4096, CompReported: 3}
		forgive(&stopped{library{own: own}, c.interrupted, c.threads}, o)
		if o.CompReported != c.want {
			t.Errorf("%s: %d, want %d", c.name, o.CompReported, c.want)
		}
	}
}

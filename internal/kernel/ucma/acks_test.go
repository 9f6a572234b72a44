package ucma

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/cabi"
)

// TestUnacknowledged: what is read of librdmacm's struct counts only if it can be one.
func TestUnacknowledged(t *testing.T) {
	for _, c := range []struct {
		name              string
		handle, completed uint32
		event             uint64
		want              uint32
	}{
		{"all", 7, 3, 0, 0},
		{"one is left", 7, 2, 0, 1},
		{"the library acknowledges the last one itself", 7, 2, 0x1000, 0},
		{"all, and the library has one", 7, 3, 0x1000, 0},
		{"more than there were", 7, 4, 0, 0},
		{"another handle", 8, 0, 0, 0},
	} {
		own := make([]byte, ownSize)
		binary.NativeEndian.PutUint64(own[ownEvent:], c.event)
		binary.NativeEndian.PutUint32(own[ownCompleted:], c.completed)
		binary.NativeEndian.PutUint32(own[ownHandle:], c.handle)
		if got := unacknowledged(own, 7, 3); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestOwnLayout: the offset of the event is what the header of librdmacm says, and the private
// fields follow its struct.
func TestOwnLayout(t *testing.T) {
	got := cabi.Values(t, []string{"rdma/rdma_cma.h", "pthread.h"}, []string{
		cabi.Offset("rdma_cm_id", "event"), "sizeof(struct rdma_cm_id) + 24",
		"sizeof(struct rdma_cm_id) + 24 + 16 + sizeof(pthread_cond_t) + sizeof(pthread_mutex_t)",
	})
	for i, want := range []int{ownEvent, ownCompleted, ownHandle} {
		if got[i] != want {
			t.Errorf("%d, and the header says %d", want, got[i])
		}
	}
}

// stopped is a program with one thread, in which librdmacm's struct is at address 4096.
type stopped struct {
	kernel.Caller
	own                  []byte
	interrupted, threads bool
}

func (s *stopped) Read(_ uint64, p []byte) error  { copy(p, s.own); return nil }
func (s *stopped) Stack(int) (kernel.Stack, bool) { return kernel.Stack{}, false }
func (s *stopped) Maps(int) string                { return "" }
func (s *stopped) Alone() bool                    { return !s.threads }
func (s *stopped) Interrupted() bool              { return s.interrupted }

// TestForgiven: librdmacm waits for no event that the program has not acknowledged if a signal may
// be to blame. Another thread may acknowledge it yet.
func TestForgiven(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		return // the offsets
	}
	h := newHost(t)
	own := make([]byte, ownSize)
	binary.NativeEndian.PutUint32(own[ownCompleted:], 1)
	binary.NativeEndian.PutUint32(own[ownHandle:], 7)
	for _, c := range []struct {
		interrupted, threads bool
		want                 uint32
	}{{false, false, 0}, {true, false, 2}, {true, true, 0}} {
		k := &call{Caller: &stopped{own: own, interrupted: c.interrupted, threads: c.threads}, f: h.open().f, dev: h.dev}
		if got := k.waits(&cmID{num: 7, uid: 4096, reported: 3}); got != c.want {
			t.Errorf("%+v: %d forgiven", c, got)
		}
	}
}

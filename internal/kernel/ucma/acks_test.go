package ucma

import (
	"encoding/binary"
	"testing"

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

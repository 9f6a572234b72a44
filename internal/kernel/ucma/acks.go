package ucma

import (
	"encoding/binary"
	"runtime"

	"github.com/gorxe/gorxe/internal/kernel"
)

// Where librdmacm keeps what it knows of an id, on amd64: struct cma_id_private of cma.c, which is
// the same in rdma-core 44 to 65. It begins with struct rdma_cm_id, whose event is one that
// rdma_destroy_id acknowledges itself.
const (
	ownEvent     = 352
	ownCompleted = 440
	ownHandle    = 544
	ownSize      = 548
)

// waits finds out whether rdma_destroy_id will wait for events of an id that the program has read
// and not acknowledged (cma.c: rdma_destroy_id). It tells the Watcher, or returns how many events
// the answer must not count: the program may have left them because of a call that failed with
// EINTR.
func (k *call) waits(c *cmID) (forgiven uint32) {
	if runtime.GOARCH != "amd64" {
		return 0
	}
	interrupted := kernel.Interrupted(k.Caller)
	if k.f.watcher == nil && !interrupted {
		return 0
	}
	k.dev.mu.Lock()
	uid, reported := c.uid, c.reported
	k.dev.mu.Unlock()
	own := make([]byte, ownSize)
	if reported == 0 || k.Read(uid, own) != nil {
		return 0
	}
	n := unacknowledged(own, c.num, reported)
	switch {
	case n == 0:
	case interrupted:
		return n
	default:
		k.f.watcher.Unacknowledged(c, n, k.Caller)
	}
	return 0
}

// unacknowledged returns how many of the events of an id are not acknowledged. Another library may
// have something else there, so it must have the id's number, and numbers that can be.
func unacknowledged(own []byte, num, reported uint32) uint32 {
	completed := binary.NativeEndian.Uint32(own[ownCompleted:])
	if binary.NativeEndian.Uint32(own[ownHandle:]) != num || completed > reported {
		return 0
	}
	n := reported - completed
	if n > 0 && binary.NativeEndian.Uint64(own[ownEvent:]) != 0 {
		n--
	}
	return n
}

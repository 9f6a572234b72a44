package ucma

import (
	"encoding/binary"
	"runtime"
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

// waits tells the Watcher that rdma_destroy_id will wait for events of an id that the program has
// read and not acknowledged (cma.c: rdma_destroy_id).
func (k *call) waits(c *cmID) {
	if k.f.watcher == nil || runtime.GOARCH != "amd64" {
		return
	}
	k.dev.mu.Lock()
	uid, reported := c.uid, c.reported
	k.dev.mu.Unlock()
	own := make([]byte, ownSize)
	if reported == 0 || k.Read(uid, own) != nil {
		return
	}
	if n := unacknowledged(own, c.num, reported); n > 0 {
		k.f.watcher.Unacknowledged(c, n, k.Caller)
	}
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

package ucma

import (
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/nldev"
)

// AddResources adds the ids of programs to the resources of an RDMA device. They are those that
// are bound to it, and listeners at all devices: the kernel has one on each (cma.c:
// cma_listen_on_dev). pid translates the number of a process; 0 leaves its ids out.
func (d *Device) AddResources(device string, to *nldev.Resources, pid func(int) uint32) {
	type owned struct {
		*cmID
		owner *rdmacm.Owner
	}
	var ids []owned
	d.mu.Lock()
	for _, c := range d.ids.entries {
		if c != nil {
			ids = append(ids, owned{c, c.file.owner})
		}
	}
	d.mu.Unlock()
	for _, c := range ids {
		dev, state := c.id.Device(), c.id.State()
		if dev == nil && state != rdmacm.StateListen || dev != nil && dev.Name != device {
			continue
		}
		n := pid(c.owner.PID)
		if n == 0 {
			continue
		}
		to.CMIDs = append(to.CMIDs, nldev.CMID{
			ID: c.track, QPN: uint32(c.id.QPN()), Type: uint8(c.id.QPType()), Space: c.id.PortSpace(),
			State: uint8(state), Bound: dev != nil, Src: address(c.id.LocalAddr()), Dst: address(c.id.RemoteAddr()), PID: n,
		})
	}
}

// address returns an address as the kernel writes it; nil if there is none.
func address(a rdmacm.Addr) []byte {
	b, size := sockaddr(a)
	if size == 0 {
		return nil
	}
	return b[:]
}

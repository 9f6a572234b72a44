package ucma

import (
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/wire"
)

// IDStatus is an id of a program.
type IDStatus struct {
	ID            uint32
	Owner         *rdmacm.Owner // of the file that it belongs to
	Space         wire.PortSpace
	State         rdmacm.State
	Device        string // empty: none, or all
	Local, Remote rdmacm.Addr
}

// Status returns the first room ids, and how many more there are.
func (d *Device) Status(room int) (list []IDStatus, left int) {
	var ids []*cmID
	d.mu.Lock()
	for _, c := range d.ids.entries {
		switch {
		case c == nil:
		case len(ids) < room:
			ids = append(ids, c)
			list = append(list, IDStatus{ID: c.num, Owner: c.file.owner})
		default:
			left++
		}
	}
	d.mu.Unlock()
	for i, c := range ids {
		s := &list[i]
		s.Space, s.State, s.Local, s.Remote = c.id.PortSpace(), c.id.State(), c.id.LocalAddr(), c.id.RemoteAddr()
		if dev := c.id.Device(); dev != nil {
			s.Device = dev.Name
		}
	}
	return list, left
}

package rdmacm

import (
	"cmp"
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// IDStatus describes an ID for people.
type IDStatus struct {
	State         State
	Space         wire.PortSpace
	QPType        rxe.QPType
	Device        string // empty: none, or all
	Local, Remote Addr
	QPN           wire.QPN
	Owner         *Owner
}

// Status describes all IDs: those of one program next to each other, by state and
// address.
func (m *Manager) Status() []IDStatus {
	m.mu.Lock()
	out := make([]IDStatus, 0, len(m.ids))
	for id := range m.ids {
		s := IDStatus{State: id.state, Space: id.space, QPType: id.qpType, Local: id.src, Remote: id.dst, QPN: id.qpn, Owner: id.owner}
		if id.dev != nil {
			s.Device = id.dev.Name
		}
		out = append(out, s)
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b IDStatus) int {
		return cmp.Or(cmp.Compare(a.Owner.PID, b.Owner.PID), -cmp.Compare(a.State, b.State),
			cmp.Compare(a.Local.port(), b.Local.port()), cmp.Compare(a.Remote.port(), b.Remote.port()))
	})
	return out
}

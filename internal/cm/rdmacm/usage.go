package rdmacm

import "github.com/gorxe/gorxe/internal/cm"

// Usage is what a Manager remembers.
type Usage struct {
	IDs   int
	Ports int      // that IDs have
	CM    cm.Usage // of all devices
}

// Usage returns what the Manager remembers.
func (m *Manager) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := Usage{IDs: len(m.ids), Ports: len(m.ports.owners)}
	for _, d := range m.devices {
		one := d.machine.Usage()
		u.CM.Conns += one.Conns
		u.CM.HalfOpen += one.HalfOpen
		u.CM.Peers += one.Peers
		u.CM.Lookups += one.Lookups
		u.CM.Timers += one.Timers
	}
	return u
}

package rdmacm

import (
	"net/netip"
	"slices"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// GSI is queue pair 1 of a device: a *gsi.Mux.
type GSI interface {
	Register(class wire.MADClass, a gsi.Agent)
	Send(to rxe.AHAttr, dest wire.QPN, mad *wire.MAD) error
}

// Device is an RDMA device. The exported fields do not change.
type Device struct {
	// IsLo makes 127.0.0.1 stand for the device's own loopback address.
	IsLo  bool
	Index int    // of the device among those of the daemon
	Name  string // rxe0
	GUID  uint64 // of the node; every device has another one
	Mux   GSI
	Net   func() rocev2.PortInfo // the state of the port now; it must not block

	// Manager.mu guards these, once the Manager has the device.
	manager  *Manager
	machine  *cm.Machine
	services map[uint64]*service
	out      *sender
	back     wayBack   // of the datagram that is being received
	expected *expected // which has a lock of its own
}

// service is a service ID on which IDs of the Manager listen on a device.
type service struct {
	listener *cm.Listener
	ids      int
}

// agent receives the device's datagrams of the connection manager.
type agent struct{ dev *Device }

// ReceiveMAD implements gsi.Agent.
func (a agent) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	m := a.dev.manager
	if src != wire.GSIQPN { // a program's queue pair, not a connection manager (IBA 13.5.1)
		m.mu.Lock()
		a.dev.machine.Counters().Forged++
		m.mu.Unlock()
		return
	}
	back := a.dev.wayBack(mad)
	m.mu.Lock()
	defer m.unlock()
	now := m.now()
	m.runTasks()
	a.dev.back = back
	a.dev.machine.Receive(now, from, mad)
	m.runTasks()
}

// Expects implements gsi.Expecter.
func (a agent) Expects(mad *wire.MAD) bool { return a.dev.expected.has(mad) }

// open starts the device's connection manager. Manager.mu is held.
func (d *Device) open(m *Manager) {
	d.manager = m
	d.services = make(map[uint64]*service)
	d.out = newSender(d, m.watch)
	d.expected = newExpected()
	d.machine = cm.New(cm.Config{
		GUID: d.GUID, Random: random, Send: d.out.send, Limits: m.limits, Opened: d.expected.add, Ended: d.expected.remove,
		PeerUser: m.peerUser,
	})
	d.Mux.Register(wire.MADClassCM, agent{d})
}

// close ends the connection manager. Its last datagrams have been sent when sender.wait
// returns. Manager.mu is held.
func (d *Device) close(now rxe.Time) {
	d.Mux.Register(wire.MADClassCM, nil)
	d.machine.Close(now)
	d.out.close()
}

// peerUser returns the user of the connection that one of the devices has at an address, nil if
// there is none (cm.Config.PeerUser). Manager.mu is held.
func (m *Manager) peerUser(at wire.GID, commID uint32) any {
	for _, d := range m.devices {
		if user := d.machine.UserOf(commID); user != nil && slices.Contains(d.Net().GIDs, at) {
			return user
		}
	}
	return nil
}

// Counters returns what the connection manager has counted so far.
func (d *Device) Counters() cm.Counters {
	d.manager.mu.Lock()
	defer d.manager.mu.Unlock()
	return *d.machine.Counters()
}

// gidIndex returns the index of an address in the device's GID table. An address with a
// zone must be that of the device's interface.
func (d *Device) gidIndex(info *rocev2.PortInfo, ip netip.Addr) (uint8, bool) {
	if z := route.ZoneIndex(ip); z != 0 && z != info.Index {
		return 0, false
	}
	gid := wire.GIDFromAddr(ip)
	for i, g := range info.GIDs {
		if g == gid && i <= 0xff { // an AHAttr has room for no more
			return uint8(i), true
		}
	}
	return 0, false
}

// withAddress returns the first device that has the address; if index is not 0, only one
// on that network interface (cma_acquire_dev_by_src_ip). Manager.mu is held.
func (m *Manager) withAddress(ip netip.Addr, index int) *Device {
	return m.deviceAt(&Owner{}, ip, index)
}

// deviceAt is withAddress among the devices that a program has.
func (m *Manager) deviceAt(o *Owner, ip netip.Addr, index int) *Device {
	for _, d := range m.devices {
		if !o.has(d) {
			continue
		}
		info := d.Net()
		if _, ok := d.gidIndex(&info, ip); ok && (index == 0 || index == info.Index) {
			return d
		}
	}
	return nil
}

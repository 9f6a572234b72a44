package daemon

import (
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/ucma"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/wire"
)

// openCM opens /dev/infiniband/rdma_cm for a program of the session.
func (n *session) openCM(who trap.Credentials) (trap.File, error) {
	f, err := n.cmDevice().Open(&rdmacm.Owner{
		Privileged: func() bool { return mayBindPrivileged(who.PID) },
		UID:        who.UID, PID: who.PID, Command: processName(who.PID),
		Budget: n.tenant.Budget,
		Lacks:  n.removed.lacksCM,
	})
	if err != nil {
		return nil, err
	}
	f.SetFaults(n.faults.ofFile("", who.PID))
	f.SetRefusals(n.reports.of(who.PID, ""))
	n.watchCM(f, who)
	return f, nil
}

// cmDevice returns the device as the session's programs see it: all of them find the ids of
// one another, as in the kernel, if they share a descriptor.
func (n *session) cmDevice() *ucma.Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cm == nil {
		n.cm = ucma.New(ucma.Config{
			Manager: n.server.cm, Budget: n.tenant.Budget, Log: n.log, Numbers: &n.server.cmNumbers,
		})
	}
	return n.cm
}

// openedCM is cmDevice if a program has opened it, else nil.
func (n *session) openedCM() *ucma.Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cm
}

// cmStatus returns the first room ids of the session's programs, and how many more there are.
func (n *session) cmStatus(room int) (list []proto.CMIDStatus, left int) {
	dev := n.openedCM()
	if dev == nil {
		return nil, 0
	}
	ids, left := dev.Status(max(room, 0))
	for i := range ids {
		c := &ids[i]
		list = append(list, proto.CMIDStatus{
			PID: c.Owner.PID, ID: c.ID, Space: spaceNames[c.Space], State: c.State.String(), Device: c.Device,
			Local: addrText(c.Local), Remote: addrText(c.Remote),
		})
	}
	return list, left
}

// spaceNames are the port spaces as the rdma tool names them.
var spaceNames = map[wire.PortSpace]string{
	wire.PortSpaceIPoIB: "IPOIB", wire.PortSpaceTCP: "TCP", wire.PortSpaceUDP: "UDP", wire.PortSpaceIB: "IB",
}

// addrText returns an address as text; empty if there is none.
func addrText(a rdmacm.Addr) string {
	if a.AFIB == nil && !a.Addr().IsValid() {
		return ""
	}
	return a.String()
}

// mayBindPrivileged reports whether a process may listen at ports below 1024.
func mayBindPrivileged(pid int) bool { return hasCapability(pid, capNetBindService) }

// Capabilities (linux/capability.h).
const (
	capNetBindService = 10
	capNetAdmin       = 12
)

// hasCapability reports whether a process has a capability over this network namespace.
func hasCapability(pid, capability int) bool {
	return procfs.Capabilities(pid)&(1<<capability) != 0 && sharesUserNamespace(pid)
}

// sharesUserNamespace reports whether a process is in this one's user namespace. The capabilities
// of root in a user namespace of its own do not count.
func sharesUserNamespace(pid int) bool {
	mine, err := procfs.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	theirs, err := procfs.Readlink(procfs.Path(pid, "ns/user"))
	return err == nil && theirs == mine
}

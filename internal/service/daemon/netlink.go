package daemon

import (
	"strconv"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/trap"
)

// Netlink implements trap.Netlink.
func (n *session) Netlink(who trap.Credentials, req *kernel.NetlinkRequest, reply kernel.NetlinkReply) {
	caller := nldev.Caller{NetAdmin: func() bool { return n.NetAdmin(who) }}
	nldev.Answer(&netlinkView{
		session: n, who: who, pids: pidView{reader: who.PID}, seen: make(map[*nldev.Device]*nldev.Resources),
	}, caller, req, reply)
}

// NetAdmin implements trap.Netlink.
func (n *session) NetAdmin(who trap.Credentials) bool {
	return who.Effective&(1<<capNetAdmin) != 0 && sharesUserNamespace(who.PID)
}

// netlinkView is what a program sees of the daemon's devices through netlink, while one request
// is answered.
type netlinkView struct {
	session *session
	who     trap.Credentials
	pids    pidView
	seen    map[*nldev.Device]*nldev.Resources
}

// Devices implements nldev.Source.
func (v *netlinkView) Devices() []*nldev.Device {
	if shown := v.session.removed.shown.Load(); shown != nil {
		return shown.netlink
	}
	return v.session.server.netlink.devices
}

// CharDevs implements nldev.Source.
func (v *netlinkView) CharDevs() []nldev.CharDev { return v.session.server.netlink.files }

// Exclusive implements nldev.Source.
func (v *netlinkView) Exclusive() bool { return v.session.server.netns.Load() }

// SetExclusive implements nldev.Source. Other sessions see the change, as all of a kernel do.
func (v *netlinkView) SetExclusive(only bool) { v.session.server.netns.Store(only) }

// netlinkDevices is what netlink shows of the devices. Names and numbers are those of the file
// tree: programs compare the two.
type netlinkDevices struct {
	devices []*nldev.Device
	files   []nldev.CharDev // those of no device
}

func newNetlinkDevices(devices []*device, t *tree.Tree) netlinkDevices {
	var l netlinkDevices
	for _, d := range devices {
		l.devices = append(l.devices, d.netlink(t))
	}
	cm := tree.RDMACM().Name
	l.files = []nldev.CharDev{{Type: cm, Name: cm, Dev: deviceNumber(t, cm), ABI: uapi.UcmaABI}}
	return l
}

// deviceNumber returns the number of a character device as stat has it.
func deviceNumber(t *tree.Tree, name string) uint64 {
	n, err := t.Lookup(tree.DevDir+"/"+name, false)
	if err != nil {
		return 0 // not reached: the tree has every device of the daemon
	}
	return n.Rdev
}

// netlink returns the device as netlink shows it.
func (d *device) netlink(t *tree.Tree) *nldev.Device {
	dev := d.engine.Device()
	attr := dev.Attr()
	verbs, mad := "uverbs"+strconv.Itoa(d.index), "umad"+strconv.Itoa(d.index)
	return &nldev.Device{
		Index: uint32(d.index), Name: d.spec.Name, CapFlags: uint64(attr.Cap),
		NodeGUID: dev.GUID(), SysImageGUID: attr.SysImageGUID,
		NodeType: nodeTypeCA, Protocol: "roce",
		CharDevs: []nldev.CharDev{
			{Type: "uverbs", Name: verbs, Dev: deviceNumber(t, verbs), ABI: uint64(d.driver.ABI()), DriverID: d.driver.ID()},
			{Type: "umad", Name: mad, Dev: deviceNumber(t, mad), ABI: uapi.MADABI, Port: 1},
		},
		Port: func() nldev.Port {
			port, net := dev.QueryPort(), d.engine.Port().Info()
			return nldev.Port{
				State: uint8(port.State), PhysState: port.PhysState,
				NetdevIndex: uint32(net.Index), Netdev: net.Name,
			}
		},
		Counters: func() []nldev.Counter {
			counters := hwCounters(d.spec, dev, d.engine.Port().Counters())
			list := make([]nldev.Counter, len(counters))
			for i, c := range counters {
				list[i] = nldev.Counter(c)
			}
			return list
		},
	}
}

// nodeTypeCA is RDMA_NODE_IB_CA, a channel adapter.
const nodeTypeCA = 1

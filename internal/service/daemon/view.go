package daemon

import (
	"os"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// view is what the file tree needs of a device.
type view struct {
	spec     proto.Spec
	index    int // N of uverbsN
	created  time.Time
	driver   provider.Driver
	dev      *rxe.Device
	netdev   string
	counters func() wire.PortCounters
	sockets  func() *rocev2.Counters
	cm       func() cm.Counters
}

// sysfs returns the device as the file tree shows it.
func (v *view) sysfs() tree.Device {
	look := v.driver.Look(v.spec.Name, v.index)
	d := tree.Device{
		Name: v.spec.Name, Index: v.index, Created: v.created,
		Parent: tree.Parent(look.Parent), ABI: v.driver.ABI(),
		NodeGUID: v.dev.GUID(), SysImageGUID: v.dev.Attr().SysImageGUID,
		NodeDesc: look.NodeDesc, FWVer: look.FWVer, HWRev: look.HWRev, HCAType: look.HCAType, BoardID: look.BoardID,
		Netdev: v.netdev, ShowsNetdev: look.ShowsNetdev, NetdevAttr: netdevAttr(v.netdev),
		Owner: uint32(os.Geteuid()),
		Port:  v.port,
		Counters: func() []tree.Counter {
			c := v.counters()
			return portCounters(&c)
		},
		CMCounters: cmCounters(v.cm),
		HWCounters: func() []tree.Counter {
			counters := hwCounters(v.spec, v.dev, v.sockets())
			out := make([]tree.Counter, len(counters))
			for i, c := range counters {
				out[i] = tree.Counter(c)
			}
			return out
		},
		OwnerCounters: func() []tree.Counter {
			return []tree.Counter{{Name: filterDrop, Value: v.sockets().ReceiveFilterDrop.Load()}}
		},
	}
	pci := look.Parent.Bus == "pci"
	if pci {
		d.OnBus, d.NetdevDir = onPCI(), netdevDir(v.netdev)
		d.OwnerCounters = nil // no adapter has them; gorxe status does
	}
	if pci || v.spec.Rail {
		d.NUMA = numaNode(os.DirFS("/"), v.index)
	}
	return d
}

func (v *view) port() tree.PortInfo {
	attr := v.dev.QueryPort()
	return tree.PortInfo{
		State: uint8(attr.State), PhysState: attr.PhysState, LinkLayer: attr.LinkLayer,
		ActiveWidth: attr.ActiveWidth, ActiveSpeed: attr.ActiveSpeedEx,
		CapMask:     attr.PortCapFlags,
		GIDTableLen: attr.GIDTblLen, GIDs: v.dev.GIDs(),
		PKeys: pkeys(v.dev, attr.PKeyTblLen),
	}
}

func pkeys(dev *rxe.Device, n uint16) []uint16 {
	keys := make([]uint16, n)
	for i := range keys {
		key, err := dev.QueryPKey(i)
		if err != nil {
			key = wire.PKey(0)
		}
		keys[i] = uint16(key)
	}
	return keys
}

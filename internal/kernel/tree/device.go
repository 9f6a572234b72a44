package tree

import (
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Device is one RDMA device as the tree shows it. The tree may call its functions from any
// goroutine, for each read of a file.
type Device struct {
	Name  string // rxe0
	Gone  bool   // the tree does not have it; the others keep their numbers
	Index int    // N of uverbsN, from 0 to MaxDevices-1

	Parent Parent // as the driver has it
	// NUMA is where in the machine the parent is; nil: nobody knows, and all processors are near.
	NUMA *NUMANode
	// OnBus are the devices that the host has on the parent's bus, if that is PCI: readers list
	// them together.
	OnBus []string
	ABI   uint32 // of the provider's private structs: abi_version of uverbsN

	NodeGUID     uint64 // most significant byte first, as printed
	SysImageGUID uint64
	NodeDesc     string // rdma_rxe says "rxe"; at most 64 bytes are shown
	FWVer        string // rdma_rxe has none
	HWRev        string // empty leaves the file out, as rdma_rxe does
	HCAType      string // the same
	BoardID      string // the same; some monitors want both
	Netdev       string // the network interface: the GIDs' ndevs
	NetdevDir    string // where it is below /sys/devices; empty: nobody knows
	ShowsNetdev  bool   // the file parent names it, too
	// NetdevAttr reads a file of the network interface's directory in sysfs; nil: net has a link.
	NetdevAttr func(name string) (string, error)
	Owner      uint32 // the user that may use management datagrams, and read OwnerCounters

	// Created must not change from one Tree to the next: libibverbs tells a device from its
	// successor by it. Zero means the time of New.
	Created time.Time

	Port func() PortInfo

	// Counters are ports/1/counters, those of a performance management agent. nil leaves the
	// directory out, as rdma_rxe before Linux 7.2 does.
	Counters func() []Counter

	// HWCounters are ports/1/hw_counters. The names must not change.
	HWCounters func() []Counter

	// OwnerCounters are the files of ports/1/hw_counters that only root and Owner may read. The
	// names must not change.
	OwnerCounters func() []Counter

	// CMCounters are directories of ports/1 with the counts of the connection manager's
	// messages. The names must not change.
	CMCounters []CounterDir
}

// Parent is the bus device of a NIC, above the RDMA device. No two devices have the same.
type Parent struct {
	// below /sys/devices: platform/rxe0.gorxe, pci0000:00/0000:00:1f.7. The host does not have it
	Dir    string
	Bus    string // in /sys/bus: platform, pci
	Driver string // of that bus. The host does not have it
	// Attributes are files of the directory, without the newline at their end.
	Attributes map[string]string
}

func (p *Parent) dir() string       { return "/sys/devices/" + p.Dir }
func (p *Parent) busDir() string    { return "/sys/bus/" + p.Bus }
func (p *Parent) driverDir() string { return p.busDir() + "/drivers/" + p.Driver }

// NUMANode is a part of the machine, with texts of sysfs.
type NUMANode struct {
	Number        int
	CPUs, CPUList string // cpumap and cpulist
}

// CounterDir is a directory of counters.
type CounterDir struct {
	Name string
	Read func() []Counter
}

// MaxDevices is the number of fixed uverbs minors (drivers/infiniband/core/
// uverbs_main.c, IB_UVERBS_NUM_FIXED_MINOR).
const MaxDevices = 32

// PortInfo is the port now, in the units of struct ibv_port_attr.
type PortInfo struct {
	State       uint8
	PhysState   uint8
	LinkLayer   uint8  // 1: InfiniBand, 2: Ethernet
	ActiveWidth uint8  // 1, 2, 4, 8, 16: 1X, 4X, 8X, 12X, 2X
	ActiveSpeed uint32 // 1: SDR … 256: XDR
	CapMask     uint32

	// GIDTableLen is how many entries the table has; it must not change. GIDs may
	// be shorter; zero and missing ones are empty entries.
	GIDTableLen int
	GIDs        []wire.GID
	PKeys       []uint16 // the number must not change
}

// gid returns entry i, and whether there is one.
func (p *PortInfo) gid(i int) (wire.GID, bool) {
	if i >= len(p.GIDs) || p.GIDs[i].IsZero() {
		return wire.GID{}, false
	}
	return p.GIDs[i], true
}

// Counter is one counter's reading.
type Counter struct {
	Name  string
	Value uint64
}

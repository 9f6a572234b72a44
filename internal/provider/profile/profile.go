// Package profile has the adapters that a device can look like (--like): their names, numbers,
// limits and quirks. It knows no device and no provider.
package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Profile is an adapter as programs see it. It changes names, numbers, limits and what is refused,
// and never what is on the wire.
type Profile struct {
	Name                string
	VendorID, DeviceID  uint16 // of PCI
	SubsystemID         uint16 // of PCI; the vendor of the subsystem is the same
	Revision            uint8  // of PCI
	Firmware            string // major.minor.sub
	BoardID, HCAType    string
	VendorPartID, HWVer uint32
	Mbps                int // of a port
	// of a lane, as the kernel prints it (drivers/pci/probe.c: pci_speed_string)
	PCIeSpeed string
	PCIeLanes int

	MaxQP, MaxPD, MaxResRdAtom uint32

	Quirks rxe.Quirks
}

// vendorPCI is Mellanox Technologies in PCI, and vendorIEEE in struct ibv_device_attr
// (drivers/infiniband/hw/mlx5/main.c: mlx5_ib_query_device).
const (
	vendorPCI  = 0x15b3
	vendorIEEE = 0x02c9
)

// profiles has one board of each kind. Numbers of PCI are in rdma-core's mlx5_hca_table and in the
// repository pci.ids. Firmware, board, and numbers of a query are those of the public outputs of
// ibv_devinfo or mlxfwmanager that stand beside them.
var profiles = []Profile{
	// MCX515A-CCAT, one port. Limits: ibv_devinfo -v in open-mpi/ompi#6137. Quirk:
	// NVIDIA/nccl#2157.
	{
		Name: "connectx5", VendorID: vendorPCI, DeviceID: 0x1017, SubsystemID: 0x0006,
		Firmware: "16.32.1010", BoardID: "MT_0000000011", HCAType: "MT4119", VendorPartID: 4119,
		Mbps: 100000, PCIeSpeed: "8.0 GT/s PCIe", PCIeLanes: 16,
		MaxQP: 1 << 18, MaxPD: 1 << 24, MaxResRdAtom: 1 << 22,
		Quirks: rxe.Quirks{GIDsMove: true},
	},
	ConnectX6,
	{ // MCX623106AN-CDAT. Limits: ibv_devinfo -vv of a RoCE host with firmware 22.36.1010.
		Name: "connectx6dx", VendorID: vendorPCI, DeviceID: 0x101d, SubsystemID: 0x0016,
		Firmware: "22.36.1010", BoardID: "MT_0000000359", HCAType: "MT4125", VendorPartID: 4125,
		Mbps: 100000, PCIeSpeed: "16.0 GT/s PCIe", PCIeLanes: 16,
		MaxQP: 1 << 17, MaxPD: 1 << 23, MaxResRdAtom: 1 << 21,
	},
	{ // MCX75310AAS-HEAT
		Name: "connectx7-200g", VendorID: vendorPCI, DeviceID: 0x1021, SubsystemID: 0x0029,
		Firmware: "28.43.2026", BoardID: "MT_0000000844", HCAType: "MT4129", VendorPartID: 4129,
		Mbps: 200000, PCIeSpeed: "32.0 GT/s PCIe", PCIeLanes: 16,
		MaxQP: 1 << 17, MaxPD: 1 << 23, MaxResRdAtom: 1 << 21,
	},
	// MCX75310AAS-NEAT; eight of them in a host of sgl-project/sglang's threads. Quirk:
	// NVIDIA/nccl#1333.
	{
		Name: "connectx7-400g", VendorID: vendorPCI, DeviceID: 0x1021, SubsystemID: 0x0023,
		Firmware: "28.43.3608", BoardID: "MT_0000000838", HCAType: "MT4129", VendorPartID: 4129,
		Mbps: 400000, PCIeSpeed: "32.0 GT/s PCIe", PCIeLanes: 16,
		MaxQP: 1 << 17, MaxPD: 1 << 23, MaxResRdAtom: 1 << 21,
		Quirks: rxe.Quirks{GIDsMove: true},
	},
	{ // B3220 (900-9D3B6-00CV-AA0); its hw_ver is 1
		Name: "bluefield3", VendorID: vendorPCI, DeviceID: 0xa2dc, SubsystemID: 0x0009, Revision: 1,
		Firmware: "32.43.1014", BoardID: "MT_0000000884", HCAType: "MT41692", VendorPartID: 41692, HWVer: 1,
		Mbps: 200000, PCIeSpeed: "32.0 GT/s PCIe", PCIeLanes: 16,
		MaxQP: 1 << 17, MaxPD: 1 << 23, MaxResRdAtom: 1 << 21,
	},
}

// ConnectX6 is the default: MCX653105A-HDAT, one port. Limits: ibv_devinfo -vv in an issue of
// openucx/ucx with firmware 20.37.1700.
var ConnectX6 = Profile{
	Name: "connectx6", VendorID: vendorPCI, DeviceID: 0x101b, SubsystemID: 0x0006,
	Firmware: "20.39.2048", BoardID: "MT_0000000223", HCAType: "MT4123", VendorPartID: 4123,
	Mbps: 200000, PCIeSpeed: "16.0 GT/s PCIe", PCIeLanes: 16,
	MaxQP: 1 << 17, MaxPD: 1 << 23, MaxResRdAtom: 1 << 21,
}

// Find returns a profile: its name, and behind each "+" a word of a quirk.
func Find(text string) (Profile, error) {
	name, words, more := strings.Cut(text, "+")
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, fmt.Errorf("%q is no profile: choose one of %s", name, strings.Join(Names(), ", "))
	}
	p := profiles[i]
	if more {
		if err := p.take(strings.Split(words, "+")); err != nil {
			return Profile{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

// Names lists the names of the profiles.
func Names() (list []string) {
	for _, p := range profiles {
		list = append(list, p.Name)
	}
	return list
}

// String returns the name with the quirks.
func (p Profile) String() string { return strings.Join(append([]string{p.Name}, p.words()...), "+") }

// ethernet are the rates that ports of these adapters can have, in Mb/s. A port of each has all up
// to its own.
var ethernet = []int{10000, 25000, 40000, 50000, 100000, 200000, 400000}

// Speeds lists the rates that a port can have, ascending, in Mb/s.
func (p Profile) Speeds() []int {
	return slices.DeleteFunc(slices.Clone(ethernet), func(mbps int) bool { return mbps > p.Mbps })
}

// Limits returns the limits of the engine's device. They are the adapter's where the engine goes as
// far: a program meets each of them.
func (p Profile) Limits() *rxe.DeviceAttr {
	l := rxe.DefaultLimits()
	l.VendorID, l.VendorPartID, l.HWVer, l.FWVer = vendorIEEE, p.VendorPartID, p.HWVer, p.Firmware
	// libmlx5 has neither, and the size of an SRQ stays (mlx5_ib_modify_srq)
	l.Cap &^= rxe.CapFlushGlobal | rxe.CapFlushPersistent | rxe.CapAtomicWrite | rxe.CapSRQResize
	l.PageSizeCap = 0xfffffffffffff000
	l.LocalCAAckDelay = 16
	l.MaxQP, l.MaxPD = p.MaxQP, min(l.MaxPD, p.MaxPD)
	// the same for all (mlx5_ib_query_device; log_max_qp_sz and its like)
	l.MaxQPWR, l.MaxSRQWR = 1<<15, 1<<15-1
	l.MaxInlineData = maxInline
	l.MaxSGE, l.MaxSGERd, l.MaxSRQSGE = 30, 30, 31
	l.MaxQPRdAtom, l.MaxQPInitRdAtom, l.MaxResRdAtom = 16, 16, p.MaxResRdAtom
	l.MaxMsgSize = 1 << 30
	l.NullLKey = NullLKey
	return &l
}

const (
	// NullLKey is the key of ibv_alloc_null_mr. Any other number below 256 does as well.
	NullLKey wire.LKey = 1
	// maxInline is a send request without its first segments (max_sq_desc_sz).
	maxInline = 1024
)

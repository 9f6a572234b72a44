package nldev

import "github.com/gorxe/gorxe/wire"

// Source is what a caller sees of the devices and their resources.
type Source interface {
	// Devices returns the devices, in the order of their indexes.
	Devices() []*Device
	// CharDevs returns the character devices that belong to no device, as rdma_cm.
	CharDevs() []CharDev
	// Resources returns the resources of a device that the caller may see, as they are now.
	Resources(d *Device) *Resources
	// Exclusive tells whether each network namespace is said to have devices of its own.
	// SetExclusive changes that.
	Exclusive() bool
	SetExclusive(bool)
}

// Device is an RDMA device. It has one port.
type Device struct {
	Index                  uint32
	Name                   string
	CapFlags               uint64
	NodeGUID, SysImageGUID uint64 // most significant byte first, as printed
	NodeType               uint8
	Protocol               string // roce
	CharDevs               []CharDev
	Port                   func() Port
	Counters               func() []Counter // the port's hw_counters; the names must not change
}

// Port is a port now.
type Port struct {
	State, PhysState uint8
	NetdevIndex      uint32 // 0: no network interface
	Netdev           string
}

// CharDev is a character device of /dev/infiniband.
type CharDev struct {
	Type     string // uverbs, umad, rdma_cm
	Name     string // of the node
	Dev      uint64 // as stat(2) has it
	ABI      uint64
	DriverID uint32 // of uverbs: enum rdma_driver_id
	Port     uint32 // of a device that belongs to a port; otherwise 0
}

// Counter is one counter's reading.
type Counter struct {
	Name  string
	Value uint64
}

// Resources are the resources of a device (enum rdma_restrack_type). The number of each is
// unique among those of its kind, and a queue pair's is its QPN. PID is the process that made it.
type Resources struct {
	PDs      []PD
	CQs      []CQ
	QPs      []QP
	CMIDs    []CMID
	MRs      []MR
	Contexts []Context
	SRQs     []SRQ
}

// PD is a protection domain.
type PD struct {
	ID, Context uint32
	Users       uint64 // the objects that belong to it
	PID         uint32
}

// CQ is a completion queue.
type CQ struct {
	ID, Context uint32
	Entries     uint32
	Users       uint64 // the queue pairs that complete here, for each of their queues
	PID         uint32
}

// QP is a queue pair. Type and State are those of the verbs.
type QP struct {
	Num, DestQPN     uint32
	RecvPSN, SendPSN uint32
	Type, State      uint8
	Connected        bool // RC or UC: its destination is shown
	XRC              bool
	PD               uint32 // 0: an XRC target has none
	PID              uint32
}

// CMID is an id of RDMA CM.
type CMID struct {
	ID       uint32
	QPN      uint32 // 0: none yet
	Type     uint8  // of that queue pair
	Space    wire.PortSpace
	State    uint8  // enum rdma_cm_state
	Bound    bool   // it has a port of the device
	Src, Dst []byte // struct sockaddr_storage; nil: none
	PID      uint32
}

// MR is a memory region.
type MR struct {
	ID, PD     uint32
	RKey, LKey uint32
	Length     uint64
	PID        uint32
}

// Context is an open of the device.
type Context struct {
	ID  uint32
	PID uint32
}

// SRQ is a shared receive queue.
type SRQ struct {
	ID, PD uint32
	Type   uint8    // enum ib_srq_type
	CQ     uint32   // of XRC
	QPs    []uint32 // the queue pairs that receive from it, in rising order
	PID    uint32
}

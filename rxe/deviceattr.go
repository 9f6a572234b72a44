package rxe

import "github.com/gorxe/gorxe/wire"

// DeviceAttr holds a device's capabilities and limits (struct ibv_device_attr and
// ibv_device_attr_ex).
//
// Fields: those of the two structs of libibverbs.
type DeviceAttr struct {
	FWVer                  string
	NodeGUID, SysImageGUID uint64 // host order
	VendorID               uint32
	VendorPartID           uint32
	HWVer                  uint32
	Cap                    DeviceCap
	PageSizeCap            uint64
	AtomicCap              uint8 // enum ibv_atomic_cap; 1: atomic among this device's QPs
	LocalCAAckDelay        uint8
	PhysPortCnt            uint8
	MaxPKeys               uint16
	MaxMRSize              uint64 // bytes

	MaxQP, MaxCQ, MaxMR, MaxPD uint32
	MaxMW, MaxAH, MaxSRQ       uint32

	MaxQPWR, MaxCQE, MaxSRQWR     uint32 // entries of one queue
	MaxSGE, MaxSGERd, MaxSRQSGE   uint32
	MaxInlineData                 uint32 // bytes
	MaxQPRdAtom, MaxQPInitRdAtom  uint32 // READs and atomics per QP, as responder and requester
	MaxResRdAtom                  uint32 // and of the device, as responder
	MaxMcastGrp, MaxMcastQPAttach uint32
	MaxTotalMcastQPAttach         uint32
	MaxMsgSize                    uint32 // bytes

	// NullLKey names memory of any domain that reads as zeros and forgets what is written, for
	// lists of work requests (ibv_alloc_null_mr); 0: there is none. Its index is 0, which no region
	// has.
	NullLKey wire.LKey
}

// DeviceCap holds bits of enum ibv_device_cap_flags, as far as the device has them.
type DeviceCap uint64

const (
	CapBadPKeyCntr      DeviceCap = 1 << 1
	CapBadQKeyCntr      DeviceCap = 1 << 2
	CapUDAVPortEnforce  DeviceCap = 1 << 6
	CapPortActiveEvent  DeviceCap = 1 << 10
	CapSysImageGUID     DeviceCap = 1 << 11
	CapRCRNRNAKGen      DeviceCap = 1 << 12
	CapSRQResize        DeviceCap = 1 << 13
	CapMemWindow        DeviceCap = 1 << 17
	CapXRC              DeviceCap = 1 << 20 // announced by users of the engine that pass XRC on
	CapMemMgtExtensions DeviceCap = 1 << 21
	CapMemWindowType2A  DeviceCap = 1 << 23 // or the next, but not both: see MW
	CapMemWindowType2B  DeviceCap = 1 << 24
	// with the next, of providers that pass raw packets on
	CapRawIPCsum           DeviceCap = 1 << 26
	CapRawScatterFCS       DeviceCap = 1 << 34
	CapManagedFlowSteering DeviceCap = 1 << 29 // of providers that pass flow rules on
	CapFlushGlobal         DeviceCap = 1 << 38
	CapFlushPersistent     DeviceCap = 1 << 39
	CapAtomicWrite         DeviceCap = 1 << 40
)

// DefaultLimits returns the limits of Linux rdma_rxe (rxe_param.h). Two differ:
// gorxe has no path migration and only one P_Key, and its messages may be as long
// as IBA allows, 2 GiB.
func DefaultLimits() DeviceAttr {
	const many = 1 << 20
	return DeviceAttr{
		VendorID: 0xffffff,
		Cap: CapBadPKeyCntr | CapBadQKeyCntr | CapUDAVPortEnforce | CapPortActiveEvent |
			CapSysImageGUID | CapRCRNRNAKGen | CapSRQResize | CapMemWindow |
			CapMemMgtExtensions | CapMemWindowType2B |
			CapFlushGlobal | CapFlushPersistent | CapAtomicWrite,
		PageSizeCap:     0xfffff000,
		AtomicCap:       1,
		LocalCAAckDelay: 15,
		PhysPortCnt:     1,
		MaxPKeys:        1,
		MaxMRSize:       1<<64 - 1,

		MaxQP: many, MaxCQ: many, MaxMR: many, MaxPD: many,
		MaxMW: many, MaxSRQ: many,
		MaxAH: 1<<15 - 1, // rdma_rxe's: a program that makes as many as it can is done in a second

		MaxQPWR: many, MaxCQE: 1<<15 - 1, MaxSRQWR: many,
		MaxSGE: 32, MaxSGERd: 32, MaxSRQSGE: 27,
		MaxInlineData: 512,
		MaxQPRdAtom:   128, MaxQPInitRdAtom: 128,
		MaxResRdAtom: 0x3f000,
		MaxMcastGrp:  8192, MaxMcastQPAttach: 56,
		MaxTotalMcastQPAttach: 0x70000,
		MaxMsgSize:            1 << 31,
	}
}

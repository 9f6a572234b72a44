package uapi

// The ABI of /dev/infiniband/umadN: rdma/ib_user_mad.h. A datagram is a MADHdr and 256 bytes,
// written with write(2) and read with read(2).

// MADABI is IB_USER_MAD_ABI_VERSION.
const MADABI = 5

// Commands for ioctl(2) (IB_USER_MAD_*).
const (
	MADRegisterAgent   = 0xc01c1b01
	MADUnregisterAgent = 0x40041b02
	MADEnablePKey      = 0x1b03
	MADRegisterAgent2  = 0xc0281b04
)

// struct ib_user_mad_reg_req
type MADRegReq struct {
	ID          uint32
	MethodMask  [4]uint32
	QPN         uint8    `c:"qpn"`
	Class       uint8    `c:"mgmt_class"`
	Version     uint8    `c:"mgmt_class_version"`
	OUI         [3]uint8 `c:"oui"`
	RMPPVersion uint8    `c:"rmpp_version"`
	Pad         uint8    `c:"-"`
}

// MADUserRMPP is IB_USER_MAD_USER_RMPP, the only flag of a MADRegReq2.
const MADUserRMPP = 1

// struct ib_user_mad_reg_req2
type MADRegReq2 struct {
	ID          uint32
	QPN         uint32 `c:"qpn"`
	Class       uint8  `c:"mgmt_class"`
	Version     uint8  `c:"mgmt_class_version"`
	Res         uint16
	Flags       uint32
	MethodMask  [2]uint64
	OUI         uint32 `c:"oui"`
	RMPPVersion uint8  `c:"rmpp_version"`
	Reserved    [3]uint8
}

// Offsets of what the kernel writes into the requests.
const (
	MADRegID     = 0
	MADReg2Flags = 12
)

// MADHdr is struct ib_user_mad_hdr. QPN, QKey, LID and FlowLabel are in network byte order.
type MADHdr struct {
	ID           uint32
	Status       uint32
	TimeoutMS    uint32 `c:"timeout_ms"`
	Retries      uint32
	Length       uint32
	QPN          [4]byte `c:"qpn"`
	QKey         [4]byte `c:"qkey"`
	LID          [2]byte `c:"lid"`
	SL           uint8   `c:"sl"`
	PathBits     uint8
	GRHPresent   uint8 `c:"grh_present"`
	GIDIndex     uint8 `c:"gid_index"`
	HopLimit     uint8
	TrafficClass uint8
	GID          [16]byte `c:"gid"`
	FlowLabel    [4]byte
	PKeyIndex    uint16 `c:"pkey_index"`
	Reserved     [6]uint8
}

// Sizes of a MADHdr: all of it, and what a program gets that has not enabled P_Key indices
// (struct ib_user_mad_hdr_old).
const (
	MADHdrSize    = 64
	MADHdrOldSize = 56
)

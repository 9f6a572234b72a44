package rxe

// Limit names a limit of a device.
type Limit uint8

// The limits. The first seven bound how many objects there are.
const (
	LimitPD Limit = iota + 1
	LimitCQ
	LimitMR
	LimitMW
	LimitAH
	LimitSRQ
	LimitQP
	LimitCQE
	LimitQPWR
	LimitSGE
	LimitInline
	LimitSRQWR
	LimitSRQSGE
	LimitRdAtomic // of each QP, as responder and as requester
	LimitMsgSize  // bytes
	LimitMemory   // bytes in registered pages; only a Subdevice has it
	LimitUC       // queue pairs of type UC, which count for LimitQP too; likewise
	limits
)

// limitNames are those of struct ibv_device_attr, as far as it has them.
var limitNames = [limits]string{
	LimitPD: "max_pd", LimitCQ: "max_cq", LimitMR: "max_mr", LimitMW: "max_mw", LimitAH: "max_ah",
	LimitSRQ: "max_srq", LimitQP: "max_qp", LimitCQE: "max_cqe", LimitQPWR: "max_qp_wr", LimitSGE: "max_sge",
	LimitInline: "max_inline", LimitSRQWR: "max_srq_wr", LimitSRQSGE: "max_srq_sge",
	LimitRdAtomic: "max_rd_atomic", LimitMsgSize: "max_msg_sz", LimitMemory: "memory",
	LimitUC: "max_uc",
}

func (l Limit) String() string { return limitNames[l] }

// Limits returns all limits.
func Limits() (list []Limit) {
	for l := LimitPD; l < limits; l++ {
		list = append(list, l)
	}
	return list
}

// fields are where a has a limit.
func (a *DeviceAttr) fields(l Limit) []*uint32 {
	switch l {
	case LimitPD:
		return []*uint32{&a.MaxPD}
	case LimitCQ:
		return []*uint32{&a.MaxCQ}
	case LimitMR:
		return []*uint32{&a.MaxMR}
	case LimitMW:
		return []*uint32{&a.MaxMW}
	case LimitAH:
		return []*uint32{&a.MaxAH}
	case LimitSRQ:
		return []*uint32{&a.MaxSRQ}
	case LimitQP:
		return []*uint32{&a.MaxQP}
	case LimitCQE:
		return []*uint32{&a.MaxCQE}
	case LimitQPWR:
		return []*uint32{&a.MaxQPWR}
	case LimitSGE:
		return []*uint32{&a.MaxSGE, &a.MaxSGERd}
	case LimitInline:
		return []*uint32{&a.MaxInlineData}
	case LimitSRQWR:
		return []*uint32{&a.MaxSRQWR}
	case LimitSRQSGE:
		return []*uint32{&a.MaxSRQSGE}
	case LimitRdAtomic:
		return []*uint32{&a.MaxQPRdAtom, &a.MaxQPInitRdAtom}
	case LimitMsgSize:
		return []*uint32{&a.MaxMsgSize}
	default: // those of which no attribute tells
		return nil
	}
}

// Limit returns the greatest value that a limit allows. Without such a limit it is 2^64-1.
func (a *DeviceAttr) Limit(l Limit) uint64 {
	most := ^uint64(0)
	for _, f := range a.fields(l) {
		most = min(most, uint64(*f))
	}
	return most
}

// lower lowers a limit. What is lower already stays.
func (a *DeviceAttr) lower(l Limit, to uint64) {
	for _, f := range a.fields(l) {
		*f = uint32(min(uint64(*f), to))
	}
}

// of returns the count that a limit bounds.
func (n *ObjectCounts) of(l Limit) *int {
	switch l {
	case LimitPD:
		return &n.PD
	case LimitCQ:
		return &n.CQ
	case LimitMR:
		return &n.MR
	case LimitMW:
		return &n.MW
	case LimitAH:
		return &n.AH
	case LimitSRQ:
		return &n.SRQ
	case LimitUC:
		return &n.uc
	default: // LimitQP
		return &n.QP
	}
}

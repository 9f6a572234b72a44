package mlx5

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/rxe"
)

// struct mlx5_cqe64, and struct mlx5_err_cqe. A completion of 128 bytes has it as its second half.
const (
	cqeWQE       = 2  // wqe_id
	cqeFlagsQPN  = 24 // GRH, service level and source QP
	cqeUser      = 32 // srqn_uidx
	cqeImm       = 36 // imm_inval_pkey
	cqeBytes     = 44
	cqeTimestamp = 48
	cqeVendorErr = 54
	cqeSyndrome  = 55
	cqeOpQPN     = 56 // sop_drop_qpn, s_wqe_opcode_qpn
	cqeCounter   = 60
	cqeOwner     = 63 // op_own
	cqeSize      = 64

	cqeReq         = 0
	cqeRespWriteIm = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeResize      = 5
	cqeReqErr      = 13
	cqeRespErr     = 14
	cqeInvalid     = 15
	opMask         = 0xf0

	ownerSolicited = 1 << 1
)

// wrID is the number under which the engine has a work request: what a completion must say of it,
// which is not the program's wr_id. libmlx5 keeps that one itself.
type wrID uint64

const (
	idReceive = 1 << 63
	idShared  = 1 << 62 // from an SRQ: the user index is that of the queue pair
	idFrame   = 1 << 61 // of a receive: it is a raw packet
	idPart    = 1 << 60 // of a striding queue: see partID
	idFiller  = 1 << 59 // of those: strides without a frame
	idLast    = 1 << 58 // of those: the last strides of a request
)

// newID makes a number. op is of the request as the queue has it, and counter its index there.
func newID(kind uint64, user uint32, op uint8, counter uint16) uint64 {
	return kind | uint64(user&userMask)<<24 | uint64(op)<<16 | uint64(counter)
}

// partID is the number of some strides of a request. It has no room for the user index, which is
// that of the queue.
func partID(counter, first, strides uint16, last bool) uint64 {
	id := idReceive | idFrame | idPart | uint64(strides)<<32 | uint64(first)<<16 | uint64(counter)
	if last {
		id |= idLast
	}
	return id
}

const (
	userMask   = 1<<24 - 1
	blocksMask = 1<<7 - 1
)

// withBlocks adds how many blocks a request has in its send queue.
func withBlocks(id uint64, n uint16) uint64 { return id | uint64(n&blocksMask)<<48 }

func (id wrID) user() uint32    { return uint32(id>>24) & userMask }
func (id wrID) op() uint8       { return uint8(id >> 16) }
func (id wrID) counter() uint16 { return uint16(id) }
func (id wrID) blocks() uint16  { return uint16(id>>48) & blocksMask }
func (id wrID) receive() bool   { return id&idReceive != 0 }
func (id wrID) shared() bool    { return id&idShared != 0 }
func (id wrID) frame() bool     { return id&idFrame != 0 }
func (id wrID) part() bool      { return id&idPart != 0 }
func (id wrID) filler() bool    { return id&idFiller != 0 }
func (id wrID) last() bool      { return id&idLast != 0 }
func (id wrID) first() uint16   { return uint16(id >> 16) }
func (id wrID) strides() uint16 { return uint16(id >> 32) }

// syndromes of errors (MLX5_CQE_SYNDROME_*). libmlx5 makes IBV_WC_GENERAL_ERR of all others.
var syndromes = [...]uint8{
	rxe.WCLocLenErr: 0x01, rxe.WCLocQPOpErr: 0x02, rxe.WCLocProtErr: 0x04, rxe.WCFlushErr: 0x05,
	rxe.WCMWBindErr: 0x06, rxe.WCBadRespErr: 0x10, rxe.WCLocAccessErr: 0x11, rxe.WCRemInvReqErr: 0x12,
	rxe.WCRemAccessErr: 0x13, rxe.WCRemOpErr: 0x14, rxe.WCRetryExcErr: 0x15, rxe.WCRNRRetryErr: 0x16,
	rxe.WCRemAbortErr: 0x22,
}

// vendorErrors are what adapters add to some errors, and people look for in logs.
var vendorErrors = map[rxe.WCStatus]uint8{rxe.WCFlushErr: 0xf9, rxe.WCRetryExcErr: 0x81, rxe.WCRemAccessErr: 0x88}

// encodeCQE makes the completion, for a queue in which its owner bit is owner.
func encodeCQE(b *[cqeSize]byte, wc *rxe.WC, user uint32, owner uint8) {
	clear(b[:])
	id, be := wrID(wc.ID), binary.BigEndian
	be.PutUint32(b[cqeUser:], user)
	if be.PutUint32(b[cqeOpQPN:], uint32(wc.QPN)); !id.part() {
		b[cqeOpQPN] = id.op()
	}
	be.PutUint16(b[cqeCounter:], id.counter())
	if wc.Solicited {
		owner |= ownerSolicited
	}
	if wc.Status != rxe.WCSuccess {
		encodeError(b, wc, id, owner)
		return
	}
	be.PutUint32(b[cqeBytes:], wc.ByteLen)
	be.PutUint64(b[cqeTimestamp:], uint64(clock.Now()))
	op := uint8(cqeReq)
	switch {
	case id.frame():
		op = cqeRespSend
		encodeFrame(b, wc)
		if id.part() {
			encodePart(b, wc, id)
		}
	case id.receive():
		op = receiveOp(wc)
		grh := uint32(0)
		if wc.Flags&rxe.WCGRH != 0 {
			grh = 1
		}
		be.PutUint32(b[cqeFlagsQPN:], grh<<28|uint32(wc.SL&0xf)<<24|uint32(wc.SrcQP))
		switch {
		case wc.Flags&rxe.WCWithInv != 0:
			be.PutUint32(b[cqeImm:], uint32(wc.InvRKey))
		case wc.Flags&rxe.WCWithImm != 0:
			be.PutUint32(b[cqeImm:], wc.Imm)
		default:
			be.PutUint32(b[cqeImm:], uint32(wc.PKeyIndex))
		}
	}
	b[cqeOwner] = opOwner(op, owner)
}

// The field byte_cnt of a striding queue, behind the 16 bits of the length.
const (
	byteCountStrides = 16
	byteCountFiller  = 1 << 31
)

// encodePart says in a completion which strides it is of.
func encodePart(b *[cqeSize]byte, wc *rxe.WC, id wrID) {
	be, count := binary.BigEndian, wc.ByteLen|uint32(id.strides())<<byteCountStrides
	if id.filler() {
		count |= byteCountFiller
	}
	be.PutUint32(b[cqeBytes:], count)
	be.PutUint16(b[cqeWQE:], id.counter())
	be.PutUint16(b[cqeCounter:], id.first())
}

// opOwner is the field op_own.
func opOwner(op, owner uint8) uint8 { return op<<4 | owner }

func encodeError(b *[cqeSize]byte, wc *rxe.WC, id wrID, owner uint8) {
	op := uint8(cqeReqErr)
	if id.receive() {
		op = cqeRespErr
	}
	if int(wc.Status) < len(syndromes) {
		b[cqeSyndrome] = syndromes[wc.Status]
	}
	b[cqeVendorErr] = uint8(wc.VendorErr)
	if wc.VendorErr == 0 {
		b[cqeVendorErr] = vendorErrors[wc.Status]
	}
	b[cqeOwner] = opOwner(op, owner)
}

func receiveOp(wc *rxe.WC) uint8 {
	switch {
	case wc.Opcode == rxe.WCRecvImm:
		return cqeRespWriteIm
	case wc.Flags&rxe.WCWithInv != 0:
		return cqeRespSendInv
	case wc.Flags&rxe.WCWithImm != 0:
		return cqeRespSendImm
	default:
		return cqeRespSend
	}
}

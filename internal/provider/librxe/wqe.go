package librxe

import (
	"encoding/binary"
	"math"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// struct rxe_send_wqe: a struct rxe_send_wr, the driver's own fields, a struct
// rxe_dma_info, and behind it the gather list or the inline data.
const (
	sendWRID   = 0
	sendOpcode = 12
	sendFlags  = 16
	sendEx     = 20 // imm_data in network order, or invalidate_rkey

	sendRDMAAddr    = 24 // wr.rdma, and the address of wr.atomic and wr.flush
	sendRDMARKey    = 32
	sendAtomicAdd   = 32 // compare_add
	sendAtomicSwap  = 40
	sendAtomicRKey  = 48
	sendFlushRKey   = 36
	sendFlushType   = 40
	sendFlushLevel  = 41
	sendUDQPN       = 24
	sendUDQKey      = 28
	sendUDAHNum     = 36
	sendUDAV        = 56
	sendMWAddr      = 24
	sendMWLength    = 32
	sendMWMRLKey    = 40
	sendMWRKey      = 44 // mw_rkey: the window's present key
	sendMWNewRKey   = 48
	sendMWAccess    = 52
	sendLength      = 184 // dma.length
	sendNumSGE      = 196 // dma.num_sge
	sendPayload     = 208 // dma.sge, dma.inline_data, dma.atomic_wr
	sendHeadSize    = sendPayload
	atomicWordBytes = 8

	avPort         = 0
	avDGID         = 8
	avFlowLabel    = 24
	avSGIDIndex    = 28
	avHopLimit     = 29
	avTrafficClass = 30
	avSize         = 88
)

// knownSendFlags are those that rxe.SendFlags has.
const knownSendFlags = uint32(rxe.SendFence | rxe.SendSignaled | rxe.SendSolicited | rxe.SendInline)

// sendHead is the copy of a send WQE without its list.
type sendHead [sendHeadSize]byte

func (h *sendHead) u32(off int) uint32 { return binary.NativeEndian.Uint32(h[off:]) }
func (h *sendHead) u64(off int) uint64 { return binary.NativeEndian.Uint64(h[off:]) }

// payloadKind is what follows the head of a send WQE.
type payloadKind uint8

const (
	payloadNone payloadKind = iota
	payloadSGL
	payloadInline
)

// payload returns what follows the head, and how many bytes of it to copy.
//
// The list's length counts, not dma.length: librxe 44 fills that wrongly for
// lists (wr_set_sge_list), and the kernel then sends too much or too little.
// Bytes without a list can only be inline data: ibv_wr_set_inline_data does not
// set IBV_SEND_INLINE, as providers of hardware do not need it to.
func (h *sendHead) payload() (kind payloadKind, n uint32) {
	length, sges := h.u32(sendLength), h.u32(sendNumSGE)
	switch rxe.WROpcode(min(h.u32(sendOpcode), math.MaxUint8)) {
	case rxe.WRLocalInv, rxe.WRBindMW, rxe.WRFlush:
		return payloadNone, 0
	case rxe.WRAtomicWrite:
		// dma.atomic_wr, which no flag announces.
		if sges == 0 {
			return payloadInline, atomicWordBytes
		}
	case rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd:
		return payloadSGL, sges * sgeSize
	default:
	}
	if rxe.SendFlags(h.u32(sendFlags)&knownSendFlags)&rxe.SendInline != 0 || sges == 0 {
		return payloadInline, length
	}
	return payloadSGL, sges * sgeSize
}

// inlineAnswer reports whether the payload is inline data in place of the list that the answer goes
// to. The manual has IBV_SEND_INLINE for SEND and WRITE only (ibv_post_send(3)). rdma_rxe takes the
// data for a list, whose keys then give no access.
func (h *sendHead) inlineAnswer(op rxe.WROpcode) bool {
	switch op {
	case rxe.WRRead, rxe.WRCompareSwap, rxe.WRFetchAdd:
		flagged := rxe.SendFlags(h.u32(sendFlags)&knownSendFlags)&rxe.SendInline != 0
		return flagged || h.u32(sendNumSGE) == 0 && h.u32(sendLength) != 0
	default:
		return false
	}
}

// fill makes a work request of the head alone. Its result, if it is not WCSuccess, is the
// status with which rdma_rxe completes such a request (rxe_requester, rxe_do_local_ops, and
// what a peer would have answered).
func (h *sendHead) fill(wr *rxe.SendWR, refs *references, typ rxe.QPType) rxe.WCStatus {
	*wr = rxe.SendWR{
		ID:    h.u64(sendWRID),
		Flags: rxe.SendFlags(h.u32(sendFlags) & knownSendFlags &^ uint32(rxe.SendInline)),
	}
	wr.Op = rxe.WROpcode(min(h.u32(sendOpcode), math.MaxUint8))
	if !typ.Sends(wr.Op) {
		return rxe.WCLocQPOpErr
	}
	if h.inlineAnswer(wr.Op) {
		return rxe.WCLocProtErr
	}
	if typ == rxe.QPUD {
		wr.RemoteQPN = wire.QPN(h.u32(sendUDQPN) & wire.QPNMask)
		wr.RemoteQKey = h.u32(sendUDQKey)
		wr.Imm = binary.BigEndian.Uint32(h[sendEx:])
		refs.names.ahNum = h.u32(sendUDAHNum)
		if refs.names.ahNum == 0 {
			refs.names.av = h.ahAttr()
		}
		return rxe.WCSuccess
	}
	switch wr.Op {
	case rxe.WRWriteImm, rxe.WRSendImm:
		wr.Imm = binary.BigEndian.Uint32(h[sendEx:])
	case rxe.WRSendInv, rxe.WRLocalInv:
		wr.InvRKey = wire.RKey(h.u32(sendEx))
	default:
	}
	switch wr.Op {
	case rxe.WRWrite, rxe.WRWriteImm, rxe.WRRead, rxe.WRAtomicWrite:
		wr.RemoteAddr = h.u64(sendRDMAAddr)
		wr.RKey = wire.RKey(h.u32(sendRDMARKey))
	case rxe.WRCompareSwap, rxe.WRFetchAdd:
		wr.RemoteAddr = h.u64(sendRDMAAddr)
		wr.RKey = wire.RKey(h.u32(sendAtomicRKey))
		wr.CompareAdd = h.u64(sendAtomicAdd)
		wr.Swap = h.u64(sendAtomicSwap)
	case rxe.WRFlush:
		wr.RemoteAddr = h.u64(sendRDMAAddr)
		wr.RKey = wire.RKey(h.u32(sendFlushRKey))
		wr.FlushType, wr.FlushLevel = h[sendFlushType], h[sendFlushLevel]
		wr.FlushLength = h.u32(sendLength)
	case rxe.WRBindMW:
		h.fillBind(wr, refs)
	default:
	}
	if wr.RemoteAddr%atomicWordBytes != 0 && (wr.Op == rxe.WRCompareSwap || wr.Op == rxe.WRFetchAdd ||
		wr.Op == rxe.WRAtomicWrite) {
		return rxe.WCRemInvReqErr // ibv_wr_atomic_* do not look
	}
	return rxe.WCSuccess
}

func (h *sendHead) fillBind(wr *rxe.SendWR, refs *references) {
	refs.names.mwRKey, refs.names.mrLKey = h.u32(sendMWRKey), h.u32(sendMWMRLKey)
	refs.bind = rxe.MWBind{
		RKey:   wire.RKey(h.u32(sendMWNewRKey)),
		Addr:   h.u64(sendMWAddr),
		Length: h.u64(sendMWLength),
		// Local rights say nothing about a window: rdma_rxe ignores them, and pyverbs'
		// tests give them.
		Access: rxe.Access(h.u32(sendMWAccess)) &^ (rxe.AccessLocalWrite | rxe.AccessMWBind),
	}
	wr.Bind = &refs.bind
}

// setSGL decodes the list into room. b is its copy.
func setSGL(wr *rxe.SendWR, b []byte, room []rxe.SGE) rxe.WCStatus {
	var total uint64
	for i := range room {
		room[i] = decodeSGE(b[i*sgeSize:])
		total += uint64(room[i].Length)
	}
	wr.SGL = room
	switch {
	case total > rxe.MaxMessage:
		return rxe.WCLocLenErr
	case (wr.Op == rxe.WRCompareSwap || wr.Op == rxe.WRFetchAdd) && total != atomicWordBytes:
		// librxe refuses fewer bytes in ibv_post_send. rdma_rxe fills the first 8 of more; adapters
		// say this.
		return rxe.WCLocLenErr
	default:
	}
	return rxe.WCSuccess
}

// AHAttr is the address vector, a struct rxe_av, in the WQE of a librxe that knows no AH numbers
// (rdma-core before 37).
func (h *sendHead) ahAttr() rxe.AHAttr {
	av := h[sendUDAV : sendUDAV+avSize]
	return rxe.AHAttr{
		DGID:         wire.GID(av[avDGID : avDGID+16]),
		SGIDIndex:    av[avSGIDIndex],
		FlowLabel:    binary.NativeEndian.Uint32(av[avFlowLabel:]) & 0xfffff,
		HopLimit:     av[avHopLimit],
		TrafficClass: av[avTrafficClass],
		PortNum:      av[avPort],
	}
}

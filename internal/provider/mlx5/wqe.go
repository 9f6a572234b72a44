package mlx5

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// A send work request is a list of segments (mlx5dv.h: struct mlx5_wqe_*_seg) in blocks. It begins
// with a control segment.
const (
	blockShift = 6 // MLX5_SEND_WQE_SHIFT
	blockSize  = 1 << blockShift
	unit       = 16 // of the length in the control segment

	ctrlOp    = 0 // opmod_idx_opcode
	ctrlLen   = 4 // qpn_ds
	ctrlFlags = 11
	ctrlImm   = 12
	ctrlSize  = 16

	flagsUpdate    = 2 << 2 // MLX5_WQE_CTRL_CQ_UPDATE
	flagsUpdates   = 3 << 2 // the bits of it
	flagsSolicited = 1 << 1
	flagsFence     = 4 << 5

	xrcSize = 16 // struct mlx5_wqe_xrc_seg of libmlx5, in no header: the number of an SRQ

	raddrKey    = 8
	raddrSize   = 16
	atomicOther = 8 // compare
	atomicSize  = 16

	avQPN      = 8
	avTClass   = 26
	avHops     = 27
	avGID      = 28 // grh_gid_fl
	avRGID     = 32
	avSize     = 48
	avExtended = 1 << 31

	dataKey    = 4
	dataAddr   = 8
	dataSize   = 16
	dataInline = 1 << 31
	lastKey    = 0x100 // MLX5_INVALID_LKEY ends a receive request's list

	umrMask     = 8 // mkey_mask
	umrCtrlSize = 48
	mkeyFree    = 0
	mkeyAccess  = 2
	mkeyKey     = 4 // qpn_mkey
	mkeyStart   = 16
	mkeyLen     = 24
	mkeySize    = 64
	klmKey      = 4
	klmAddr     = 8
	klmSize     = 64 // with its padding

	umrInline   = 1 << 7
	umrMaskLen  = 1 << 0
	umrMaskQPN  = 1 << 14
	mkeyFreeBit = 1 << 6
)

// Operations (MLX5_OPCODE_*).
const (
	opNop      = 0x00
	opSendInv  = 0x01
	opWrite    = 0x08
	opWriteImm = 0x09
	opSend     = 0x0a
	opSendImm  = 0x0b
	opRead     = 0x10
	opTSO      = 0x0e
	opCompSwap = 0x11
	opFetchAdd = 0x12
	opUMR      = 0x25
)

var engineOps = map[uint8]rxe.WROpcode{
	opNop: rxe.WRNop, opSendInv: rxe.WRSendInv, opWrite: rxe.WRWrite, opWriteImm: rxe.WRWriteImm,
	opSend: rxe.WRSend, opTSO: rxe.WRSend, opSendImm: rxe.WRSendImm, opRead: rxe.WRRead,
	opCompSwap: rxe.WRCompareSwap, opFetchAdd: rxe.WRFetchAdd,
}

// request is a decoded work request. Its lists are in room of its own, which is used again.
type request struct {
	wr     rxe.SendWR
	blocks uint16
	sgl    []rxe.SGE
	inline []byte
	bind   rxe.MWBind
	window uint32 // of a bind: the window's present key
	region uint32 // of a bind: the region's key
	av     rxe.AHAttr
	// stored are pieces of the list that lie in the queue itself. The request has others, too.
	stored []storedPiece
}

// storedPiece is inline data in a list: sgl[index] is n bytes that begin at off in the request.
type storedPiece struct{ index, off, n int }

// decoder decodes the requests of a queue pair.
type decoder struct {
	typ  rxe.QPType
	qpn  uint32
	user uint32
}

// blocksOf returns how many blocks the request at the beginning of b has: 0 if its first segment
// cannot be right for the index at.
func (d *decoder) blocksOf(b []byte, at uint16) uint16 {
	be := binary.BigEndian
	n := be.Uint32(b[ctrlLen:])
	units := n & 0x3f
	if uint16(be.Uint32(b[ctrlOp:])>>8) != at || n>>8 != d.qpn || units == 0 {
		return 0
	}
	return uint16((units*unit + blockSize - 1) / blockSize)
}

// decode makes r of the request b, which is a copy, and has the length that its control segment
// says. The status of a malformed one is not WCSuccess.
func (d *decoder) decode(r *request, b []byte, at uint16) {
	be := binary.BigEndian
	op, flags := uint8(be.Uint32(b[ctrlOp:])), b[ctrlFlags]
	b = b[:be.Uint32(b[ctrlLen:])&0x3f*unit]
	r.wr = rxe.SendWR{ID: newID(0, d.user, op, at)}
	r.sgl, r.inline, r.stored = r.sgl[:0], r.inline[:0], r.stored[:0]
	if flags&flagsUpdates == flagsUpdate {
		r.wr.Flags |= rxe.SendSignaled
	}
	if flags&flagsSolicited != 0 {
		r.wr.Flags |= rxe.SendSolicited
	}
	if flags&flagsFence == flagsFence {
		r.wr.Flags |= rxe.SendFence
	}
	r.wr.Status = d.segments(r, op, b)
}

func (d *decoder) segments(r *request, op uint8, b []byte) rxe.WCStatus {
	be := binary.BigEndian
	imm, rest := be.Uint32(b[ctrlImm:]), b[ctrlSize:]
	if op == opUMR {
		return d.keys(r, imm, rest)
	}
	known := false
	r.wr.Op, known = engineOps[op]
	if !known || op != opNop && !d.typ.Sends(r.wr.Op) || op == opTSO && d.typ != rxe.QPRaw {
		return rxe.WCLocQPOpErr
	}
	r.wr.Imm, r.wr.InvRKey = imm, wire.RKey(imm)
	take := func(n int) (seg []byte) {
		if len(rest) >= n {
			seg, rest = rest[:n], rest[n:]
		}
		return seg
	}
	if op == opNop {
		return rxe.WCSuccess
	}
	if d.typ == rxe.QPXRCIni {
		seg := take(xrcSize)
		if seg == nil {
			return rxe.WCLocQPOpErr
		}
		r.wr.XRCSRQN = be.Uint32(seg)
	}
	if d.typ == rxe.QPRaw {
		n, ok := r.ethernet(op, rest, len(b)-len(rest))
		if !ok {
			return rxe.WCLocQPOpErr
		}
		rest = rest[n:]
	}
	switch op {
	case opWrite, opWriteImm, opRead, opCompSwap, opFetchAdd:
		seg := take(raddrSize)
		if seg == nil {
			return rxe.WCLocQPOpErr
		}
		r.wr.RemoteAddr, r.wr.RKey = be.Uint64(seg), wire.RKey(be.Uint32(seg[raddrKey:]))
	}
	switch {
	case op == opCompSwap, op == opFetchAdd:
		seg := take(atomicSize)
		if seg == nil {
			return rxe.WCLocQPOpErr
		}
		d.atomic(&r.wr, op, seg)
	case d.typ == rxe.QPUD:
		seg := take(avSize)
		if seg == nil || be.Uint32(seg[avQPN:])&avExtended == 0 {
			return rxe.WCLocQPOpErr
		}
		r.address(seg)
	}
	return r.data(rest, len(b)-len(rest))
}

func (d *decoder) atomic(wr *rxe.SendWR, op uint8, seg []byte) {
	value, compare := binary.BigEndian.Uint64(seg), binary.BigEndian.Uint64(seg[atomicOther:])
	if op == opFetchAdd {
		wr.CompareAdd = value
		return
	}
	wr.Swap, wr.CompareAdd = value, compare
}

// address reads a struct mlx5_wqe_av in its long form, which RoCE needs.
func (r *request) address(seg []byte) {
	be := binary.BigEndian
	gid := be.Uint32(seg[avGID:])
	r.wr.RemoteQKey, r.wr.RemoteQPN = be.Uint32(seg), wire.QPN(be.Uint32(seg[avQPN:])&uint32(wire.QPNMask))
	r.av = rxe.AHAttr{
		DGID: wire.GID(seg[avRGID : avRGID+16]), SGIDIndex: uint8(gid >> 20), FlowLabel: gid & 0xfffff,
		HopLimit: seg[avHops], TrafficClass: seg[avTClass], PortNum: 1,
	}
}

// data reads the list: pieces of memory, and pieces that are in the request itself. off is where
// rest begins in the request.
func (r *request) data(rest []byte, off int) rxe.WCStatus {
	be := binary.BigEndian
	var total uint64
	pieces := 0
	for len(rest) >= dataSize {
		n := be.Uint32(rest)
		size := dataSize
		if n&dataInline != 0 {
			length := int(n &^ dataInline)
			size = (length + 4 + unit - 1) &^ (unit - 1)
			if length > len(rest)-4 {
				return rxe.WCLocQPOpErr
			}
			r.stored = append(r.stored, storedPiece{len(r.sgl), off + 4, length})
			r.inline = append(r.inline, rest[4:4+length]...)
			r.sgl = append(r.sgl, rxe.SGE{Length: uint32(length)})
			total += uint64(length)
		} else {
			if n == 0 {
				n = 1 << 31 // as adapters have it: no other length needs 32 bits
			}
			r.sgl = append(r.sgl, rxe.SGE{Addr: be.Uint64(rest[dataAddr:]), Length: n,
				LKey: wire.LKey(be.Uint32(rest[dataKey:]))})
			total += uint64(n)
			pieces++
		}
		rest, off = rest[min(size, len(rest)):], off+size
	}
	switch {
	case total > rxe.MaxMessage:
		return rxe.WCLocLenErr
	case pieces == 0 && len(r.stored) > 0:
		r.wr.Flags |= rxe.SendInline
		r.wr.Inline, r.stored = r.inline, r.stored[:0]
	default:
		r.wr.SGL = r.sgl
	}
	return r.checkList(total)
}

// checkList checks what READs and atomics ask of their list, which has so many bytes.
func (r *request) checkList(total uint64) rxe.WCStatus {
	inline := r.wr.Flags&rxe.SendInline != 0
	atomic := r.wr.Op == rxe.WRCompareSwap || r.wr.Op == rxe.WRFetchAdd
	switch {
	case atomic && inline, r.wr.Op == rxe.WRRead && (inline || len(r.stored) > 0):
		return rxe.WCLocProtErr
	case atomic && total != 8:
		return rxe.WCLocLenErr
	case atomic && r.wr.RemoteAddr%8 != 0:
		return rxe.WCRemInvReqErr
	default:
		return rxe.WCSuccess
	}
}

// keys reads a change of a memory key. libmlx5 makes one of three verbs (set_bind_wr): a window's
// bind, its bind to nothing, and a local invalidation. imm is the key that changes.
func (d *decoder) keys(r *request, imm uint32, rest []byte) rxe.WCStatus {
	be := binary.BigEndian
	r.wr.Op = rxe.WRBindMW
	if len(rest) < umrCtrlSize+mkeySize || !d.typ.Sends(rxe.WRBindMW) {
		return rxe.WCLocQPOpErr
	}
	ctrl, mkey := rest[:umrCtrlSize], rest[umrCtrlSize:umrCtrlSize+mkeySize]
	mask := be.Uint64(ctrl[umrMask:])
	if ctrl[0]&umrInline == 0 {
		return rxe.WCLocQPOpErr // of regions: not offered
	}
	if mask&umrMaskLen == 0 && mask&umrMaskQPN != 0 {
		if mkey[mkeyFree]&mkeyFreeBit == 0 {
			return rxe.WCLocQPOpErr
		}
		r.wr.Op, r.wr.InvRKey = rxe.WRLocalInv, wire.RKey(imm)
		return rxe.WCSuccess
	}
	r.window = imm
	r.bind = rxe.MWBind{RKey: wire.RKey(imm&^0xff | be.Uint32(mkey[mkeyKey:])&0xff)}
	r.wr.Bind = &r.bind
	if mask&umrMaskLen == 0 {
		return rxe.WCSuccess
	}
	if len(rest) < umrCtrlSize+mkeySize+klmSize {
		return rxe.WCLocQPOpErr
	}
	klm := rest[umrCtrlSize+mkeySize:]
	r.region = be.Uint32(klm[klmKey:])
	r.bind.Addr, r.bind.Length = be.Uint64(klm[klmAddr:]), be.Uint64(mkey[mkeyLen:])
	r.bind.Access = windowAccess(mkey[mkeyAccess])
	if be.Uint64(mkey[mkeyStart:]) == 0 && r.bind.Addr != 0 {
		r.bind.Access |= rxe.AccessZeroBased
	}
	return rxe.WCSuccess
}

// windowAccess returns the remote rights of MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_*. Local ones say
// nothing about a window.
func windowAccess(flags uint8) (a rxe.Access) {
	for bit, right := range map[uint8]rxe.Access{
		1 << 6: rxe.AccessRemoteAtomic, 1 << 5: rxe.AccessRemoteWrite, 1 << 4: rxe.AccessRemoteRead,
	} {
		if flags&bit != 0 {
			a |= right
		}
	}
	return a
}

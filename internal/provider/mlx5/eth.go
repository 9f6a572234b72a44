package mlx5

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
)

// struct mlx5_wqe_eth_seg
const (
	ethFlags  = 4 // cs_flags
	ethMSS    = 6
	ethInline = 12 // inline_hdr_sz, or insert.type
	ethStart  = 14 // inline_hdr_start, or insert.vlan_tci
	ethSize   = 16 // with the first two bytes of the header

	ethL3Sum      = 1 << 6  // MLX5_ETH_WQE_L3_CSUM
	ethL4Sum      = 1 << 7  // MLX5_ETH_WQE_L4_CSUM
	ethInsertVLAN = 1 << 15 // MLX5_ETH_WQE_INSERT_VLAN
)

// ethernet reads the segment of a raw packet, at off in the request, and returns its size. The
// beginning of the frame may be in the segment.
func (r *request) ethernet(op uint8, b []byte, off int) (size int, ok bool) {
	if len(b) < ethSize {
		return 0, false
	}
	be, as := binary.BigEndian, rxe.FrameSend{}
	if b[ethFlags]&ethL3Sum != 0 {
		as.Flags |= rxe.FrameL3Sum
	}
	if b[ethFlags]&ethL4Sum != 0 {
		as.Flags |= rxe.FrameL4Sum
	}
	n := int(be.Uint16(b[ethInline:]))
	if n&ethInsertVLAN != 0 {
		as.Flags |= rxe.FrameInsertVLAN
		as.VLAN, n = be.Uint16(b[ethStart:]), 0
	}
	size = ethSize
	if n > ethSize-ethStart {
		size = (ethStart + n + unit - 1) &^ (unit - 1)
	}
	if size > len(b) {
		return 0, false
	}
	if op == opTSO {
		as.MSS, as.Header = be.Uint16(b[ethMSS:]), uint16(n)
		if as.MSS == 0 {
			return 0, false
		}
	}
	if n > 0 {
		r.stored = append(r.stored, storedPiece{0, off + ethStart, n})
		r.inline = append(r.inline, b[ethStart:ethStart+n]...)
		r.sgl = append(r.sgl, rxe.SGE{Length: uint32(n)})
	}
	r.wr.RemoteAddr = as.Word()
	return size, true
}

// struct mlx5_cqe64 of a raw packet
const (
	cqeHdsIPExt = 28
	cqeTypes    = 29 // l4_hdr_type_etc
	cqeVLAN     = 30

	cqeL3OK     = 1 << 1
	cqeL4OK     = 1 << 2
	cqeHasVLAN  = 1 << 0
	cqeL3Type   = 2 // bits of cqeTypes to the right
	cqeL4Type   = 4
	cqeFlowMask = 1<<24 - 1
	cqeHash     = 12 // rx_hash_result
	cqeHashType = 17
)

// encodeFrame says in a completion what is known of a received frame.
func encodeFrame(b *[cqeSize]byte, wc *rxe.WC) {
	f, be := wc.Frame(), binary.BigEndian
	if f.Flags&rxe.FrameL3OK != 0 {
		b[cqeHdsIPExt] |= cqeL3OK
	}
	if f.Flags&rxe.FrameL4OK != 0 {
		b[cqeHdsIPExt] |= cqeL4OK
	}
	b[cqeTypes] = f.L3<<cqeL3Type | f.L4<<cqeL4Type
	if f.Flags&rxe.FrameVLAN != 0 {
		b[cqeTypes] |= cqeHasVLAN
		be.PutUint16(b[cqeVLAN:], f.VLAN)
	}
	if f.Flags&rxe.FrameHash != 0 {
		be.PutUint32(b[cqeHash:], f.Hash)
		b[cqeHashType] = 1
	}
	be.PutUint32(b[cqeOpQPN:], f.Tag&cqeFlowMask)
}

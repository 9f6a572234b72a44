package wire

import "encoding/binary"

// Placement types and selectivity levels of a FLUSH (IBA A19).
const (
	FlushGlobal     uint8 = 1 << 0 // make the data visible to every agent
	FlushPersistent uint8 = 1 << 1 // make it survive a power failure

	FlushRange uint8 = 0 // the range of the RETH
	FlushMR    uint8 = 1 // the whole memory region

	fethPlacementMask = 0x0f
	fethLevelShift    = 4
	fethLevelMask     = 0x03
)

// Headers holds every header field that a packet can have, in host order. Put
// writes those that the opcode calls for and ignores the others; it masks each
// to its width on the wire.
type Headers struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	AckReq    bool
	FECN      bool
	BECN      bool
	Pad       uint8 // pad bytes after the payload, see PadLen
	PKey      PKey
	DestQP    QPN
	PSN       PSN

	VA     uint64 // RETH and AtomicETH
	RKey   RKey   // RETH and AtomicETH
	DMALen uint32 // RETH

	Syndrome Syndrome // AETH
	MSN      MSN      // AETH

	QKey  uint32 // DETH
	SrcQP QPN    // DETH

	Imm     uint32 // ImmDt
	InvRKey RKey   // IETH

	SwapAdd    uint64 // AtomicETH
	Compare    uint64 // AtomicETH
	AtomicOrig uint64 // AtomicAckETH

	XRCSRQN uint32 // XRCETH

	FlushPlacement uint8 // FETH
	FlushLevel     uint8 // FETH
}

// PadLen returns the number of pad bytes that follow a payload of n bytes, 0 to
// 3 (IBA 9.2).
func PadLen(n int) int { return -n & 3 }

// Len returns the length of the headers, 0 if the opcode does not exist.
func (h *Headers) Len() int { return h.Opcode.Info().HeaderLen }

// Append appends the headers to b.
func (h *Headers) Append(b []byte) []byte {
	var buf [MaxHeaderLen]byte
	return append(b, buf[:h.Put(buf[:])]...)
}

// Put writes the headers to the start of b, which must be at least Len long, and
// returns their length. It writes nothing if the opcode does not exist.
func (h *Headers) Put(b []byte) int {
	i := h.Opcode.Info()
	if !i.Valid() {
		return 0
	}
	b = b[:i.HeaderLen]
	h.putBTH(b)
	if i.HeaderLen == BTHLen {
		return BTHLen
	}
	be := binary.BigEndian
	if o := i.va; o != 0 {
		be.PutUint64(b[o:], h.VA)
		be.PutUint32(b[o+8:], uint32(h.RKey))
	}
	if o := i.RETH; o != 0 {
		be.PutUint32(b[o+12:], h.DMALen)
	}
	if o := i.AETH; o != 0 {
		be.PutUint32(b[o:], uint32(h.Syndrome)<<24|uint32(h.MSN)&MSNMask)
	}
	if o := i.DETH; o != 0 {
		be.PutUint32(b[o:], h.QKey)
		be.PutUint32(b[o+4:], uint32(h.SrcQP)&QPNMask)
	}
	if o := i.Imm; o != 0 {
		be.PutUint32(b[o:], h.Imm)
	}
	if o := i.IETH; o != 0 {
		be.PutUint32(b[o:], uint32(h.InvRKey))
	}
	if i.Has(HasAtomicETH | HasAtomicAckETH | HasXRCETH | HasFETH | HasCNP) {
		h.putRare(b, i)
	}
	return i.HeaderLen
}

func (h *Headers) putBTH(b []byte) {
	flags := h.Pad & bthPadMask << bthPadShift
	if h.Solicited {
		flags |= bthSolicited
	}
	if h.MigReq {
		flags |= bthMigReq
	}
	destQP := uint32(h.DestQP) & QPNMask
	if h.FECN {
		destQP |= bthFECN << 24
	}
	if h.BECN {
		destQP |= bthBECN << 24
	}
	psn := uint32(h.PSN) & PSNMask
	if h.AckReq {
		psn |= bthAckReq << 24
	}
	b[0], b[1] = byte(h.Opcode), flags
	binary.BigEndian.PutUint16(b[2:], uint16(h.PKey))
	binary.BigEndian.PutUint32(b[4:], destQP)
	binary.BigEndian.PutUint32(b[8:], psn)
}

// putRare writes the headers that no SEND, WRITE or READ has.
func (h *Headers) putRare(b []byte, i *OpInfo) {
	be := binary.BigEndian
	if o := i.AtomicETH; o != 0 {
		be.PutUint64(b[o+12:], h.SwapAdd)
		be.PutUint64(b[o+20:], h.Compare)
	}
	if o := i.AtomicAckETH; o != 0 {
		be.PutUint64(b[o:], h.AtomicOrig)
	}
	if o := i.XRCETH; o != 0 {
		be.PutUint32(b[o:], h.XRCSRQN&QPNMask)
	}
	if o := i.FETH; o != 0 {
		be.PutUint32(b[o:], uint32(h.FlushPlacement&fethPlacementMask)|
			uint32(h.FlushLevel&fethLevelMask)<<fethLevelShift)
	}
	if o := i.CNP; o != 0 {
		clear(b[o : o+CNPLen])
	}
}

// Headers returns all header fields of p. Put rebuilds p from them, apart from reserved
// bits.
func (p Packet) Headers() Headers {
	placement, level := p.FlushType()
	return Headers{
		Opcode:    p.Opcode(),
		Solicited: p.Solicited(),
		MigReq:    p.MigReq(),
		AckReq:    p.AckReq(),
		FECN:      p.FECN(),
		BECN:      p.BECN(),
		Pad:       uint8(p.Pad()),
		PKey:      p.PKey(),
		DestQP:    p.DestQP(),
		PSN:       p.PSN(),
		VA:        p.VA(),
		RKey:      p.RKey(),
		DMALen:    p.DMALen(),
		Syndrome:  p.Syndrome(),
		MSN:       p.MSN(),
		QKey:      p.QKey(),
		SrcQP:     p.SrcQP(),
		Imm:       p.Imm(),
		InvRKey:   p.InvRKey(),
		SwapAdd:   p.SwapAdd(),
		Compare:   p.Compare(),

		AtomicOrig:     p.AtomicOrig(),
		XRCSRQN:        p.XRCSRQN(),
		FlushPlacement: placement,
		FlushLevel:     level,
	}
}

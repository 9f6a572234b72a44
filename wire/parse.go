package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Byte 1 of the BTH: solicited event, migration state, pad count, version.
const (
	bthSolicited = 0x80
	bthMigReq    = 0x40
	bthPadShift  = 4
	bthPadMask   = 3
	bthTVerMask  = 0x0f
	// Byte 4; the other six bits are reserved and not covered by the ICRC.
	bthFECN = 0x80
	bthBECN = 0x40
	// Byte 8; the other seven bits are reserved.
	bthAckReq = 0x80
)

// Why Parse refuses a packet.
var (
	// ErrTruncated: shorter than the headers of its opcode, or not a whole number
	// of 4-byte words, as every InfiniBand packet must be.
	ErrTruncated = errors.New("packet truncated")
	// ErrTVer: a transport header version other than 0.
	ErrTVer = errors.New("unsupported transport header version")
	// ErrPad: more pad bytes than payload bytes.
	ErrPad = errors.New("pad count exceeds payload")
	// ErrOpcode: a reserved opcode, or one of an unsupported service.
	ErrOpcode = errors.New("unknown opcode")
)

// ParseError is the error of Parse. It unwraps to one of ErrTruncated, ErrTVer,
// ErrPad and ErrOpcode. Its values are shared, so that hostile packets cost no
// memory.
type ParseError struct {
	op  Opcode
	err error
}

// Opcode returns the opcode of the packet, 0 if it was too short to have one.
func (e *ParseError) Opcode() Opcode { return e.op }

func (e *ParseError) Unwrap() error { return e.err }

func (e *ParseError) Error() string {
	if e == &errShort {
		return "wire: " + e.err.Error()
	}
	return fmt.Sprintf("wire: %v: %v", e.op, e.err)
}

var (
	errShort     = ParseError{err: ErrTruncated}
	errTruncated = parseErrors(ErrTruncated)
	errTVer      = parseErrors(ErrTVer)
	errPad       = parseErrors(ErrPad)
	errOpcode    = parseErrors(ErrOpcode)
)

func parseErrors(err error) (t [256]ParseError) {
	for op := range t {
		t[op] = ParseError{op: Opcode(op), err: err}
	}
	return t
}

// Packet is a view of one valid packet, BTH through pad, without ICRC. It
// aliases the bytes given to Parse. Getters of a header that the opcode does not
// have return 0. The zero Packet is empty and its getters must not be called.
type Packet struct {
	b    []byte
	info *OpInfo
}

// Parse checks b, which holds a packet from its BTH through its pad bytes, and
// returns a view of it. The error is always a *ParseError. Reserved bits are ignored,
// because hardware does set them. Payload after an opcode that has none is not an error
// here, because the responder answers such a request with a NAK.
func Parse(b []byte) (Packet, error) {
	if len(b) < BTHLen {
		return Packet{}, &errShort
	}
	op := Opcode(b[0])
	if b[1]&bthTVerMask != 0 {
		return Packet{}, &errTVer[op]
	}
	info := op.Info()
	if !info.Valid() {
		return Packet{}, &errOpcode[op]
	}
	payload := len(b) - info.HeaderLen
	if payload < 0 || payload%4 != 0 {
		return Packet{}, &errTruncated[op]
	}
	if pad := int(b[1] >> bthPadShift & bthPadMask); pad > payload {
		return Packet{}, &errPad[op]
	}
	return Packet{b, info}, nil
}

// Bytes returns the whole packet.
func (p Packet) Bytes() []byte { return p.b }

// Opcode returns the BTH opcode.
func (p Packet) Opcode() Opcode { return Opcode(p.b[0]) }

// Info returns the table entry of the opcode.
func (p Packet) Info() *OpInfo { return p.info }

// Solicited returns the solicited event bit.
func (p Packet) Solicited() bool { return p.b[1]&bthSolicited != 0 }

// MigReq returns the migration request bit. Hardware sets it in every packet,
// Linux rdma_rxe in none.
func (p Packet) MigReq() bool { return p.b[1]&bthMigReq != 0 }

// Pad returns the number of pad bytes after the payload, 0 to 3.
func (p Packet) Pad() int { return int(p.b[1] >> bthPadShift & bthPadMask) }

// PKey returns the partition key.
func (p Packet) PKey() PKey { return PKey(binary.BigEndian.Uint16(p.b[2:])) }

// FECN returns the forward congestion bit.
func (p Packet) FECN() bool { return p.b[4]&bthFECN != 0 }

// BECN returns the backward congestion bit.
func (p Packet) BECN() bool { return p.b[4]&bthBECN != 0 }

// DestQP returns the destination queue pair.
func (p Packet) DestQP() QPN { return QPN(p.u24(4)) }

// AckReq returns the acknowledge request bit.
func (p Packet) AckReq() bool { return p.b[8]&bthAckReq != 0 }

// PSN returns the packet sequence number.
func (p Packet) PSN() PSN { return PSN(p.u24(8)) }

// VA returns the virtual address of the RETH or AtomicETH.
func (p Packet) VA() uint64 { return p.u64(p.info.va, 0) }

// RKey returns the key of the RETH or AtomicETH.
func (p Packet) RKey() RKey { return RKey(p.u32(p.info.va, 8)) }

// DMALen returns the message length of the RETH in bytes.
func (p Packet) DMALen() uint32 { return p.u32(p.info.RETH, 12) }

// Syndrome returns the syndrome of the AETH. It is 0, an ACK without credits,
// if there is no AETH.
func (p Packet) Syndrome() Syndrome { return Syndrome(p.u32(p.info.AETH, 0) >> 24) }

// MSN returns the message sequence number of the AETH.
func (p Packet) MSN() MSN { return MSN(p.u32(p.info.AETH, 0) & MSNMask) }

// QKey returns the queue key of the DETH.
func (p Packet) QKey() uint32 { return p.u32(p.info.DETH, 0) }

// SrcQP returns the source queue pair of the DETH.
func (p Packet) SrcQP() QPN { return QPN(p.u32(p.info.DETH, 4) & QPNMask) }

// Imm returns the immediate data, as a number in network order.
func (p Packet) Imm() uint32 { return p.u32(p.info.Imm, 0) }

// InvRKey returns the key that the IETH asks to invalidate.
func (p Packet) InvRKey() RKey { return RKey(p.u32(p.info.IETH, 0)) }

// SwapAdd returns the swap or add operand of the AtomicETH.
func (p Packet) SwapAdd() uint64 { return p.u64(p.info.AtomicETH, 12) }

// Compare returns the compare operand of the AtomicETH.
func (p Packet) Compare() uint64 { return p.u64(p.info.AtomicETH, 20) }

// AtomicOrig returns the original value that an AtomicAckETH reports.
func (p Packet) AtomicOrig() uint64 { return p.u64(p.info.AtomicAckETH, 0) }

// XRCSRQN returns the shared receive queue number of the XRCETH.
func (p Packet) XRCSRQN() uint32 { return p.u32(p.info.XRCETH, 0) & QPNMask }

// FlushType returns the placement (a mask of FlushGlobal and FlushPersistent)
// and selectivity level (FlushRange or FlushMR) of the FETH.
func (p Packet) FlushType() (placement, level uint8) {
	feth := p.u32(p.info.FETH, 0)
	return uint8(feth & fethPlacementMask), uint8(feth >> fethLevelShift & fethLevelMask)
}

// Payload returns the payload without its pad bytes.
func (p Packet) Payload() []byte {
	return p.b[p.info.HeaderLen : len(p.b)-p.Pad()]
}

// u24 returns the low 24 bits of the word at off.
func (p Packet) u24(off int) uint32 { return binary.BigEndian.Uint32(p.b[off:]) & 0xffffff }

// u32 and u64 read a field of the header at offset h. If h is 0, the packet does not
// have that header, and they return 0.
func (p Packet) u32(h uint8, field int) uint32 {
	if h == 0 {
		return 0
	}
	return binary.BigEndian.Uint32(p.b[int(h)+field:])
}

func (p Packet) u64(h uint8, field int) uint64 {
	if h == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(p.b[int(h)+field:])
}

package layers

import (
	"encoding/binary"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/wire"
)

// The extension transport headers as gopacket gplayers. Each has its fields, its
// layer type, and the serialization of one header.

// DETH is the datagram header (IBA 9.3).
type DETH struct {
	gplayers.BaseLayer
	QKey  uint32
	SrcQP wire.QPN
}

// XRCETH is the extended reliable connection header (IBA A14.4.3).
type XRCETH struct {
	gplayers.BaseLayer
	SRQN uint32
}

// FETH is the flush header (IBA A19.4.1).
type FETH struct {
	gplayers.BaseLayer
	Placement uint8 // 4 bits
	Level     uint8 // 2 bits, selectivity
}

// RETH is the RDMA header (IBA 9.3).
type RETH struct {
	gplayers.BaseLayer
	VA     uint64
	RKey   wire.RKey
	Length uint32 // of the message, bytes
}

// AtomicETH is the header of an atomic request (IBA 9.3).
type AtomicETH struct {
	gplayers.BaseLayer
	VA      uint64
	RKey    wire.RKey
	SwapAdd uint64
	Compare uint64
}

// AETH is the acknowledge header (IBA 9.3).
type AETH struct {
	gplayers.BaseLayer
	Syndrome wire.Syndrome
	MSN      wire.MSN
}

// AtomicAckETH is the result of an atomic request (IBA 9.3).
type AtomicAckETH struct {
	gplayers.BaseLayer
	Original uint64
}

// ImmDt is immediate data (IBA 9.3).
type ImmDt struct {
	gplayers.BaseLayer
	Imm uint32
}

// IETH is the header of a send with invalidate (IBA 9.3).
type IETH struct {
	gplayers.BaseLayer
	RKey wire.RKey
}

// CNP is the reserved block of a congestion notification packet (IBA A17.9.3).
type CNP struct{ gplayers.BaseLayer }

func (*DETH) LayerType() gopacket.LayerType         { return LayerTypeDETH }
func (*XRCETH) LayerType() gopacket.LayerType       { return LayerTypeXRCETH }
func (*FETH) LayerType() gopacket.LayerType         { return LayerTypeFETH }
func (*RETH) LayerType() gopacket.LayerType         { return LayerTypeRETH }
func (*AtomicETH) LayerType() gopacket.LayerType    { return LayerTypeAtomicETH }
func (*AETH) LayerType() gopacket.LayerType         { return LayerTypeAETH }
func (*AtomicAckETH) LayerType() gopacket.LayerType { return LayerTypeAtomicAckETH }
func (*ImmDt) LayerType() gopacket.LayerType        { return LayerTypeImmDt }
func (*IETH) LayerType() gopacket.LayerType         { return LayerTypeIETH }
func (*CNP) LayerType() gopacket.LayerType          { return LayerTypeCNP }

var be = binary.BigEndian

func decodeDETH(l gplayers.BaseLayer) gopacket.Layer {
	return &DETH{l, be.Uint32(l.Contents), wire.QPN(be.Uint32(l.Contents[4:]) & wire.QPNMask)}
}

func decodeXRCETH(l gplayers.BaseLayer) gopacket.Layer {
	return &XRCETH{l, be.Uint32(l.Contents) & wire.QPNMask}
}

func decodeFETH(l gplayers.BaseLayer) gopacket.Layer {
	return &FETH{l, l.Contents[3] & 0xf, l.Contents[3] >> 4 & 3}
}

func decodeRETH(l gplayers.BaseLayer) gopacket.Layer {
	return &RETH{l, be.Uint64(l.Contents), wire.RKey(be.Uint32(l.Contents[8:])), be.Uint32(l.Contents[12:])}
}

func decodeAtomicETH(l gplayers.BaseLayer) gopacket.Layer {
	c := l.Contents
	return &AtomicETH{l, be.Uint64(c), wire.RKey(be.Uint32(c[8:])), be.Uint64(c[12:]), be.Uint64(c[20:])}
}

func decodeAETH(l gplayers.BaseLayer) gopacket.Layer {
	return &AETH{l, wire.Syndrome(l.Contents[0]), wire.MSN(be.Uint32(l.Contents) & wire.MSNMask)}
}

func decodeAtomicAckETH(l gplayers.BaseLayer) gopacket.Layer {
	return &AtomicAckETH{l, be.Uint64(l.Contents)}
}

func decodeImmDt(l gplayers.BaseLayer) gopacket.Layer { return &ImmDt{l, be.Uint32(l.Contents)} }

func decodeIETH(l gplayers.BaseLayer) gopacket.Layer {
	return &IETH{l, wire.RKey(be.Uint32(l.Contents))}
}

func decodeCNP(l gplayers.BaseLayer) gopacket.Layer { return &CNP{l} }

// prepend makes room for a header of n bytes.
func prepend(b gopacket.SerializeBuffer, n int) ([]byte, error) {
	h, err := b.PrependBytes(n)
	clear(h)
	return h, err
}

// SerializeTo writes the header.
func (d *DETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.DETHLen)
	if err == nil {
		be.PutUint32(h, d.QKey)
		be.PutUint32(h[4:], uint32(d.SrcQP)&wire.QPNMask)
	}
	return err
}

// SerializeTo writes the header.
func (x *XRCETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.XRCETHLen)
	if err == nil {
		be.PutUint32(h, x.SRQN&wire.QPNMask)
	}
	return err
}

// SerializeTo writes the header.
func (f *FETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.FETHLen)
	if err == nil {
		h[3] = f.Level&3<<4 | f.Placement&0xf
	}
	return err
}

// SerializeTo writes the header.
func (r *RETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.RETHLen)
	if err == nil {
		be.PutUint64(h, r.VA)
		be.PutUint32(h[8:], uint32(r.RKey))
		be.PutUint32(h[12:], r.Length)
	}
	return err
}

// SerializeTo writes the header.
func (a *AtomicETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.AtomicETHLen)
	if err == nil {
		be.PutUint64(h, a.VA)
		be.PutUint32(h[8:], uint32(a.RKey))
		be.PutUint64(h[12:], a.SwapAdd)
		be.PutUint64(h[20:], a.Compare)
	}
	return err
}

// SerializeTo writes the header.
func (a *AETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.AETHLen)
	if err == nil {
		be.PutUint32(h, uint32(a.Syndrome)<<24|uint32(a.MSN)&wire.MSNMask)
	}
	return err
}

// SerializeTo writes the header.
func (a *AtomicAckETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.AtomicAckETHLen)
	if err == nil {
		be.PutUint64(h, a.Original)
	}
	return err
}

// SerializeTo writes the header.
func (i *ImmDt) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.ImmLen)
	if err == nil {
		be.PutUint32(h, i.Imm)
	}
	return err
}

// SerializeTo writes the header.
func (i *IETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := prepend(b, wire.IETHLen)
	if err == nil {
		be.PutUint32(h, uint32(i.RKey))
	}
	return err
}

// SerializeTo writes the block, which is all zeros.
func (*CNP) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	_, err := prepend(b, wire.CNPLen)
	return err
}

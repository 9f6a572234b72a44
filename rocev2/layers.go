package rocev2

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/wire"
)

// Layer types of RoCEv2. Importing this package makes gopacket decode UDP port
// 4791: a BTH layer, a layer for each extension header that the opcode has, in
// the order in which they travel, and the payload without pad and ICRC.
var (
	LayerTypeBTH          = layerType(0, "BTH", gopacket.DecodeFunc(decodeBTH))
	LayerTypeDETH         = layerType(1, "DETH", nil)
	LayerTypeXRCETH       = layerType(2, "XRCETH", nil)
	LayerTypeFETH         = layerType(3, "FETH", nil)
	LayerTypeRETH         = layerType(4, "RETH", nil)
	LayerTypeAtomicETH    = layerType(5, "AtomicETH", nil)
	LayerTypeAETH         = layerType(6, "AETH", nil)
	LayerTypeAtomicAckETH = layerType(7, "AtomicAckETH", nil)
	LayerTypeImmDt        = layerType(8, "ImmDt", nil)
	LayerTypeIETH         = layerType(9, "IETH", nil)
	LayerTypeCNP          = layerType(10, "CNP", nil)
)

// layerType registers numbers outside those that gopacket keeps for itself. An
// extension header cannot be decoded alone: only the BTH before it tells that
// it is there, and what follows.
func layerType(n int, name string, decoder gopacket.Decoder) gopacket.LayerType {
	if decoder == nil {
		decoder = gopacket.DecodeFunc(func([]byte, gopacket.PacketBuilder) error {
			return errors.New("rocev2: " + name + " follows a BTH only")
		})
	}
	return gopacket.RegisterLayerType(47910+n, gopacket.LayerTypeMetadata{Name: name, Decoder: decoder})
}

func init() { layers.RegisterUDPPortLayerType(wire.UDPPort, LayerTypeBTH) }

// BTH is the base transport header (IBA 9.2) and, from the packet's end, the pad
// count's bytes and the ICRC.
type BTH struct {
	layers.BaseLayer
	Opcode     wire.Opcode
	Solicited  bool
	MigReq     bool
	PadCount   uint8 // 0 to 3
	Version    uint8 // TVer
	PKey       wire.PKey
	FECN, BECN bool
	DestQP     wire.QPN
	AckReq     bool
	PSN        wire.PSN
	ICRC       uint32 // as a number; it travels little-endian

	icrc func(pkt []byte) uint32 // SetHeadersForICRC
}

// LayerType returns LayerTypeBTH.
func (b *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH, for gopacket.DecodingLayer.
func (b *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType is the payload: with gopacket.DecodingLayerParser a BTH's
// payload begins with its extension headers, which Extensions decodes.
func (b *BTH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes decodes a UDP payload. It needs no more than a BTH and an ICRC
// and takes any opcode.
func (b *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < minPacket {
		df.SetTruncated()
		return fmt.Errorf("rocev2: %d bytes are less than a BTH and an ICRC", len(data))
	}
	end := len(data) - icrcLen
	*b = BTH{
		Opcode:    wire.Opcode(data[0]),
		Solicited: data[1]&0x80 != 0,
		MigReq:    data[1]&0x40 != 0,
		PadCount:  data[1] >> 4 & 3,
		Version:   data[1] & 0xf,
		PKey:      wire.PKey(binary.BigEndian.Uint16(data[2:])),
		FECN:      data[4]&0x80 != 0,
		BECN:      data[4]&0x40 != 0,
		DestQP:    wire.QPN(binary.BigEndian.Uint32(data[4:]) & wire.QPNMask),
		AckReq:    data[8]&0x80 != 0,
		PSN:       wire.PSN(binary.BigEndian.Uint32(data[8:]) & 0xffffff),
		ICRC:      binary.LittleEndian.Uint32(data[end:]),
	}
	if int(b.PadCount) > end-bthLen {
		df.SetTruncated()
		return fmt.Errorf("rocev2: %d pad bytes in %d", b.PadCount, end-bthLen)
	}
	b.Contents = data[:bthLen]
	b.Payload = data[bthLen : end-int(b.PadCount)]
	return nil
}

// Extensions decodes the extension headers at the start of b.Payload, which the
// opcode tells. An opcode that IBA does not define has none.
func (b *BTH) Extensions() ([]gopacket.Layer, error) {
	info := b.Opcode.Info()
	if !info.Valid() {
		return nil, nil
	}
	if bthLen+len(b.Payload) < info.HeaderLen {
		return nil, fmt.Errorf("rocev2: %v: %d bytes are less than its headers", b.Opcode, bthLen+len(b.Payload))
	}
	var exts []gopacket.Layer
	rest := b.Payload
	for _, e := range extensions {
		if info.Has(e.flag) {
			exts = append(exts, e.decode(layers.BaseLayer{Contents: rest[:e.length], Payload: rest[e.length:]}))
			rest = rest[e.length:]
		}
	}
	return exts, nil
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	b := new(BTH)
	if err := b.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(b)
	exts, err := b.Extensions()
	if err != nil {
		p.SetTruncated()
		return err
	}
	rest := b.Payload
	for _, e := range exts {
		p.AddLayer(e)
		rest = e.LayerPayload()
	}
	if len(rest) == 0 {
		return nil
	}
	return p.NextDecoder(gopacket.LayerTypePayload)
}

// extensions are the extension headers in the order in which they travel.
var extensions = [...]struct {
	flag   wire.OpFlags
	length int
	decode func(layers.BaseLayer) gopacket.Layer
}{
	{wire.HasDETH, wire.DETHLen, decodeDETH},
	{wire.HasXRCETH, wire.XRCETHLen, decodeXRCETH},
	{wire.HasFETH, wire.FETHLen, decodeFETH},
	{wire.HasRETH, wire.RETHLen, decodeRETH},
	{wire.HasAtomicETH, wire.AtomicETHLen, decodeAtomicETH},
	{wire.HasAETH, wire.AETHLen, decodeAETH},
	{wire.HasAtomicAckETH, wire.AtomicAckETHLen, decodeAtomicAckETH},
	{wire.HasImm, wire.ImmLen, decodeImmDt},
	{wire.HasIETH, wire.IETHLen, decodeIETH},
	{wire.HasCNP, wire.CNPLen, decodeCNP},
}

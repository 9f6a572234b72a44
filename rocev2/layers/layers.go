package layers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/wire"
)

// The layer types of RoCEv2. Their numbers are outside the range that gopacket keeps
// for itself.
const (
	LayerTypeBTH gopacket.LayerType = 47910 + iota
	LayerTypeDETH
	LayerTypeXRCETH
	LayerTypeFETH
	LayerTypeRETH
	LayerTypeAtomicETH
	LayerTypeAETH
	LayerTypeAtomicAckETH
	LayerTypeImmDt
	LayerTypeIETH
	LayerTypeCNP
)

// Register makes gopacket decode UDP port 4791 as RoCEv2, in the whole process.
// Further calls do nothing. Call it before packets are decoded, because gopacket
// does not lock its tables.
func Register() { register() }

var register = sync.OnceFunc(func() {
	layerType(LayerTypeBTH, "BTH", gopacket.DecodeFunc(decodeBTH))
	for i := range extensions {
		layerType(extensions[i].layerType, extensions[i].name, nil)
	}
	gplayers.RegisterUDPPortLayerType(wire.UDPPort, LayerTypeBTH)
})

// layerType registers a layer type. A nil decoder stands for an extension header,
// which cannot be decoded alone: only the BTH before it tells that it is there, and
// what follows.
func layerType(n gopacket.LayerType, name string, decoder gopacket.Decoder) {
	if decoder == nil {
		decoder = gopacket.DecodeFunc(func([]byte, gopacket.PacketBuilder) error {
			return errors.New("layers: " + name + " is decoded only behind a BTH")
		})
	}
	gopacket.RegisterLayerType(int(n), gopacket.LayerTypeMetadata{Name: name, Decoder: decoder})
}

// BTH is the base transport header (IBA 9.2). It also holds the ICRC, and stands for
// the pad bytes before it, from the end of the packet.
type BTH struct {
	gplayers.BaseLayer
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
	ICRC       uint32 // as a number: on the wire it is little-endian

	icrc func(pkt []byte) uint32 // SetHeadersForICRC
}

// LayerType returns LayerTypeBTH.
func (b *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH, for gopacket.DecodingLayer.
func (b *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns the payload type. Under gopacket.DecodingLayerParser the
// payload of a BTH begins with its extension headers, which Extensions decodes.
func (b *BTH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes decodes a UDP payload of any opcode, if it is long enough for a BTH
// and an ICRC.
func (b *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < wire.BTHLen+wire.ICRCLen {
		df.SetTruncated()
		return fmt.Errorf("layers: %d bytes are less than a BTH and an ICRC", len(data))
	}
	end := len(data) - wire.ICRCLen
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
	if int(b.PadCount) > end-wire.BTHLen {
		df.SetTruncated()
		return fmt.Errorf("layers: %d pad bytes in %d", b.PadCount, end-wire.BTHLen)
	}
	b.Contents = data[:wire.BTHLen]
	b.Payload = data[wire.BTHLen : end-int(b.PadCount)]
	return nil
}

// Extensions decodes the extension headers at the start of b.Payload. The opcode says
// which they are; one that IBA does not define has none.
func (b *BTH) Extensions() ([]gopacket.Layer, error) {
	info := b.Opcode.Info()
	if !info.Valid() {
		return nil, nil
	}
	if wire.BTHLen+len(b.Payload) < info.HeaderLen {
		return nil, fmt.Errorf("layers: %v: %d bytes are less than its headers", b.Opcode, wire.BTHLen+len(b.Payload))
	}
	var exts []gopacket.Layer
	rest := b.Payload
	for _, e := range extensions {
		if info.Has(e.flag) {
			exts = append(exts, e.decode(gplayers.BaseLayer{Contents: rest[:e.length], Payload: rest[e.length:]}))
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
	layerType gopacket.LayerType
	name      string
	flag      wire.OpFlags
	length    int
	decode    func(gplayers.BaseLayer) gopacket.Layer
}{
	{LayerTypeDETH, "DETH", wire.HasDETH, wire.DETHLen, decodeDETH},
	{LayerTypeXRCETH, "XRCETH", wire.HasXRCETH, wire.XRCETHLen, decodeXRCETH},
	{LayerTypeFETH, "FETH", wire.HasFETH, wire.FETHLen, decodeFETH},
	{LayerTypeRETH, "RETH", wire.HasRETH, wire.RETHLen, decodeRETH},
	{LayerTypeAtomicETH, "AtomicETH", wire.HasAtomicETH, wire.AtomicETHLen, decodeAtomicETH},
	{LayerTypeAETH, "AETH", wire.HasAETH, wire.AETHLen, decodeAETH},
	{LayerTypeAtomicAckETH, "AtomicAckETH", wire.HasAtomicAckETH, wire.AtomicAckETHLen, decodeAtomicAckETH},
	{LayerTypeImmDt, "ImmDt", wire.HasImm, wire.ImmLen, decodeImmDt},
	{LayerTypeIETH, "IETH", wire.HasIETH, wire.IETHLen, decodeIETH},
	{LayerTypeCNP, "CNP", wire.HasCNP, wire.CNPLen, decodeCNP},
}

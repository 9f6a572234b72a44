package replay

import (
	"bytes"
	"fmt"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// The comparison of two packets with one PSN: one of the captured device, one of the
// engine.

// compare compares a captured request with the engine's under its PSN.
func (r *requester) compare(e event) {
	p, g := e.pkt, r.sent[e.pkt.PSN()]
	r.s.Compared++
	for _, d := range compareRequests(p, g) {
		d.Packet = e.number
		switch {
		case d.About != readLength:
			r.s.differ(d)
		case g.DMALen() < p.DMALen():
			r.s.free("READs asked for in pieces")
		default:
			r.s.free("rests of READs asked for again")
		}
	}
}

// readLength is the subject of a difference that is allowed.
const readLength = "length of a READ"

// compareRequests compares two requests with one PSN.
func compareRequests(p, g wire.Packet) (ds []Difference) {
	if p.Opcode() != g.Opcode() {
		return []Difference{{About: "opcode", Captured: words(p), Engine: words(g)}}
	}
	length := "length"
	if p.Info().Has(wire.OpRead) {
		length = readLength
	}
	for _, f := range [...]struct {
		about string
		p, g  uint64
	}{
		{"destination", uint64(p.DestQP()), uint64(g.DestQP())},
		{"SRQ", uint64(p.XRCSRQN()), uint64(g.XRCSRQN())},
		{"address", p.VA(), g.VA()},
		{length, uint64(p.DMALen()), uint64(g.DMALen())},
		{"immediate", uint64(p.Imm()), uint64(g.Imm())},
		{"key to invalidate", uint64(p.InvRKey()), uint64(g.InvRKey())},
		{"compare operand", p.Compare(), g.Compare()},
		{"swap or add operand", p.SwapAdd(), g.SwapAdd()},
		{"Q_Key", uint64(p.QKey()), uint64(g.QKey())},
		{"solicited event", flag(p.Solicited()), flag(g.Solicited())},
	} {
		if f.p != f.g {
			format := "%#x"
			if f.about == "destination" {
				format = "0x%06x" // as queue pair numbers are written everywhere
			}
			ds = append(ds, Difference{About: f.about, Captured: fmt.Sprintf(format+" in %s", f.p, words(p)), Engine: fmt.Sprintf(format, f.g)})
		}
	}
	if p.RKey() != g.RKey() {
		d := Difference{About: "rkey", Captured: fmt.Sprintf("%#x in %s", uint32(p.RKey()), words(p)), Engine: fmt.Sprintf("%#x", uint32(g.RKey()))}
		if p.DMALen() == 0 && !p.Info().Has(wire.HasAtomicETH) {
			d.Explained = whyNoKey
		}
		ds = append(ds, d)
	}
	if !bytes.Equal(p.Payload(), g.Payload()) {
		ds = append(ds, Difference{About: "payload", Captured: sample(p.Payload()), Engine: sample(g.Payload())})
	}
	return ds
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// compareResponses compares two responses with one PSN.
func compareResponses(p, g wire.Packet) (ds []Difference) {
	if p.Opcode() != g.Opcode() {
		ds = append(ds, Difference{About: "opcode", Captured: words(p), Engine: words(g)})
	}
	if !bytes.Equal(p.Payload(), g.Payload()) {
		ds = append(ds, Difference{About: "payload", Captured: sample(p.Payload()), Engine: sample(g.Payload())})
	}
	if p.Info().Has(wire.HasAtomicAckETH) && g.Info().Has(wire.HasAtomicAckETH) && p.AtomicOrig() != g.AtomicOrig() {
		ds = append(ds, Difference{About: "original value",
			Captured: fmt.Sprintf("%#x", p.AtomicOrig()), Engine: fmt.Sprintf("%#x", g.AtomicOrig())})
	}
	return ds
}

// words describes a packet in a few words.
func words(p wire.Packet) string {
	text := fmt.Sprintf("%s PSN 0x%06x", p.Info().Name, uint32(p.PSN()))
	if p.Info().Has(wire.HasAETH) {
		text += " " + p.Syndrome().String()
	}
	return text
}

func sample(b []byte) string {
	const n = 16
	if len(b) > n {
		return fmt.Sprintf("%s, % x…", plural.Of(len(b), "byte"), b[:n])
	}
	return fmt.Sprintf("%s, % x", plural.Of(len(b), "byte"), b)
}

package ladder

import (
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// Header is one protocol header of a packet, or its payload as far as it is known.
type Header struct {
	Name   string
	Fields []Field
}

// Field is one field of a header.
type Field struct{ Name, Value string }

func (h *Header) add(name, format string, args ...any) {
	h.Fields = append(h.Fields, Field{name, fmt.Sprintf(format, args...)})
}

// Headers returns all fields of a packet.
func (r *Row) Headers() []Header {
	hs := []Header{r.frameHeader()}
	if r.Kind != capture.Other {
		hs = append(hs, r.networkHeaders()...)
	}
	if r.parsed {
		hs = append(hs, r.bth())
		hs = append(hs, r.extended()...)
		if m := r.mad(); m != nil {
			hs = append(hs, madHeaders(m)...)
		}
		hs = append(hs, r.payloadHeader())
	}
	return hs
}

func (r *Row) frameHeader() Header {
	h := Header{Name: "Frame"}
	h.add("number", "%d", r.Number)
	if !r.Time.IsZero() {
		h.add("time", "%s", r.Time.UTC().Format("2006-01-02 15:04:05.000000000"))
	}
	h.add("length", "%d B", r.length)
	h.add("carries", "%v", r.Kind)
	return h
}

func (r *Row) networkHeaders() []Header {
	var hs []Header
	if r.Kind == capture.InfiniBand {
		h := Header{Name: "LRH"}
		h.add("source LID", "%d", r.slid)
		h.add("destination LID", "%d", r.dlid)
		hs = append(hs, h)
	}
	if r.ip.Version != 0 {
		hs = append(hs, r.ipHeader())
	}
	if r.Kind == capture.RoCEv2 {
		h := Header{Name: "UDP"}
		h.add("source port", "%d", r.udp.SrcPort)
		h.add("destination port", "%d", r.udp.DstPort)
		h.add("length", "%d", r.udp.Length)
		h.add("checksum", "%s", checksum(r.udp.Checksum))
		hs = append(hs, h)
	}
	return hs
}

func (r *Row) ipHeader() Header {
	ecn := [...]string{"Not-ECT", "ECT(1)", "ECT(0)", "CE"}
	h := Header{Name: fmt.Sprintf("IPv%d", r.ip.Version)}
	if r.Kind != capture.RoCEv2 {
		h.Name = "GRH"
	}
	h.add("source", "%v", r.Src)
	h.add("destination", "%v", r.Dst)
	h.add("DSCP", "%d", r.ip.TrafficClass>>2)
	h.add("ECN", "%s", ecn[r.ip.ECN()])
	h.add("hop limit", "%d", r.ip.HopLimit)
	h.add("length", "%d", r.ip.Length)
	if r.ip.Version == 4 {
		h.add("identification", "%#04x", r.ip.ID)
		h.add("don't fragment", "%v", r.ip.DF)
		h.add("checksum", "%s", checksum(r.ip.Checksum))
	} else {
		h.add("flow label", "%#05x", r.ip.FlowLabel)
	}
	return h
}

func checksum(c capture.Checksum) string {
	switch c {
	case capture.ChecksumGood:
		return "good"
	case capture.ChecksumNone:
		return "0, not computed"
	case capture.ChecksumOffload:
		return "left to the interface"
	case capture.ChecksumBad:
		return "bad"
	default:
		return "unknown"
	}
}

func (r *Row) bth() Header {
	p := r.pkt
	h := Header{Name: "BTH"}
	h.add("opcode", "%#02x %s", uint8(p.Opcode()), p.Info().Name)
	h.add("solicited event", "%v", p.Solicited())
	h.add("migration request", "%v", p.MigReq())
	h.add("pad", "%d", r.pad)
	h.add("P_Key", "%#04x", uint16(p.PKey()))
	h.add("FECN", "%v", p.FECN())
	h.add("BECN", "%v", p.BECN())
	h.add("destination QP", "0x%06x", uint32(p.DestQP()))
	h.add("acknowledge request", "%v", p.AckReq())
	h.add("PSN", "0x%06x (%d)", uint32(p.PSN()), uint32(p.PSN()))
	return h
}

// extended returns the extended transport headers, in their order on the wire.
func (r *Row) extended() []Header {
	p, info := r.pkt, r.pkt.Info()
	var hs []Header
	header := func(flag wire.OpFlags, name string, fill func(*Header)) {
		if info.Has(flag) {
			h := Header{Name: name}
			fill(&h)
			hs = append(hs, h)
		}
	}
	header(wire.HasDETH, "DETH", func(h *Header) {
		h.add("Q_Key", "%#08x", p.QKey())
		h.add("source QP", "0x%06x", uint32(p.SrcQP()))
	})
	header(wire.HasXRCETH, "XRCETH", func(h *Header) { h.add("XRC SRQ", "%#x", p.XRCSRQN()) })
	header(wire.HasFETH, "FETH", func(h *Header) {
		placement, level := p.FlushType()
		h.add("placement", "%#x", placement)
		h.add("selectivity", "%d", level)
	})
	header(wire.HasRETH, "RETH", func(h *Header) {
		h.add("virtual address", "%#016x", p.VA())
		h.add("rkey", "%#08x", uint32(p.RKey()))
		h.add("length", "%d B", p.DMALen())
	})
	header(wire.HasAtomicETH, "AtomicETH", func(h *Header) {
		h.add("virtual address", "%#016x", p.VA())
		h.add("rkey", "%#08x", uint32(p.RKey()))
		h.add("operands", "%s", r.operands())
	})
	header(wire.HasAETH, "AETH", func(h *Header) {
		h.add("syndrome", "%#02x %v", uint8(p.Syndrome()), p.Syndrome())
		h.add("MSN", "%d", uint32(p.MSN()))
	})
	header(wire.HasAtomicAckETH, "AtomicAckETH", func(h *Header) { h.add("original value", "%#016x", p.AtomicOrig()) })
	header(wire.HasImm, "ImmDt", func(h *Header) { h.add("immediate", "%#08x", p.Imm()) })
	header(wire.HasIETH, "IETH", func(h *Header) { h.add("rkey to invalidate", "%#08x", uint32(p.InvRKey())) })
	return hs
}

func (r *Row) payloadHeader() Header {
	h := Header{Name: "Payload"}
	h.add("length", "%d B", r.Payload)
	if len(r.sample) > 0 {
		sample, more := r.sample[:min(len(r.sample), sampleLen)], ""
		if r.Payload > len(sample) {
			more = " …"
		}
		h.add("bytes", "% x%s", sample, more)
	}
	icrc := "not checked, the packet is cut"
	switch r.ICRC {
	case conformance.ICRCGood:
		icrc = "good"
	case conformance.ICRCBad:
		icrc = "bad"
	default:
	}
	h.add("ICRC", "%s", icrc)
	return h
}

package ladder

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// JSONPacket is a packet as JSON. Lengths are in bytes. Numbers that Wireshark and gorxe's lines
// show in hexadecimal are texts, as in the JSON of a check. What the packet does not have is left
// out.
//
// Fields: the keys of a packet in the JSON that gorxe prints.
type JSONPacket struct {
	Packet int `json:"packet"`
	// findings that only the end of the capture brought
	AtEnd       bool       `json:"at_end,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
	Seconds     *float64   `json:"seconds,omitempty"` // since the first packet of the capture
	Kind        string     `json:"kind,omitempty"`
	Length      int        `json:"length,omitempty"` // of the frame
	Source      string     `json:"source,omitempty"`
	Destination string     `json:"destination,omitempty"`
	Flow        int        `json:"flow,omitempty"` // its ID in the JSON of a check
	Service     string     `json:"service,omitempty"`
	Opcode      string     `json:"opcode,omitempty"`
	// of a datagram, or once the peer is known
	SourceQP      string  `json:"source_qp,omitempty"`
	DestinationQP string  `json:"destination_qp,omitempty"`
	PSN           string  `json:"psn,omitempty"`
	Flags         string  `json:"flags,omitempty"`
	PKey          string  `json:"p_key,omitempty"`
	QKey          string  `json:"q_key,omitempty"`
	VA            string  `json:"va,omitempty"`
	RKey          string  `json:"rkey,omitempty"`
	DMALength     *uint32 `json:"dma_length,omitempty"`
	Operands      string  `json:"operands,omitempty"` // of an atomic
	Syndrome      string  `json:"syndrome,omitempty"`
	MSN           *uint32 `json:"msn,omitempty"`
	Original      string  `json:"original,omitempty"` // value that an atomic found
	Immediate     string  `json:"immediate,omitempty"`
	Invalidates   string  `json:"invalidates_rkey,omitempty"`
	// what a datagram to queue pair 1 says
	Management string `json:"management,omitempty"`
	Payload    *int   `json:"payload,omitempty"`
	Class      string `json:"class,omitempty"`
	// what fault rules did to the packet, by the capture's comment
	Fault    string        `json:"fault,omitempty"`
	ICRC     string        `json:"icrc,omitempty"`
	Cut      bool          `json:"cut,omitempty"`
	Headers  []JSONHeader  `json:"headers,omitempty"` // every field, if asked for
	Findings []JSONFinding `json:"findings,omitempty"`
}

// JSONHeader is a header and its fields, in words.
type JSONHeader struct {
	Name   string            `json:"name"`
	Fields map[string]string `json:"fields"`
}

// JSONFinding is a finding. Packet is the one at fault, which may be an earlier one.
type JSONFinding struct {
	Packet   int    `json:"packet"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Clause   string `json:"clause"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

func jsonFinding(x *conformance.Finding) JSONFinding {
	return JSONFinding{Packet: x.Packet, Rule: x.Rule.Name, Severity: x.Severity.String(), Clause: x.Rule.Clause, Expected: x.Expected, Seen: x.Seen}
}

// writeJSON writes v in one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// json returns a packet as JSON. start is the time of the first packet.
func (r *Row) json(start time.Time, verbose bool) *JSONPacket {
	seconds := r.Time.Sub(start).Seconds()
	j := &JSONPacket{
		Packet: r.Number, Seconds: &seconds, Kind: r.Kind.String(), Length: r.length,
		Source: r.Src.String(), Destination: r.Dst.String(), Class: r.Class.String(), Fault: r.Fault, Cut: r.Cut, ICRC: icrcName(r.ICRC),
	}
	if !r.Time.IsZero() {
		at := r.Time.UTC()
		j.Time = &at
	}
	if r.Flow != nil {
		j.Flow = r.Flow.ID
		if r.Flow.Peer != nil {
			j.SourceQP = qpName(r.Flow.Peer.QPN)
		}
	}
	if r.parsed {
		r.transportJSON(j)
	}
	if verbose {
		for _, h := range r.Headers() {
			fields := make(map[string]string, len(h.Fields))
			for _, f := range h.Fields {
				fields[f.Name] = f.Value
			}
			j.Headers = append(j.Headers, JSONHeader{h.Name, fields})
		}
	}
	for i := range r.Findings {
		j.Findings = append(j.Findings, jsonFinding(&r.Findings[i]))
	}
	return j
}

func (r *Row) transportJSON(j *JSONPacket) {
	p, info := r.pkt, r.pkt.Info()
	j.Service, j.Opcode, j.DestinationQP = info.Service.String(), info.Name, qpName(p.DestQP())
	j.PSN, j.Flags, j.PKey = fmt.Sprintf("0x%06x", uint32(p.PSN())), r.Flags(), fmt.Sprintf("%#04x", uint16(p.PKey()))
	j.Payload = &r.Payload
	if m := r.mad(); m != nil {
		j.Management = madWords(m)
	}
	if info.Has(wire.HasDETH) {
		j.SourceQP, j.QKey = qpName(p.SrcQP()), fmt.Sprintf("%#x", p.QKey())
	}
	if info.Has(wire.HasRETH) {
		length := p.DMALen()
		j.DMALength = &length
	}
	if info.Has(wire.HasRETH) || info.Has(wire.HasAtomicETH) {
		j.VA, j.RKey = fmt.Sprintf("%#x", p.VA()), fmt.Sprintf("%#x", uint32(p.RKey()))
	}
	if info.Has(wire.HasAtomicETH) {
		j.Operands = r.operands()
	}
	if info.Has(wire.HasAETH) {
		msn := uint32(p.MSN())
		j.Syndrome, j.MSN = p.Syndrome().String(), &msn
	}
	if info.Has(wire.HasAtomicAckETH) {
		j.Original = fmt.Sprintf("%#x", p.AtomicOrig())
	}
	if info.Has(wire.HasImm) {
		j.Immediate = fmt.Sprintf("%#x", p.Imm())
	}
	if info.Has(wire.HasIETH) {
		j.Invalidates = fmt.Sprintf("%#x", uint32(p.InvRKey()))
	}
}

func qpName(q wire.QPN) string { return fmt.Sprintf("0x%06x", uint32(q)) }

func icrcName(c conformance.ICRC) string {
	switch c {
	case conformance.ICRCGood:
		return "good"
	case conformance.ICRCBad:
		return "bad"
	default:
		return "unknown"
	}
}

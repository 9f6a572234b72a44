package ladder

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// sampleLen is how many bytes of payload a row keeps. It keeps management datagrams whole.
const sampleLen = 64

// Row is one packet as it is shown. It shares no memory with the reader.
type Row struct {
	Number   int
	Time     time.Time
	Kind     capture.Kind
	Src, Dst netip.Addr
	Flow     *conformance.Flow // nil: none, or not known
	Class    conformance.Class
	ICRC     conformance.ICRC
	Findings []conformance.Finding
	Payload  int  // bytes, without pad
	Cut      bool // captured in part
	// Fault is what fault rules did to the packet, as gorxe's capture says; "" if it says nothing.
	Fault string

	length int // of the frame on the wire
	ip     capture.IPHeader
	udp    capture.UDPHeader
	slid   uint16
	dlid   uint16
	index  uint64 // counts the packets of the flow, from 1
	// skipped is how many packets of the flow were left out just before it.
	skipped uint64
	stay
	parsed bool
	pkt    wire.Packet // headers only, of head
	pad    int
	head   []byte
	sample []byte
}

// stay says why a packet is kept.
type stay struct {
	group  int  // the notable packet that it is kept for, as they are counted; 0: it stays
	pinned bool // a sentence leads to it
}

// set makes r the row of a packet. It reuses r's storage.
func (r *Row) set(p *capture.Packet, v *conformance.Verdict) {
	*r = Row{
		Number: p.Number, Time: p.Time, Kind: p.Kind, Src: p.Src, Dst: p.Dst,
		Flow: v.Flow, Class: v.Class, ICRC: v.ICRC, Cut: p.Truncated(),
		Findings: r.Findings[:0], head: r.head[:0], sample: r.sample[:0],
		length: p.Length, ip: p.IP, udp: p.UDP, slid: p.SLID, dlid: p.DLID,
		Fault: faultOf(p.Comment),
	}
	if !v.Parsed {
		// The packet is damaged, but its first bytes are shown anyway.
		if v.ICRC == conformance.ICRCBad {
			r.guess(p.Transport[:len(p.Transport)-wire.ICRCLen])
		}
		return
	}
	info := v.Packet.Info()
	r.take(v.Packet.Bytes()[:info.HeaderLen], int(p.Transport[1]>>4&3))
	r.Payload = max(0, p.TransportLen-wire.ICRCLen-info.HeaderLen-r.pad)
	if rest := p.Transport[min(info.HeaderLen, len(p.Transport)):]; len(rest) > 0 {
		keep := sampleLen
		if v.Packet.DestQP() == wire.GSIQPN {
			keep = wire.MADLen
		}
		r.sample = append(r.sample, rest[:min(len(rest), r.Payload, keep)]...)
	}
}

// take parses headers, and keeps them.
func (r *Row) take(head []byte, pad int) {
	const padBits = 0x30
	r.pad = pad
	r.head = append(r.head, head...)
	r.head[1] &^= padBits // because no payload follows
	var err error
	r.pkt, err = wire.Parse(r.head)
	r.parsed = err == nil
}

func (r *Row) guess(b []byte) {
	if p, err := wire.Parse(b); err == nil {
		r.take(b[:p.Info().HeaderLen], p.Pad())
		r.Payload = len(p.Payload())
	}
}

// Flags returns the bits of the BTH that are set: S solicited event, A acknowledge
// request, F FECN, B BECN; and C for CE in the IP header.
func (r *Row) Flags() string {
	var b strings.Builder
	for _, f := range [...]struct {
		set  bool
		name byte
	}{
		{r.pkt.Solicited(), 'S'}, {r.pkt.AckReq(), 'A'}, {r.pkt.FECN(), 'F'}, {r.pkt.BECN(), 'B'},
		{r.ip.Version != 0 && r.ip.ECN() == capture.ECNCE, 'C'},
	} {
		if f.set {
			b.WriteByte(f.name)
		}
	}
	return b.String()
}

// Opcode returns the opcode in words: "RC SEND_FIRST". For a packet that cannot be
// parsed it says what the packet is.
func (r *Row) Opcode() string {
	switch {
	case r.parsed:
		return strings.Replace(r.pkt.Info().Name, "_", " ", 1)
	case r.Kind == capture.Other:
		return "not RDMA"
	default:
		return fmt.Sprintf("%v, unreadable", r.Kind)
	}
}

// Words describes the packet in the usual terms.
func (r *Row) Words() string {
	if !r.parsed {
		return fmt.Sprintf("%s  %d B", r.Opcode(), r.length)
	}
	p, info := r.pkt, r.pkt.Info()
	var b strings.Builder
	fmt.Fprintf(&b, "%s qp 0x%06x psn 0x%06x", r.Opcode(), uint32(p.DestQP()), uint32(p.PSN()))
	if f := r.Flags(); f != "" {
		b.WriteString(" " + f)
	}
	if m := r.mad(); m != nil {
		fmt.Fprintf(&b, "  %s", madWords(m))
		return b.String()
	}
	if info.Has(wire.HasDETH) {
		fmt.Fprintf(&b, "  from qp 0x%06x q_key %#x", uint32(p.SrcQP()), p.QKey())
	}
	if info.Has(wire.HasRETH) {
		fmt.Fprintf(&b, "  va %#x rkey %#x len %d", p.VA(), uint32(p.RKey()), p.DMALen())
	}
	if info.Has(wire.HasAtomicETH) {
		fmt.Fprintf(&b, "  va %#x rkey %#x %s", p.VA(), uint32(p.RKey()), r.operands())
	}
	if info.Has(wire.HasAETH) {
		fmt.Fprintf(&b, "  %v msn %d", p.Syndrome(), uint32(p.MSN()))
	}
	if info.Has(wire.HasAtomicAckETH) {
		fmt.Fprintf(&b, " was %#x", p.AtomicOrig())
	}
	if info.Has(wire.HasImm) {
		fmt.Fprintf(&b, "  imm %#x", p.Imm())
	}
	if info.Has(wire.HasIETH) {
		fmt.Fprintf(&b, "  invalidates rkey %#x", uint32(p.InvRKey()))
	}
	if info.Has(wire.OpPayload) || r.Payload > 0 {
		fmt.Fprintf(&b, "  %d B", r.Payload)
	}
	return b.String()
}

func (r *Row) operands() string {
	if r.pkt.Info().Name == wire.RCCompareSwap.Info().Name || r.pkt.Opcode() == wire.XRCCompareSwap {
		return fmt.Sprintf("compare %#x swap %#x", r.pkt.Compare(), r.pkt.SwapAdd())
	}
	return fmt.Sprintf("add %#x", r.pkt.SwapAdd())
}

// Tags returns what is known about a packet besides its fields.
func (r *Row) Tags() []string {
	var tags []string
	switch r.Class {
	case conformance.ClassRetransmission, conformance.ClassAfterGap, conformance.ClassLate, conformance.ClassDuplicate:
		tags = append(tags, r.Class.String())
	default:
	}
	if r.ICRC == conformance.ICRCBad {
		tags = append(tags, "bad ICRC")
	}
	if r.Cut {
		tags = append(tags, "cut")
	}
	if r.Fault != "" {
		tags = append(tags, r.Fault)
	}
	return tags
}

// Lost reports whether a fault rule lost the packet on its way.
func (r *Row) Lost() bool { return lost(r.Fault) }

// Lost reports whether gorxe's comment of a packet says that a fault rule lost it.
func Lost(comment []byte) bool { return lost(faultOf(comment)) }

// Fault returns what fault rules did to a packet, as gorxe's comment says.
func Fault(comment []byte) string { return faultOf(comment) }

func lost(fault string) bool {
	return strings.HasPrefix(fault, "lost ") || strings.Contains(fault, "; lost ")
}

// faultOf returns what gorxe's comment of a packet says. It may come from a hostile capture.
func faultOf(comment []byte) string {
	const most = 300 // bytes
	text, ok := strings.CutPrefix(string(comment[:min(len(comment), most)]), "gorxe: ")
	if !ok {
		return ""
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text)
}

// again reports whether the packet was sent before.
func (r *Row) again() bool {
	return r.Class == conformance.ClassRetransmission || r.Class == conformance.ClassDuplicate
}

// Negative reports whether the packet is a NAK or an RNR NAK.
func (r *Row) Negative() bool {
	return r.parsed && r.ICRC != conformance.ICRCBad && r.pkt.Info().Has(wire.HasAETH) && !r.pkt.Syndrome().IsACK()
}

// Severity returns the highest severity of the findings, 0 if there is none.
func (r *Row) Severity() conformance.Severity {
	var worst conformance.Severity
	for i := range r.Findings {
		worst = max(worst, r.Findings[i].Severity)
	}
	return worst
}

// Notable reports whether the packet matters to a reader who looks for a fault.
func (r *Row) Notable() bool {
	return r.Severity() > conformance.Note || r.Negative() || len(r.Tags()) > 0
}

package conformance

import (
	"errors"
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

const (
	maxMTU     = 4096
	maxMessage = 1 << 31

	// Bits of the BTH that package wire does not name, most because they are reserved.
	bthReserved4 = 0x3f // of byte 4: not covered by the ICRC
	bthReserved8 = 0x7f // of byte 8
	bthTVer      = 0x0f // of byte 1
	bthPad       = 0x30

	// manufacturerOps is the first opcode that manufacturers may define.
	manufacturerOps wire.Opcode = 0xc0
)

// parse parses a packet whose ICRC is right, and reports why if it cannot.
func (c *Checker) parse(s *subject, f *Flow) bool {
	b := s.Transport
	op := wire.Opcode(b[0])
	if v := b[1] & bthTVer; v != 0 {
		c.report(s, f, ruleTVer, "version 0", fmt.Sprint(v))
		return false
	}
	info := op.Info()
	if !info.Valid() {
		severity := ruleOpcode.Severity
		if op >= manufacturerOps {
			severity = Warning
		}
		c.reportAs(severity, s, f, ruleOpcode, "a defined opcode", op.String())
		return false
	}
	total := s.TransportLen - wire.ICRCLen
	s.payload = total - info.HeaderLen - int(b[1]&bthPad>>4)
	s.info = info
	if s.Truncated() {
		return c.parseCut(s, f)
	}
	var err error
	s.pkt, err = wire.Parse(b[:max(0, total)])
	switch {
	case err == nil:
	case errors.Is(err, wire.ErrPad):
		c.report(s, f, rulePad, fmt.Sprintf("at most %d pad bytes", total-info.HeaderLen), fmt.Sprint(b[1]&bthPad>>4))
		return false
	case total < info.HeaderLen:
		c.report(s, f, ruleLength, fmt.Sprintf("%v with %d bytes of headers", op, info.HeaderLen), bytesSeen(total))
		return false
	default:
		c.report(s, f, ruleLength, "a whole number of 4-byte words", bytesSeen(total))
		return false
	}
	s.psn, s.whole = s.pkt.PSN(), true
	return true
}

// parseCut parses the headers of a packet that was captured in part. wire.Parse accepts
// only a whole packet, so it gets the headers alone, with a pad count of 0.
func (c *Checker) parseCut(s *subject, f *Flow) bool {
	n := s.info.HeaderLen
	if s.TransportLen-wire.ICRCLen < n+int(s.Transport[1]&bthPad>>4) || s.TransportLen%4 != 0 {
		c.report(s, f, ruleLength, "whole words and all headers", bytesSeen(s.TransportLen))
		return false
	}
	if len(s.Transport) < n {
		s.headless = true
		return false
	}
	c.cut = append(c.cut[:0], s.Transport[:n]...)
	c.cut[1] &^= bthPad
	var err error
	s.pkt, err = wire.Parse(c.cut)
	s.psn = s.pkt.PSN()
	return err == nil
}

// headers judges one packet by itself.
func (c *Checker) headers(s *subject, f *Flow) {
	p, info := s.pkt, s.info
	c.partition(s, f)
	c.reserved(s, f)
	c.payloadRules(s, f)
	if p.Solicited() && info.Service != wire.ServiceCNP && !maySolicit(info) {
		c.report(s, f, ruleSolicited, "it clear in "+info.Name, "it set")
	}
	if info.Has(wire.HasRETH) {
		c.rethRules(s, f)
	}
	if info.Has(wire.OpAtomic|wire.OpAtomicWrite) && p.VA()%8 != 0 {
		c.report(s, f, ruleAlignment, "a multiple of 8", fmt.Sprintf("%#x", p.VA()))
	}
	if info.Has(wire.HasAETH) {
		c.syndromeRules(s, f)
	}
	c.destination(s, f)
}

// partition judges the P_Key. That of a connection changes only if the port's table
// changes.
func (c *Checker) partition(s *subject, f *Flow) {
	key, before := s.pkt.PKey(), f.Stats.PKey
	if s.info.Service != wire.ServiceCNP {
		f.Stats.PKey = key
	}
	switch {
	case key&^wire.PKeyFullMember == 0:
		c.report(s, f, rulePKey, "a partition other than 0", fmt.Sprintf("P_Key %#04x", uint16(key)))
		f.Stats.PKey = before
	case before != 0 && key != before && s.info.Service != wire.ServiceUD && s.info.Service != wire.ServiceCNP:
		c.reportAs(Warning, s, f, rulePKey, fmt.Sprintf("P_Key %#04x, as before", uint16(before)), fmt.Sprintf("%#04x", uint16(key)))
	}
}

// maySolicit reports whether a packet may ask for an event: only the last packet of an
// operation that completes a receive.
func maySolicit(info *wire.OpInfo) bool {
	return info.Has(wire.OpEnd) && (info.Has(wire.OpSend) || info.Has(wire.OpWrite) && info.Has(wire.OpImm))
}

func (c *Checker) reserved(s *subject, f *Flow) {
	b := s.pkt.Bytes()
	if v := b[4] & bthReserved4; v != 0 {
		// The ICRC does not cover this byte, so a switch may have changed it.
		c.reportAs(Note, s, f, ruleReserved, "BTH byte 4 bits 5-0 zero", fmt.Sprintf("%#02x", v))
	}
	if v := b[8] & bthReserved8; v != 0 {
		c.report(s, f, ruleReserved, "BTH byte 8 bits 6-0 zero", fmt.Sprintf("%#02x", v))
	}
	if o := s.info.DETH; o != 0 && b[o+4] != 0 {
		c.report(s, f, ruleReserved, "DETH byte 4 zero", fmt.Sprintf("%#02x", b[o+4]))
	}
	if o := s.info.XRCETH; o != 0 && b[o] != 0 {
		c.report(s, f, ruleReserved, "XRCETH byte 0 zero", fmt.Sprintf("%#02x", b[o]))
	}
	if o := s.info.FETH; o != 0 && (b[o] != 0 || b[o+1] != 0 || b[o+2] != 0 || b[o+3]&0xc0 != 0) {
		c.report(s, f, ruleReserved, "FETH bits 31-6 zero", fmt.Sprintf("% x", b[o:o+4]))
	}
}

// payloadRules judges length and pad by the opcode.
func (c *Checker) payloadRules(s *subject, f *Flow) {
	info := s.info
	switch {
	case info.Has(wire.OpFirst | wire.OpMiddle):
		if pad := s.Transport[1] & bthPad >> 4; pad != 0 {
			c.report(s, f, rulePad, "no pad in "+info.Name, fmt.Sprint(pad))
		} else if !legalMTU(s.payload) {
			c.report(s, f, rulePathMTU, "256, 512, 1024, 2048 or 4096 bytes in "+info.Name, bytesSeen(s.payload))
		}
	case !info.Has(wire.OpPayload):
		if s.payload != 0 || s.Transport[1]&bthPad != 0 {
			c.report(s, f, rulePayload, "none in "+info.Name, bytesSeen(s.payload))
		}
	case info.Has(wire.OpLast) && s.payload == 0:
		c.report(s, f, rulePayload, "at least 1 byte in "+info.Name, "none")
	case info.Has(wire.OpAtomicWrite) && s.payload != 8:
		c.report(s, f, rulePayload, "8 bytes in "+info.Name, bytesSeen(s.payload))
	case s.payload > maxMTU && info.Service == wire.ServiceUD:
		c.report(s, f, ruleUDLength, "at most 4096 bytes", bytesSeen(s.payload))
	case s.payload > maxMTU:
		c.report(s, f, rulePathMTU, "at most 4096 bytes", bytesSeen(s.payload))
	}
}

func legalMTU(n int) bool { return n >= 256 && n <= maxMTU && n&(n-1) == 0 }

func (c *Checker) rethRules(s *subject, f *Flow) {
	n := s.pkt.DMALen()
	switch info := s.info; {
	case n > maxMessage:
		c.report(s, f, ruleRETHLength, "at most 2^31 bytes", bytesSeen(int(n)))
	case info.Has(wire.OpWrite|wire.OpAtomicWrite) && info.Has(wire.OpOnly) && int(n) != s.payload:
		c.report(s, f, ruleRETHLength, fmt.Sprintf("the length of the payload, %d", s.payload), fmt.Sprint(n))
	case info.Has(wire.OpWrite) && info.Has(wire.OpFirst) && int(n) <= s.payload:
		c.report(s, f, ruleRETHLength, fmt.Sprintf("more than the payload, %d", s.payload), fmt.Sprint(n))
	}
}

func (c *Checker) syndromeRules(s *subject, f *Flow) {
	y := s.pkt.Syndrome()
	nak := y.IsNAK() || y.IsRNR()
	switch {
	case !y.IsACK() && !nak:
		c.report(s, f, ruleSyndrome, "ACK, RNR NAK or NAK", y.String())
	case y.IsNAK() && (y.NAKCode() >= wire.NAKInvalidRD):
		// Code 4 is for reliable datagrams, the rest is reserved.
		c.report(s, f, ruleSyndrome, "NAK code 0 to 3", y.NAKCode().String())
	case nak && s.pkt.Opcode() != wire.RCAck && s.pkt.Opcode() != wire.XRCAck:
		c.report(s, f, ruleSyndrome, "no NAK in "+s.info.Name, y.String())
	}
}

// destination judges where a packet goes: QP0, QP1 and multicast are special.
func (c *Checker) destination(s *subject, f *Flow) {
	ud := s.info.Service == wire.ServiceUD
	switch {
	case f.QPN == 0 && s.Kind == capture.InfiniBand && ud:
		return // subnet management
	case f.QPN == 0:
		c.report(s, f, ruleManagement, "no packets to QP0", s.info.Name)
		return
	case f.QPN == 1 && !ud:
		c.report(s, f, ruleManagement, "datagrams to QP1", s.info.Name)
	case f.QPN == 1 && s.pkt.QKey() != wire.GSIQKey:
		c.report(s, f, ruleQKey, fmt.Sprintf("%#x", wire.GSIQKey), fmt.Sprintf("%#x", s.pkt.QKey()))
	}
	multicast := s.IP.Version != 0 && s.Dst.IsMulticast()
	if s.IP.Version != 0 && (ud && multicast != (f.QPN == wire.MulticastQPN) || !ud && multicast) {
		want := "a unicast address"
		if f.QPN == wire.MulticastQPN {
			want = "a multicast address"
		} else if multicast {
			want = "a datagram to QP 0xffffff"
		}
		c.report(s, f, ruleMulticast, want, fmt.Sprintf("%s to QP 0x%06x at %v", s.info.Name, uint32(f.QPN), s.Dst))
	}
	if f.Service != s.info.Service && s.info.Service != wire.ServiceCNP && f.Service != wire.ServiceCNP {
		c.report(s, f, ruleService, f.Service.String()+", as before", s.info.Service.String())
		f.restart()
		f.Service = s.info.Service
	} else if f.Service == wire.ServiceCNP {
		f.Service = s.info.Service
	}
}

package script

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// words describes a packet: what it is, and every field that a reader needs.
func (s *Script) words(f *flight) string {
	pkt, err := wire.Parse(f.data[:len(f.data)-wire.ICRCLen])
	if err != nil {
		return fmt.Sprintf("what does not parse: %v", err)
	}
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	info := pkt.Info()
	fmt.Fprintf(&b, "%v psn %d", pkt.Opcode(), pkt.PSN())
	if info.Has(wire.HasAETH) {
		add("%v msn %d", pkt.Syndrome(), pkt.MSN())
	}
	if info.Has(wire.HasXRCETH) {
		add("%s", f.from.peer.srqName(pkt.XRCSRQN()))
	}
	if info.Has(wire.HasRETH) || info.Has(wire.HasAtomicETH) {
		add("at %d", int64(pkt.VA())-memBase)
		if w := &f.from.peer.window; w.rkey != 0 && pkt.RKey() == w.rkey {
			add("window")
		} else if pkt.RKey() != f.from.peer.mr.RKey() {
			add("wrong rkey")
		}
	}
	if info.Has(wire.HasRETH) {
		add("dma %d", pkt.DMALen())
	}
	switch pkt.Opcode().Operation() {
	case wire.RCFetchAdd:
		add("add %d", pkt.SwapAdd())
	case wire.RCCompareSwap:
		add("compare %d swap %d", pkt.Compare(), pkt.SwapAdd())
	case wire.RCAtomicAck:
		add("was %d", pkt.AtomicOrig())
	default:
	}
	if info.Has(wire.HasImm) {
		add("imm %d", pkt.Imm())
	}
	if info.Has(wire.HasIETH) {
		add("invalidates")
	}
	if info.Has(wire.OpPayload) {
		add("len %d", len(pkt.Payload()))
	}
	if pkt.AckReq() {
		add("ackreq")
	}
	if pkt.Solicited() {
		add("solicited")
	}
	return b.String()
}

// srqName names an SRQ of a target by its number.
func (h *host) srqName(num uint32) string {
	switch num {
	case h.srq.Num():
		return "srq"
	case h.strange.Num():
		return "strange srq"
	default:
		return "unknown srq"
	}
}

// recvWords describes the completion of a receive work request.
func recvWords(wc *rxe.WC) string {
	if wc.Status != rxe.WCSuccess {
		return ""
	}
	text := fmt.Sprintf(" %v len %d", wc.Opcode, wc.ByteLen)
	if wc.Flags&rxe.WCWithImm != 0 {
		text += fmt.Sprintf(" imm %d", wc.Imm)
	}
	if wc.Flags&rxe.WCWithInv != 0 {
		text += " invalidated"
	}
	if wc.Flags&rxe.WCGRH != 0 {
		text += " grh"
	}
	return text
}

func brief(b []byte) string { return hex.EncodeToString(b[:min(len(b), 16)]) }

package wire

import (
	crand "crypto/rand"
	"encoding/binary"
)

// QPNMark is a secret by which a device chooses the numbers of its queue pairs. A packet
// filter that knows it tells these numbers from most others, and keeps no state. A number
// that the device gave has a mark, and of the others one in 2^(Bits-1).
//
// Connected and UD queue pairs have different marks, and so have connected ones whose packets the
// filter takes from all addresses. The mark of a number stays when Bits
// becomes less.
type QPNMark struct {
	Mul  [2]uint32 // odd
	Bits uint8     // 0: no number is marked, and Connected and Datagram are true for all
}

// qpnMarkShift mixes the upper half of a product into the lower one.
const qpnMarkShift = 15

// unlisted begins, with any number of bits from 2 on, neither with all zeros nor with all ones.
const unlisted = 0xaa

// NewQPNMark draws a mark of 2 to 8 bits.
func NewQPNMark(bits uint8) QPNMark {
	for {
		var b [8]byte
		crand.Read(b[:]) // never fails
		m := QPNMark{
			Mul:  [2]uint32{binary.NativeEndian.Uint32(b[:]) | 1, binary.NativeEndian.Uint32(b[4:]) | 1},
			Bits: bits,
		}
		if m.even() {
			return m
		}
	}
}

// even reports whether each mark has about its share of the numbers. A very small factor, for
// example, leaves one of them without any.
func (m QPNMark) even() bool {
	const step = 257 // prime
	connected, datagram, others, tried := 0, 0, 0, 0
	for n := QPN(0); n <= QPNMask; n += step {
		tried++
		if m.Connected(n) {
			connected++
		}
		if m.Datagram(n) {
			datagram++
		}
		if m.Unlisted(n) {
			others++
		}
	}
	share := tried >> m.Bits
	return min(connected, datagram, others) >= share/2 && max(connected, datagram, others) <= 2*share
}

// Datagrams returns the mark of UD queue pairs. That of connected ones is 0.
func (m QPNMark) Datagrams() uint32 { return 1<<m.Bits - 1 }

// Unlisteds returns the mark of connected queue pairs for which the filter lists no peer.
func (m QPNMark) Unlisteds() uint32 { return unlisted >> (8 - m.Bits) }

// MixShift and MarkShift return the shifts of Of, for a program that computes the same.
func (m QPNMark) MixShift() uint32  { return qpnMarkShift }
func (m QPNMark) MarkShift() uint32 { return 32 - uint32(m.Bits) }

// Of returns the mark of a number.
func (m QPNMark) Of(qpn QPN) uint32 {
	h := uint32(qpn) * m.Mul[0]
	h ^= h >> m.MixShift()
	return h * m.Mul[1] >> m.MarkShift()
}

// Connected reports whether a number may be that of a connected queue pair.
func (m QPNMark) Connected(qpn QPN) bool { return m.Of(qpn) == 0 }

// Datagram reports whether a number may be that of a UD queue pair.
func (m QPNMark) Datagram(qpn QPN) bool { return m.Of(qpn) == m.Datagrams() }

// Unlisted reports whether a number may be that of a connected queue pair for which the filter
// lists no peer.
func (m QPNMark) Unlisted(qpn QPN) bool { return m.Of(qpn) == m.Unlisteds() }

// Numbers returns about how many numbers have one of the marks.
func (m QPNMark) Numbers() int { return (QPNMask + 1) >> m.Bits }

package wire

import (
	"fmt"
	"time"
)

// Syndrome is the first byte of an AETH: the kind of answer (IBA 9.7.5.2). The top
// three bits are the kind, and the low five its argument. Bit 7 is reserved, so a
// syndrome that has it set is of no kind.
type Syndrome uint8

const (
	syndromeKindMask = 0xe0
	syndromeArgMask  = 0x1f
	syndromeKindACK  = 0x00
	syndromeKindRNR  = 0x20
	syndromeKindNAK  = 0x60
)

// SyndromeACK is a positive acknowledgement that grants unlimited credits: the
// responder does not take part in end-to-end flow control.
const SyndromeACK Syndrome = syndromeKindACK | 0x1f

// SyndromeRNR returns a receiver-not-ready NAK with a timer code of 0 to 31
// (see RNRTimeout).
func SyndromeRNR(timer uint8) Syndrome {
	return syndromeKindRNR | Syndrome(timer&syndromeArgMask)
}

// SyndromeNAK returns a negative acknowledgement.
func SyndromeNAK(code NAKCode) Syndrome {
	return syndromeKindNAK | Syndrome(code&syndromeArgMask)
}

// IsACK reports whether s is a positive acknowledgement.
func (s Syndrome) IsACK() bool { return s&syndromeKindMask == syndromeKindACK }

// IsRNR reports whether s is a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&syndromeKindMask == syndromeKindRNR }

// IsNAK reports whether s is a NAK other than receiver-not-ready. Its code may
// still be a reserved one.
func (s Syndrome) IsNAK() bool { return s&syndromeKindMask == syndromeKindNAK }

// RNRTimer returns the timer code, which has a meaning only if IsRNR.
func (s Syndrome) RNRTimer() uint8 { return uint8(s & syndromeArgMask) }

// NAKCode returns the NAK code, which has a meaning only if IsNAK.
func (s Syndrome) NAKCode() NAKCode { return NAKCode(s & syndromeArgMask) }

// Credits returns the number of receive work requests that an ACK grants. It is
// (0, false) if there is no limit, which is code 31, or if s is not an ACK.
//
// The encoding (IBA 9.7.7.2) is exact up to 4 and then a binary
// float with one bit of mantissa: 6, 8, 12, 16, …, 32768.
func (s Syndrome) Credits() (n int, limited bool) {
	code := int(s & syndromeArgMask)
	switch {
	case !s.IsACK() || code == syndromeArgMask:
		return 0, false
	case code < 2:
		return code, true
	}
	return (2 | code&1) << (code/2 - 1), true
}

func (s Syndrome) String() string {
	switch {
	case s.IsACK():
		if n, limited := s.Credits(); limited {
			return fmt.Sprintf("ACK(credits %d)", n)
		}
		return "ACK"
	case s.IsRNR():
		return fmt.Sprintf("RNR NAK(%v)", RNRTimeout(s.RNRTimer()))
	case s.IsNAK():
		return "NAK(" + s.NAKCode().String() + ")"
	}
	return fmt.Sprintf("reserved syndrome 0x%02x", uint8(s))
}

// NAKCode says why a responder refused a request (IBA 9.7.5.2).
type NAKCode uint8

// The NAK codes; all others are reserved.
const (
	NAKPSNSequence    NAKCode = 0
	NAKInvalidRequest NAKCode = 1
	NAKRemoteAccess   NAKCode = 2
	NAKRemoteOp       NAKCode = 3
	NAKInvalidRD      NAKCode = 4
)

func (c NAKCode) String() string {
	switch c {
	case NAKPSNSequence:
		return "PSN sequence error"
	case NAKInvalidRequest:
		return "invalid request"
	case NAKRemoteAccess:
		return "remote access error"
	case NAKRemoteOp:
		return "remote operational error"
	case NAKInvalidRD:
		return "invalid RD request"
	}
	return fmt.Sprintf("reserved NAK code %d", uint8(c))
}

// rnrTimeouts is IBA 9.7.5.2.8 in units of 10 µs.
var rnrTimeouts = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimeout returns the shortest time that a requester waits after a receiver-not-ready
// NAK with this timer code. It is 10 µs to 491.52 ms for 1 to 31, and 655.36 ms for 0.
// Bits above the low five are ignored.
func RNRTimeout(code uint8) time.Duration {
	return time.Duration(rnrTimeouts[code&syndromeArgMask]) * 10 * time.Microsecond
}

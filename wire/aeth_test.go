package wire

import (
	"testing"
	"time"
)

// TestRNRTimeout compares with the table of IBA 9.7.5.2.8, in
// milliseconds as it is printed there.
func TestRNRTimeout(t *testing.T) {
	for code, ms := range []float64{
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12,
		0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72,
		40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	} {
		want := time.Duration(ms*1000+0.5) * time.Microsecond
		if got := RNRTimeout(uint8(code)); got != want {
			t.Errorf("code %d: %v, want %v", code, got, want)
		}
		if got := RNRTimeout(uint8(code) | 0xe0); got != want {
			t.Errorf("code %d with high bits: %v, want %v", code, got, want)
		}
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s             Syndrome
		ack, rnr, nak bool
		text          string
	}{
		{SyndromeACK, true, false, false, "ACK"},
		{0x00, true, false, false, "ACK(credits 0)"},
		{0x1e, true, false, false, "ACK(credits 32768)"},
		{SyndromeRNR(0), false, true, false, "RNR NAK(655.36ms)"},
		{SyndromeRNR(31), false, true, false, "RNR NAK(491.52ms)"},
		{SyndromeNAK(NAKPSNSequence), false, false, true, "NAK(PSN sequence error)"},
		{SyndromeNAK(NAKInvalidRequest), false, false, true, "NAK(invalid request)"},
		{SyndromeNAK(NAKRemoteAccess), false, false, true, "NAK(remote access error)"},
		{SyndromeNAK(NAKRemoteOp), false, false, true, "NAK(remote operational error)"},
		{SyndromeNAK(NAKInvalidRD), false, false, true, "NAK(invalid RD request)"},
		{0x7f, false, false, true, "NAK(reserved NAK code 31)"},
		{0x40, false, false, false, "reserved syndrome 0x40"},
		{0x9f, false, false, false, "reserved syndrome 0x9f"},
	} {
		if c.s.IsACK() != c.ack || c.s.IsRNR() != c.rnr || c.s.IsNAK() != c.nak {
			t.Errorf("%#02x: ACK %v, RNR %v, NAK %v", uint8(c.s), c.s.IsACK(), c.s.IsRNR(), c.s.IsNAK())
		}
		if got := c.s.String(); got != c.text {
			t.Errorf("%#02x: %q, want %q", uint8(c.s), got, c.text)
		}
	}
}

// TestSyndromeBytes pins the bytes on the wire.
func TestSyndromeBytes(t *testing.T) {
	if SyndromeACK != 0x1f {
		t.Errorf("ACK is %#02x", uint8(SyndromeACK))
	}
	for i := range uint8(32) {
		if s := SyndromeRNR(i); s != Syndrome(0x20+i) || s.RNRTimer() != i {
			t.Errorf("RNR %d is %#02x with timer %d", i, uint8(s), s.RNRTimer())
		}
		if s := SyndromeNAK(NAKCode(i)); s != Syndrome(0x60+i) || s.NAKCode() != NAKCode(i) {
			t.Errorf("NAK %d is %#02x with code %d", i, uint8(s), s.NAKCode())
		}
	}
}

// TestCredits compares with the table of IBA 9.7.7.2.
func TestCredits(t *testing.T) {
	for code, want := range []int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
		512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	} {
		if n, limited := Syndrome(code).Credits(); n != want || !limited {
			t.Errorf("code %d: %d, %v; want %d", code, n, limited, want)
		}
	}
	for _, s := range []Syndrome{SyndromeACK, SyndromeRNR(3), SyndromeNAK(1)} {
		if n, limited := s.Credits(); n != 0 || limited {
			t.Errorf("%v: credits %d, %v", s, n, limited)
		}
	}
}

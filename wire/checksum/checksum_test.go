package checksum

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// However long the bytes, and wherever they are divided at a word, the sum is that of
// their 16-bit words.
func TestAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		var want uint64
		for i := 0; i+1 < n; i += 2 {
			want += uint64(binary.BigEndian.Uint16(b[i:]))
		}
		if n%2 == 1 {
			want += uint64(b[n-1]) << 8
		}
		for at := 0; at <= n; at += 2 {
			if got := Fold(Add(Add(0, b[:at]), b[at:])); got != Fold(want) {
				t.Fatalf("%d bytes, divided at %d: %#x, want %#x", n, at, got, Fold(want))
			}
		}
	}
}

// The example of RFC 1071, section 3.
func TestRFC1071(t *testing.T) {
	if got := Fold(Add(0, []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7})); got != 0xddf2 {
		t.Errorf("%#x", got)
	}
}

package rxe

import (
	"math/rand/v2"
	"testing"
)

// Walking a scatter/gather list from any offset in pieces of any size visits
// exactly the bytes that a flat list of addresses names.
func TestCursorVisitsEveryByteOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var sgl []SGE
		var flat []uint64
		for i := range rng.IntN(6) {
			n := rng.IntN(40) // zero-length elements too
			base := uint64(i) * 1000
			sgl = append(sgl, SGE{Addr: base, Length: uint32(n)})
			for b := range n {
				flat = append(flat, base+uint64(b))
			}
		}
		off := rng.IntN(len(flat) + 1)
		c := seek(sgl, uint32(off))
		var got []uint64
		for {
			p, ok := c.rest(sgl)
			if !ok {
				break
			}
			n := min(p.Length, uint32(1+rng.IntN(50)))
			for b := range n {
				got = append(got, p.Addr+uint64(b))
			}
			c.off += n
		}
		if len(got) != len(flat)-off {
			t.Fatalf("%v from %d: %d bytes, want %d", sgl, off, len(got), len(flat)-off)
		}
		for i := range got {
			if got[i] != flat[off+i] {
				t.Fatalf("%v from %d: byte %d is %d, want %d", sgl, off, i, got[i], flat[off+i])
			}
		}
	}
}

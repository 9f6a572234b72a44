package wire

import "testing"

// TestPSNCircle walks the whole circle: every distance from a few origins,
// which between them cover the wrap and the point half-way round.
func TestPSNCircle(t *testing.T) {
	const half = 1 << 23
	for _, q := range []PSN{0, 1, half - 1, half, half + 1, PSNMask - 1, PSNMask, 0x123456} {
		for d := int32(-half); d < half; d++ {
			p := q.Add(uint32(d))
			if p > PSNMask {
				t.Fatalf("%#x.Add(%d) = %#x, more than 24 bits", q, d, p)
			}
			if got := p.Diff(q); got != d {
				t.Fatalf("%#x.Diff(%#x) = %d, want %d", p, q, got, d)
			}
			if got := p.Less(q); got != (d < 0) {
				t.Fatalf("%#x.Less(%#x) = %v at distance %d", p, q, got, d)
			}
			if got := p.Sub(uint32(d)); got != q {
				t.Fatalf("%#x.Sub(%d) = %#x, want %#x", p, d, got, q)
			}
		}
	}
}

func TestPSNWrap(t *testing.T) {
	for _, c := range []struct{ got, want PSN }{
		{PSN(PSNMask).Next(), 0},
		{PSN(0).Next(), 1},
		{PSN(0).Sub(1), PSNMask},
		{PSN(PSNMask).Add(PSNMask + 1), PSNMask},
		{PSN(5).Add(1<<32 - 1), 4},
	} {
		if c.got != c.want {
			t.Errorf("got %#x, want %#x", c.got, c.want)
		}
	}
	if !PSN(PSNMask).Less(0) || PSN(0).Less(PSNMask) || PSN(7).Less(7) {
		t.Error("order is wrong at the wrap")
	}
}

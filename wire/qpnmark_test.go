package wire

import "testing"

// Few numbers have a mark, none has both, and each keeps its mark when there are fewer bits.
func TestQPNMark(t *testing.T) {
	for range 4 {
		m := NewQPNMark(8)
		connected, datagram, unlisted := 0, 0, 0
		for n := range QPN(1 << 20) {
			c, d, u := m.Connected(n), m.Datagram(n), m.Unlisted(n)
			if c && d || u && (c || d) {
				t.Fatalf("%+v: %#x has both marks", m, n)
			}
			if c {
				connected++
			}
			if d {
				datagram++
			}
			if u {
				unlisted++
			}
			less := QPNMark{Mul: m.Mul, Bits: 2}
			if c && !less.Connected(n) || d && !less.Datagram(n) || u && !less.Unlisted(n) {
				t.Fatalf("%+v: %#x loses its mark", m, n)
			}
		}
		for _, n := range []int{connected, datagram, unlisted} {
			if want := 1 << 12; n < want/4 || n > 4*want {
				t.Errorf("%+v: %d, %d and %d of 2^20 numbers have a mark, want about %d", m, connected, datagram, unlisted, want)
			}
		}
	}
	if m := (QPNMark{}); !m.Connected(5) || !m.Datagram(5) || !m.Unlisted(5) || m.Numbers() != 1<<24 {
		t.Error("without bits, some number has no mark")
	}
}

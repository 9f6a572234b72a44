package wire

import "testing"

// Few numbers have a mark, none has both, and each keeps its mark when there are fewer bits.
func TestQPNMark(t *testing.T) {
	for range 4 {
		m := NewQPNMark(8)
		connected, datagram := 0, 0
		for n := range QPN(1 << 20) {
			c, d := m.Connected(n), m.Datagram(n)
			if c && d {
				t.Fatalf("%+v: %#x has both marks", m, n)
			}
			if c {
				connected++
			}
			if d {
				datagram++
			}
			less := QPNMark{Mul: m.Mul, Bits: 3}
			if c && !less.Connected(n) || d && !less.Datagram(n) {
				t.Fatalf("%+v: %#x loses its mark", m, n)
			}
		}
		for _, n := range []int{connected, datagram} {
			if want := 1 << 12; n < want/4 || n > 4*want {
				t.Errorf("%+v: %d and %d of 2^20 numbers have a mark, want about %d", m, connected, datagram, want)
			}
		}
	}
	if m := (QPNMark{}); !m.Connected(5) || !m.Datagram(5) || m.Numbers() != 1<<24 {
		t.Error("without bits, some number has no mark")
	}
}

package wire

import "testing"

func TestBurst(t *testing.T) {
	for _, c := range []struct {
		length, seg int
		want        []int
	}{
		{0, 10, nil},
		{0, 0, nil},
		{10, 10, []int{10}},
		{10, 20, []int{10}},
		{10, 0, []int{10}},
		{10, -1, []int{10}},
		{30, 10, []int{10, 10, 10}},
		{31, 10, []int{10, 10, 10, 1}},
	} {
		b := Burst{Buf: make([]byte, c.length), Seg: c.seg}
		if b.N() != len(c.want) {
			t.Errorf("%d bytes by %d: %d packets, want %d", c.length, c.seg, b.N(), len(c.want))
			continue
		}
		at := 0
		for i, n := range c.want {
			p := b.Packet(i)
			if len(p) != n || &p[0] != &b.Buf[at] {
				t.Errorf("%d bytes by %d: packet %d has %d bytes, want %d", c.length, c.seg, i, len(p), n)
			}
			at += n
		}
	}
}

// TestUDPSourcePort has values worked out by hand from the definition.
func TestUDPSourcePort(t *testing.T) {
	for _, c := range []struct {
		label         uint32
		local, remote QPN
		want          uint16
	}{
		{0x00001, 0, 0, 0xc001},
		{0x3fff, 0, 0, 0xffff},
		{0x04000, 0, 0, 0xc001}, // bit 14 folds onto bit 0
		{0x04001, 0, 0, 0xc000},
		{0xfffff, 0, 0, 0xffc0},
		{0x100001, 0, 0, 0xc001},        // a label has 20 bits
		{0, 0, 5, 0xc000},               // 0 has no entropy to give
		{0, 2, 3, 0xc006},               // the product, small
		{0, 0x1000, 0x1000, 0xc010},     // 2^24 folds to 2^24^2^4: label 0x10
		{0, 0xffffff, 0xffffff, 0xff21}, // 0xfffffe000001 folds to label 0xfff1e
	} {
		if got := UDPSourcePort(c.label, c.local, c.remote); got != c.want {
			t.Errorf("UDPSourcePort(%#x, %#x, %#x) = %#x, want %#x", c.label, c.local, c.remote, got, c.want)
		}
	}
	if UDPSourcePort(0, 17, 99) != UDPSourcePort(0, 99, 17) {
		t.Error("the two directions of a connection hash differently")
	}
}

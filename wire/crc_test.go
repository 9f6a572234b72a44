package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestWideCRC compares every length, at changing alignment, with hash/crc32.
func TestWideCRC(t *testing.T) {
	if !haveWideCRC {
		t.Log("this processor has no 512-bit carry-less multiplication: hash/crc32 is used")
		return
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 9<<10)
	for i := range buf {
		buf[i] = byte(rnd.Uint32())
	}
	before := bytes.Clone(buf)
	for n := crcWideLen; n < len(buf)-64; n++ {
		b, reg := buf[n%61:][:n], rnd.Uint32()
		want := ^crc32.Update(^reg, crc32.IEEETable, b)
		if got := crcWide(reg, b); got != want {
			t.Fatalf("%d bytes from %d: %#x, want %#x", n, n%61, got, want)
		}
	}
	if !bytes.Equal(buf, before) {
		t.Error("the input has changed")
	}
}

// TestWideCRCBytes: each byte of the input counts, and none beside it.
func TestWideCRCBytes(t *testing.T) {
	if !haveWideCRC {
		return
	}
	for _, n := range []int{256, 257, 271, 272, 320, 511, 512, 1036, 4108} {
		buf := make([]byte, n+128)
		b := buf[64:][:n]
		zero := crcWide(0, b)
		for i := range buf {
			buf[i] = 1
			if changed := crcWide(0, b) != zero; changed != (i >= 64 && i < 64+n) {
				t.Fatalf("%d bytes: byte %d: changes the result: %v", n, i-64, changed)
			}
			buf[i] = 0
		}
	}
}

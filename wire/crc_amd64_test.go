package wire

import (
	"hash/crc32"
	"testing"
)

// TestSumBytesWithout runs what processors without 512-bit multiplication run.
func TestSumBytesWithout(t *testing.T) {
	defer func(have bool) { haveWideCRC = have }(haveWideCRC)
	buf := make([]byte, 5000)
	for i := range buf {
		buf[i] = byte(i * i >> 3)
	}
	for _, have := range []bool{haveWideCRC, false} {
		haveWideCRC = have
		for n := range buf {
			if got, want := sumBytes(uint32(n)*0x9e3779b1, buf[:n]), crc32.Update(uint32(n)*0x9e3779b1, crc32.IEEETable, buf[:n]); got != want {
				t.Fatalf("%d bytes, wide: %v: %#x, want %#x", n, have, got, want)
			}
		}
	}
}

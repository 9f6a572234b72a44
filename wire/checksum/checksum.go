// Package checksum computes the checksum of IP and UDP headers (RFC 1071).
package checksum

import "encoding/binary"

// Add adds the 16-bit words of b to sum, eight bytes at a time: the sum of 32-bit
// words is that of 16-bit ones, once it is folded.
func Add(sum uint64, b []byte) uint64 {
	for len(b) >= 8 {
		w := binary.BigEndian.Uint64(b)
		sum += w>>32 + w&0xffffffff
		b = b[8:]
	}
	for len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// Fold brings a sum to 16 bits; its complement is the checksum.
func Fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

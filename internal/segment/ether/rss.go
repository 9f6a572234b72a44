package ether

import "encoding/binary"

// HashFields are the fields of a frame that RSS hashes: ibv_rx_hash_fields.
type HashFields uint64

// The bits of HashFields.
const (
	HashSrcIPv4 HashFields = 1 << iota
	HashDstIPv4
	HashSrcIPv6
	HashDstIPv6
	HashSrcTCP
	HashDstTCP
	HashSrcUDP
	HashDstUDP
)

// HashAll has all fields.
const HashAll HashFields = 1<<8 - 1

// Valid reports that an adapter can hash these fields together: one version of IP, and one
// protocol above it.
func (h HashFields) Valid() bool {
	both := func(a, b HashFields) bool { return h&a != 0 && h&b != 0 }
	return h&^HashAll == 0 &&
		!both(HashSrcIPv4|HashDstIPv4, HashSrcIPv6|HashDstIPv6) &&
		!both(HashSrcTCP|HashDstTCP, HashSrcUDP|HashDstUDP)
}

// HashKeySize is the size of a key.
const HashKeySize = 40

// RSS spreads frames over queues (receive side scaling).
type RSS struct {
	Key    [HashKeySize]byte
	Fields HashFields
}

// Index is the place of a frame in a table of n queues; n is a power of two.
func (r *RSS) Index(f *Frame, n int) int { return int(r.Hash(f) & uint32(n-1)) }

// Hash is the hash of a frame by Toeplitz. It is 0 if the frame has none of the fields. A frame
// without the ports is hashed by its addresses.
func (r *RSS) Hash(f *Frame) uint32 {
	var in [36]byte
	b := in[:0]
	addrs := f.addresses()
	half := len(addrs) / 2
	src, dst := HashSrcIPv4, HashDstIPv4
	if f.Version == 6 {
		src, dst = HashSrcIPv6, HashDstIPv6
	}
	if r.Fields&src != 0 {
		b = append(b, addrs[:half]...)
	}
	if r.Fields&dst != 0 {
		b = append(b, addrs[half:]...)
	}
	if f.L4 > 0 {
		src, dst = HashSrcTCP, HashDstTCP
		if f.Proto == ProtoUDP {
			src, dst = HashSrcUDP, HashDstUDP
		}
		if r.Fields&src != 0 {
			b = append(b, f.Data[f.L4:f.L4+2]...)
		}
		if r.Fields&dst != 0 {
			b = append(b, f.Data[f.L4+2:f.L4+4]...)
		}
	}
	return toeplitz(&r.Key, b)
}

// toeplitz is the hash of RSS, as Microsoft defines it. in has at most HashKeySize-4 bytes.
func toeplitz(key *[HashKeySize]byte, in []byte) (hash uint32) {
	for i, b := range in {
		// The 39 bits of the key that this byte uses.
		window := uint64(binary.BigEndian.Uint32(key[i:]))<<8 | uint64(key[i+4])
		for bit := range 8 {
			if b&(0x80>>bit) != 0 {
				hash ^= uint32(window >> (8 - bit))
			}
		}
	}
	return hash
}

package rocev2

import (
	crand "crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// addrKey is a secret with which a program makes one word of an IPv6 address, because it has room
// for few instructions. A stranger cannot tell which addresses have the same word.
type addrKey [4]uint32 // odd; an IPv6 address has four words (RFC 4291)

func newAddrKey() (k addrKey) {
	var b [16]byte
	crand.Read(b[:]) //nolint:errcheck // never fails
	for i := range k {
		k[i] = binary.NativeEndian.Uint32(b[4*i:]) | 1
	}
	return k
}

// word returns what a program compares of an address.
func (k *addrKey) word(addr netip.Addr) (w uint32) {
	if b := addr.As16(); !addr.Is4() {
		for i := range k {
			w = (w ^ binary.BigEndian.Uint32(b[4*i:])) * k[i]
		}
		return w
	}
	b := addr.As4()
	return binary.BigEndian.Uint32(b[:])
}

// load loads the word of a packet's source address.
func (k *addrKey) load(is4 bool) (prog []bpf.Instruction) {
	if is4 {
		return []bpf.Instruction{bpf.LoadAbsolute{Off: ipv4SrcOffset, Size: addrWord}}
	}
	prog = append(prog, bpf.LoadConstant{Dst: bpf.RegX, Val: 0})
	for i := range k {
		prog = append(prog,
			bpf.LoadAbsolute{Off: ipv6SrcOffset + uint32(addrWord*i), Size: addrWord},
			bpf.ALUOpX{Op: bpf.ALUOpXor},
			bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: k[i]},
			bpf.TAX{})
	}
	return prog
}

// passPeers lets packets of peers pass, and drops others.
func (k *addrKey) passPeers(peers map[netip.Addr]int, is4 bool) []bpf.Instruction {
	if peers == nil || len(peers) > maxFilterPeers {
		return []bpf.Instruction{passPacket}
	}
	var words []uint32
	for peer := range peers {
		if peer.Is4() == is4 {
			words = append(words, k.word(peer))
		}
	}
	slices.Sort(words)
	return append(k.load(is4), passWords(words)...)
}

// passWords lets a packet pass if its word is one of these, which are in order. It is a binary
// search, so that very many peers cost little time.
func passWords(words []uint32) (prog []bpf.Instruction) {
	if len(words) > leafPeers {
		middle := len(words) / 2
		less := passWords(words[:middle])
		prog = append(prog,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: words[middle], SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(less))})
		return append(append(prog, less...), passWords(words[middle:])...)
	}
	for i, w := range words {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: w, SkipTrue: uint8(len(words) - i)})
	}
	return append(prog, dropPacket, passPacket)
}

package wire

// crcAVX512 returns CRC-32 register reg after the n bytes at p, n >= crcWideLen.
//
//go:noescape
func crcAVX512(reg uint32, p *byte, n int) uint32

func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// xgetbv is the low half of extended control register 0.
func xgetbv() uint32

// haveWideCRC reports whether processor and system have what crcAVX512 uses.
var haveWideCRC = func() bool {
	const (
		// leaf 1, ECX
		pclmulqdq, ssse3, sse41, osxsave, avx = 1 << 1, 1 << 9, 1 << 19, 1 << 27, 1 << 28
		// leaf 7, EBX
		avx2, avx512f = 1 << 5, 1 << 16
		// leaf 7, ECX
		vpclmulqdq = 1 << 10
		// XCR0: XMM, YMM, masks, ZMM
		zmmState = 0xe6
		leaf1    = pclmulqdq | ssse3 | sse41 | osxsave | avx
	)
	if leaves, _, _, _ := cpuid(0, 0); leaves < 7 {
		return false
	}
	if _, _, c, _ := cpuid(1, 0); c&leaf1 != leaf1 || xgetbv()&zmmState != zmmState {
		return false
	}
	_, b, c, _ := cpuid(7, 0)
	return b&(avx2|avx512f) == avx2|avx512f && c&vpclmulqdq != 0
}()

// crcWideLen is the least input of crcWide.
const crcWideLen = 256

// crcWide returns register reg after b, which is crcWideLen bytes at least.
func crcWide(reg uint32, b []byte) uint32 {
	_ = b[crcWideLen-1]
	return crcAVX512(reg, &b[0], len(b))
}

package wire

// The arithmetic of the ICRC. A value of the CRC register is a polynomial over
// GF(2) modulo crcPoly, bit-reflected: bit 31 is the coefficient of x^0. Feeding
// n zero bytes multiplies it by x^8n.

const crcPoly = 0xedb88320 // IEEE 802.3, reflected

// mulX returns a·x.
func mulX(a uint32) uint32 { return a>>1 ^ crcPoly&-(a&1) }

// divX returns a/x. It exists because the polynomial has a constant term, which
// in this notation is the top bit.
func divX(a uint32) uint32 {
	top := a >> 31
	return (a^crcPoly&-top)<<1 | top
}

// mul returns a·b.
func mul(a, b uint32) (r uint32) {
	for range 32 {
		r ^= a & uint32(int32(b)>>31)
		a = mulX(a)
		b <<= 1
	}
	return r
}

// rollForward returns the register a after n zero bytes.
func rollForward(a uint32, n int) uint32 {
	for range 8 * n {
		a = mulX(a)
	}
	return a
}

// Inverse powers of x: backLow[i] is x^-8i and backHigh[i] is x^-8·256i.
var backLow, backHigh = inversePowers()

func inversePowers() (low, high [256]uint32) {
	const one = 1 << 31
	p := uint32(one)
	for i := range 256 {
		low[i] = p
		for range 8 {
			p = divX(p)
		}
	}
	step := p // x^-8·256
	p = one
	for i := range 256 {
		high[i] = p
		p = mul(p, step)
	}
	return low, high
}

// rollBack undoes rollForward for 0 <= n < 65536.
func rollBack(a uint32, n int) uint32 {
	a = mul(a, backLow[n&0xff])
	if n > 0xff {
		a = mul(a, backHigh[n>>8&0xff])
	}
	return a
}

// byteEffect[v] is what the byte value v, in place of zero, does to a register
// some fixed number of bytes later.
type byteEffect [256]uint32

// newByteEffect returns the effect of a byte that n others follow. The register also
// advances by the byte itself, which makes n+1.
func newByteEffect(n int) (t byteEffect) {
	for v := range t {
		t[v] = rollForward(uint32(v), n+1)
	}
	return t
}

// A 16-bit field in network order at an offset of the IP or UDP header.
type fieldEffect struct{ hi, lo byteEffect }

// newFieldEffect returns the effect of a field with n bytes from its start to
// the end of the UDP header.
func newFieldEffect(n int) fieldEffect {
	return fieldEffect{hi: newByteEffect(n - 1), lo: newByteEffect(n - 2)}
}

func effect16(t *fieldEffect, v uint16) uint32 { return t.hi[v>>8] ^ t.lo[v&0xff] }

var (
	totalLen4Effect = newFieldEffect(ipv4Len - ipv4LenOffset + udpLen)
	id4Effect       = newFieldEffect(ipv4Len - ipv4IDOffset + udpLen)
	payload6Effect  = newFieldEffect(ipv6Len - 4 + udpLen)
	udpLenEffect    = newFieldEffect(udpLen - 4)

	dfEffect = rollForward(ipv4FlagDF, ipv4Len-ipv4IDOffset-2+udpLen)

	maskEffect = newMaskEffect()
)

// newMaskEffect returns, for each value of BTH byte 4, what must be added to the
// register before the BTH so that the byte counts as all ones. The byte comes four
// bytes later, so the difference is rolled back by four.
func newMaskEffect() (t byteEffect) {
	for v := range t {
		t[v] = rollBack(uint32(v)^0xff, 4)
	}
	return t
}

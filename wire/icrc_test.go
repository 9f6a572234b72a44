package wire

import "testing"

func TestDivX(t *testing.T) {
	a := uint32(0x12345678)
	for range 100 { if divX(mulX(a)) != a || mulX(divX(a)) != a { t.Fatal(a) }; a = mulX(a)^7 }
	for n := 0; n < 3000; n+=7 { if rollBack(rollForward(a,n),n) != a { t.Fatal(n) } }
}

// find single-bit flips that look like an ID/DF change
func TestAbsorb(t *testing.T) {
	for n := 0; n < 70000; n++ { // byte offset after start of the ID field
		for bit := range 8 {
			d := rollBack(uint32(1)<<bit, 0)
			d = mul(d, 1<<31)
			// error byte at offset n from ID byte: effect at ID position: roll back by n
			d = rollBack(uint32(1)<<bit, n)
			if d&^(0xffff|0x400000) == 0 && n > 2 { t.Log(n, bit, d) }
		}
		if n > 65000 {break}
	}
}

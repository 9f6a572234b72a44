package wire

import (
	"fmt"
	"hash/crc32"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, op := range []Opcode{RCSendMiddle, RCWriteOnlyImm, RCAck, XRCCompareSwap} {
		b.Run(op.String(), func(b *testing.B) {
			pkt := samplePacket(op, 1024)
			b.ReportAllocs()
			var psn PSN
			for b.Loop() {
				p, err := Parse(pkt)
				if err != nil {
					b.Fatal(err)
				}
				psn += p.PSN()
			}
			_ = psn
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, op := range []Opcode{RCSendMiddle, RCWriteOnlyImm, RCAck, XRCCompareSwap} {
		b.Run(op.String(), func(b *testing.B) {
			h := sampleHeaders(op, 0)
			buf := make([]byte, MaxHeaderLen)
			b.ReportAllocs()
			for b.Loop() {
				h.PSN = h.PSN.Next()
				h.Put(buf)
			}
		})
	}
}

// BenchmarkICRC compares with hash/crc32 on the same buffer.
func BenchmarkICRC(b *testing.B) {
	for _, payload := range []int{0, 256, 1024, 4096} {
		pkt := append(samplePacket(RCSendMiddle, payload), 0, 0, 0, 0)
		body := pkt[:len(pkt)-ICRCLen]
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/%d", name, payload), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
		run("hash-crc32", func() { crc32.ChecksumIEEE(body) })
		v4, v6 := NewICRC(testRoute(false), UDPPort), NewICRC(testRoute(true), UDPPort)
		run("put-IPv4", func() { v4.Put(pkt, 7) })
		run("put-IPv6", func() { v6.Put(pkt, 0) })
		v4.Put(pkt, 0)
		run("check-ID0", func() { v4.CheckUnknownID(pkt, nil) })
		known := seal(v4, 0x1234, true, body)
		run("check-unknown-ID", func() { v4.CheckUnknownID(known, nil) })
		run("check-exact", func() { v4.Check(known, 0x1234, true) })
	}
	b.Run("new-flow", func(b *testing.B) {
		r := testRoute(false)
		b.ReportAllocs()
		for b.Loop() {
			NewICRC(r, UDPPort)
		}
	})
}

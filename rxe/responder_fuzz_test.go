package rxe

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// FuzzResponder makes packets from its input, near enough to valid ones to get past
// the first checks. Nothing may panic, memory outside of the regions must stay as
// it was, and every receive work request must complete once, in order.
func FuzzResponder(f *testing.F) {
	f.Add([]byte{0, 0x04, 0, 8, 0, 0, 0, 0})
	f.Add([]byte{0, 0x06, 0, 255, 0, 0, 0, 2, 0x08, 0, 8, 0, 0, 0, 0, 0x0c, 0, 0, 16, 0, 0, 3, 0x0c, 255, 0, 16, 0, 0, 3})
	f.Add([]byte{0, 0x13, 0, 0, 0, 0, 0, 0, 0x13, 255, 0, 0, 0, 0, 0, 0x1d, 0, 8, 8, 0, 0, 8, 0x1c, 0, 0, 8, 0, 1, 8})
	f.Add([]byte{1, 0x20, 0, 255, 0, 0, 0, 0, 0x24, 0, 9, 0, 0, 0, 0})
	f.Add([]byte{2, 0x64, 0, 9, 0, 0, 0, 0})
	f.Fuzz(fuzzOne)
}

func fuzzOne(t *testing.T, in []byte) {
	if len(in) == 0 {
		return
	}
	typ := []QPType{QPRC, QPUC, QPUD}[in[0]%3]
	b := newBench(t, typ, nil)
	for i := range 8 {
		b.post(uint64(i), uint64(i)*512, 100, 0, 300)
	}
	in = in[1:]
	for len(in) >= 7 {
		var batch []pkt
		for len(in) >= 7 && len(batch) < 4 {
			batch = append(batch, b.fuzzed(in[:7]))
			in = in[7:]
		}
		b.send(batch...)
		b.clock.now = max(b.clock.now+1, b.clock.armed)
		b.dev.Expire()
		b.link.bursts = nil
	}
	b.must(b.qp.Modify(&QPAttr{State: QPErr}, QPAttrState))
	b.wantGuard()
	wcs := b.polled()
	n := uint64(0)
	for _, wc := range wcs {
		if wc.ID != n {
			t.Fatalf("completion of receive %d, want %d", wc.ID, n)
		}
		n++
	}
	if n != 8 {
		t.Fatalf("%d receives completed, want 8", n)
	}
	if _, err := b.mem.at(benchBase, 1); err != nil {
		t.Fatal(err)
	}
	b.must(b.remote.Dereg()) // waits for ever if a regionRef was not released
	b.must(b.local.Dereg())
}

// fuzzed makes a packet of seven bytes: opcode, PSN relative to the expected
// one, payload, address, key, length and flags.
func (b *bench) fuzzed(in []byte) pkt {
	h := wire.Headers{
		Opcode: wire.Opcode(in[0]),
		PSN:    (b.qp.resp.psn + wire.PSN(int8(in[1]))) & wire.PSNMask,
		VA:     remoteVA + uint64(in[3])*128 - 64*uint64(in[4]&1),
		RKey:   b.remote.RKey() ^ wire.RKey(in[4]>>7),
		DMALen: uint32(in[6]) * 16,
		QKey:   benchQKey,
		AckReq: in[5]&0x80 != 0, Solicited: in[5]&0x40 != 0,
		FlushPlacement: in[5] & 3, FlushLevel: in[5] >> 2 & 1,
		InvRKey: b.remote.RKey(),
		SwapAdd: uint64(in[6]),
	}
	if in[5]&0x20 != 0 {
		h.RKey = wire.RKey(binary.NativeEndian.Uint32([]byte{in[1], in[2], in[3], in[4]}))
	}
	n := int(in[2])
	if n == 255 {
		n = benchMTU
	}
	if !h.Opcode.Info().Valid() {
		h.Opcode = wire.RCSendOnly
	}
	if !h.Opcode.Info().Has(wire.OpPayload) {
		n = 0
	}
	return pkt{h: h, data: pattern(n)}
}

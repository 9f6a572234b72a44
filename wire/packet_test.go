package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestTruncation cuts each packet kind, without and with payload, at every
// length. A prefix that is whole words and as long as the headers is a shorter
// packet in its own right, unless its pad no longer fits.
func TestTruncation(t *testing.T) {
	for _, op := range validOps() {
		for _, n := range []int{0, 1, 5, 8} {
			whole := samplePacket(op, n)
			for cut := range len(whole) {
				p, err := Parse(whole[:cut:cut])
				body := cut - op.Info().HeaderLen
				var want error
				switch {
				case body < 0 || body%4 != 0:
					want = ErrTruncated
				case body < PadLen(n) && op.Info().Has(OpPayload):
					want = ErrPad
				}
				if !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("%v of %d bytes cut to %d: error %v, want %v", op, len(whole), cut, err, want)
				}
				if err == nil && len(p.Payload()) != body-p.Pad() {
					t.Errorf("%v cut to %d: payload %d bytes", op, cut, len(p.Payload()))
				}
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	edit := func(b []byte, i int, v byte) []byte { b[i] = v; return b }
	type test struct {
		name string
		b    []byte
		op   Opcode
		want error
		text string
	}
	tests := []test{
		{"empty", nil, 0, ErrTruncated, "wire: packet truncated"},
		{"short BTH", make([]byte, BTHLen-1), 0, ErrTruncated, "wire: packet truncated"},
		{"no RETH", samplePacket(RCReadRequest, 0)[:BTHLen], RCReadRequest, ErrTruncated,
			"wire: RC_RDMA_READ_REQUEST: packet truncated"},
		{"odd length", append(samplePacket(RCSendOnly, 4), 0), RCSendOnly, ErrTruncated,
			"wire: RC_SEND_ONLY: packet truncated"},
		{"pad without payload", edit(samplePacket(RCAck, 0), 1, 0x10), RCAck, ErrPad,
			"wire: RC_ACKNOWLEDGE: pad count exceeds payload"},
	}
	for tver := range byte(15) {
		tests = append(tests, test{fmt.Sprintf("version %d", tver+1),
			edit(samplePacket(RCSendOnly, 4), 1, tver+1), RCSendOnly, ErrTVer,
			"wire: RC_SEND_ONLY: unsupported transport header version"})
	}
	for op := range 256 {
		if op := Opcode(op); !op.Info().Valid() {
			tests = append(tests, test{op.String(), edit(make([]byte, 64), 0, byte(op)), op, ErrOpcode,
				"wire: " + op.String() + ": unknown opcode"})
		}
	}
	for _, c := range tests {
		_, err := Parse(c.b)
		var pe *ParseError
		if !errors.As(err, &pe) || !errors.Is(err, c.want) || pe.Opcode() != c.op || pe.Error() != c.text {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestRoundTrip builds every opcode with every pad, parses it, and expects the
// headers of the opcode back and 0 for all others.
func TestRoundTrip(t *testing.T) {
	for _, op := range validOps() {
		for n := range 9 {
			b := samplePacket(op, n)
			p, err := Parse(b)
			if err != nil {
				t.Fatalf("%v, payload %d: %v", op, n, err)
			}
			want := onlyPresent(sampleHeaders(op, p.Pad()))
			if got := p.Headers(); got != want {
				t.Errorf("%v:\n got %+v\nwant %+v", op, got, want)
			}
			h := p.Headers()
			again := append(h.Append(nil), b[h.Len():]...)
			if !bytes.Equal(again, b) {
				t.Errorf("%v: rebuilt\n% x, want\n% x", op, again, b)
			}
			if op.Info().Has(OpPayload) && len(p.Payload()) != n {
				t.Errorf("%v: payload of %d bytes, want %d", op, len(p.Payload()), n)
			}
		}
	}
}

// onlyPresent zeroes the fields of headers that the opcode does not have.
func onlyPresent(h Headers) Headers {
	i := h.Opcode.Info()
	if !i.Has(HasRETH | HasAtomicETH) {
		h.VA, h.RKey = 0, 0
	}
	if !i.Has(HasRETH) {
		h.DMALen = 0
	}
	if !i.Has(HasAETH) {
		h.Syndrome, h.MSN = 0, 0
	}
	if !i.Has(HasDETH) {
		h.QKey, h.SrcQP = 0, 0
	}
	if !i.Has(HasImm) {
		h.Imm = 0
	}
	if !i.Has(HasIETH) {
		h.InvRKey = 0
	}
	if !i.Has(HasAtomicETH) {
		h.SwapAdd, h.Compare = 0, 0
	}
	if !i.Has(HasAtomicAckETH) {
		h.AtomicOrig = 0
	}
	if !i.Has(HasXRCETH) {
		h.XRCSRQN = 0
	}
	if !i.Has(HasFETH) {
		h.FlushPlacement, h.FlushLevel = 0, 0
	}
	return h
}

// TestBTHBits sets each flag alone and pins the bytes.
func TestBTHBits(t *testing.T) {
	for _, c := range []struct {
		h    Headers
		want string
	}{
		{Headers{Opcode: RCSendMiddle}, "01 00 0000 00000000 00000000"},
		{Headers{Opcode: RCSendMiddle, Solicited: true}, "01 80 0000 00000000 00000000"},
		{Headers{Opcode: RCSendMiddle, MigReq: true}, "01 40 0000 00000000 00000000"},
		{Headers{Opcode: RCSendMiddle, Pad: 3}, "01 30 0000 00000000 00000000"},
		{Headers{Opcode: RCSendMiddle, FECN: true}, "01 00 0000 80000000 00000000"},
		{Headers{Opcode: RCSendMiddle, BECN: true}, "01 00 0000 40000000 00000000"},
		{Headers{Opcode: RCSendMiddle, AckReq: true}, "01 00 0000 00000000 80000000"},
		{Headers{Opcode: RCSendMiddle, PKey: 0xffff}, "01 00 ffff 00000000 00000000"},
		// Fields wider than the wire do not spill into their neighbours.
		{Headers{Opcode: RCSendMiddle, DestQP: ^QPN(0), PSN: ^PSN(0), Pad: 0xff}, "01 30 0000 00ffffff 00ffffff"},
		{Headers{Opcode: RCAck, MSN: ^MSN(0)}, "11 00 0000 00000000 00000000 00ffffff"},
		{Headers{Opcode: UDSendOnly, SrcQP: ^QPN(0)}, "64 00 0000 00000000 00000000 00000000 00ffffff"},
		{Headers{Opcode: XRCSendOnly, XRCSRQN: ^uint32(0)}, "a4 00 0000 00000000 00000000 00ffffff"},
		{Headers{Opcode: OpCNP, BECN: true}, "81 00 0000 40000000 00000000" + strings.Repeat("00", 16)},
	} {
		want := strings.ReplaceAll(c.want, " ", "")
		if got := fmt.Sprintf("%x", c.h.Append(nil)); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", c.h, got, want)
		}
	}
}

// TestReservedBits: a receiver ignores them (real NICs set those of byte 4).
func TestReservedBits(t *testing.T) {
	b := samplePacket(RCSendOnly, 4)
	want := must(b).Headers()
	b[4] |= 0x3f
	b[8] |= 0x7f
	p, err := Parse(b)
	if err != nil || p.Headers() != want {
		t.Errorf("reserved bits changed the packet: %v", err)
	}
}

func TestPutReusedBuffer(t *testing.T) {
	for _, op := range validOps() {
		h := sampleHeaders(op, 0)
		dirty := bytes.Repeat([]byte{0xee}, h.Len()+3)
		n := h.Put(dirty)
		if n != h.Len() || !bytes.Equal(dirty[:n], h.Append(nil)) {
			t.Errorf("%v: old bytes show through: % x", op, dirty[:n])
		}
		if !bytes.Equal(dirty[n:], []byte{0xee, 0xee, 0xee}) {
			t.Errorf("%v: wrote behind its headers", op)
		}
	}
	h := Headers{Opcode: 0xff}
	if h.Len() != 0 || h.Put(nil) != 0 || len(h.Append(nil)) != 0 {
		t.Error("an unknown opcode has headers")
	}
}

func TestPadLen(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3, 2, 1, 0} {
		if got := PadLen(n); got != want {
			t.Errorf("PadLen(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for _, op := range validOps() {
		b := samplePacket(op, 64)
		h := sampleHeaders(op, 0)
		var sink Headers
		check := func(what string, f func()) {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%v: %s allocates %v times", op, what, n)
			}
		}
		check("Parse", func() { p, _ := Parse(b); sink = p.Headers() })
		check("Put", func() { h.Put(b) })
		_ = sink
	}
	for name, b := range map[string][]byte{
		"truncated": make([]byte, 3), "opcode": append([]byte{0xff}, make([]byte, 20)...),
		"version": append([]byte{4, 1}, make([]byte, 20)...), "pad": append([]byte{4, 0x30}, make([]byte, 10)...),
	} {
		var err error
		if n := testing.AllocsPerRun(10, func() { _, err = Parse(b) }); n != 0 || err == nil {
			t.Errorf("refusing a bad packet (%s: %v) allocates %v times", name, err, n)
		}
	}
}

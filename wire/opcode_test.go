package wire

import (
	"fmt"
	"strings"
	"testing"
)

// opcodeList states IBA 9.2.1, A14 and A19 once more, by hand and in another form than
// the table under test. A line has value, name, headers in order, and properties. The
// properties are R for request, r for response, P for payload, Q for takes a receive.
const opcodeList = `
00 RC_SEND_FIRST                       -                    RPQ
01 RC_SEND_MIDDLE                      -                    RP
02 RC_SEND_LAST                        -                    RP
03 RC_SEND_LAST_WITH_IMMEDIATE         imm                  RP
04 RC_SEND_ONLY                        -                    RPQ
05 RC_SEND_ONLY_WITH_IMMEDIATE         imm                  RPQ
06 RC_RDMA_WRITE_FIRST                 reth                 RP
07 RC_RDMA_WRITE_MIDDLE                -                    RP
08 RC_RDMA_WRITE_LAST                  -                    RP
09 RC_RDMA_WRITE_LAST_WITH_IMMEDIATE   imm                  RPQ
0a RC_RDMA_WRITE_ONLY                  reth                 RP
0b RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE   reth,imm             RPQ
0c RC_RDMA_READ_REQUEST                reth                 R
0d RC_RDMA_READ_RESPONSE_FIRST         aeth                 rP
0e RC_RDMA_READ_RESPONSE_MIDDLE        -                    rP
0f RC_RDMA_READ_RESPONSE_LAST          aeth                 rP
10 RC_RDMA_READ_RESPONSE_ONLY          aeth                 rP
11 RC_ACKNOWLEDGE                      aeth                 r
12 RC_ATOMIC_ACKNOWLEDGE               aeth,atomicack       r
13 RC_COMPARE_SWAP                     atomic               R
14 RC_FETCH_ADD                        atomic               R
16 RC_SEND_LAST_WITH_INVALIDATE        ieth                 RP
17 RC_SEND_ONLY_WITH_INVALIDATE        ieth                 RPQ
1c RC_FLUSH                            feth,reth            R
1d RC_ATOMIC_WRITE                     reth                 RP
20 UC_SEND_FIRST                       -                    RPQ
21 UC_SEND_MIDDLE                      -                    RP
22 UC_SEND_LAST                        -                    RP
23 UC_SEND_LAST_WITH_IMMEDIATE         imm                  RP
24 UC_SEND_ONLY                        -                    RPQ
25 UC_SEND_ONLY_WITH_IMMEDIATE         imm                  RPQ
26 UC_RDMA_WRITE_FIRST                 reth                 RP
27 UC_RDMA_WRITE_MIDDLE                -                    RP
28 UC_RDMA_WRITE_LAST                  -                    RP
29 UC_RDMA_WRITE_LAST_WITH_IMMEDIATE   imm                  RPQ
2a UC_RDMA_WRITE_ONLY                  reth                 RP
2b UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE   reth,imm             RPQ
64 UD_SEND_ONLY                        deth                 RPQ
65 UD_SEND_ONLY_WITH_IMMEDIATE         deth,imm             RPQ
81 CNP                                 cnp                  -
a0 XRC_SEND_FIRST                      xrc                  RPQ
a1 XRC_SEND_MIDDLE                     xrc                  RP
a2 XRC_SEND_LAST                       xrc                  RP
a3 XRC_SEND_LAST_WITH_IMMEDIATE        xrc,imm              RP
a4 XRC_SEND_ONLY                       xrc                  RPQ
a5 XRC_SEND_ONLY_WITH_IMMEDIATE        xrc,imm              RPQ
a6 XRC_RDMA_WRITE_FIRST                xrc,reth             RP
a7 XRC_RDMA_WRITE_MIDDLE               xrc                  RP
a8 XRC_RDMA_WRITE_LAST                 xrc                  RP
a9 XRC_RDMA_WRITE_LAST_WITH_IMMEDIATE  xrc,imm              RPQ
aa XRC_RDMA_WRITE_ONLY                 xrc,reth             RP
ab XRC_RDMA_WRITE_ONLY_WITH_IMMEDIATE  xrc,reth,imm         RPQ
ac XRC_RDMA_READ_REQUEST               xrc,reth             R
ad XRC_RDMA_READ_RESPONSE_FIRST        aeth                 rP
ae XRC_RDMA_READ_RESPONSE_MIDDLE       -                    rP
af XRC_RDMA_READ_RESPONSE_LAST         aeth                 rP
b0 XRC_RDMA_READ_RESPONSE_ONLY         aeth                 rP
b1 XRC_ACKNOWLEDGE                     aeth                 r
b2 XRC_ATOMIC_ACKNOWLEDGE              aeth,atomicack       r
b3 XRC_COMPARE_SWAP                    xrc,atomic           R
b4 XRC_FETCH_ADD                       xrc,atomic           R
b6 XRC_SEND_LAST_WITH_INVALIDATE       xrc,ieth             RP
b7 XRC_SEND_ONLY_WITH_INVALIDATE       xrc,ieth             RPQ
`

func TestOpcodeTable(t *testing.T) {
	type header struct {
		length int
		flag   OpFlags
		offset func(*OpInfo) uint8
	}
	headers := map[string]header{
		"reth":      {16, HasRETH, func(i *OpInfo) uint8 { return i.RETH }},
		"aeth":      {4, HasAETH, func(i *OpInfo) uint8 { return i.AETH }},
		"deth":      {8, HasDETH, func(i *OpInfo) uint8 { return i.DETH }},
		"imm":       {4, HasImm, func(i *OpInfo) uint8 { return i.Imm }},
		"ieth":      {4, HasIETH, func(i *OpInfo) uint8 { return i.IETH }},
		"atomic":    {28, HasAtomicETH, func(i *OpInfo) uint8 { return i.AtomicETH }},
		"atomicack": {8, HasAtomicAckETH, func(i *OpInfo) uint8 { return i.AtomicAckETH }},
		"xrc":       {4, HasXRCETH, func(i *OpInfo) uint8 { return i.XRCETH }},
		"feth":      {4, HasFETH, func(i *OpInfo) uint8 { return i.FETH }},
		"cnp":       {16, HasCNP, func(i *OpInfo) uint8 { return i.CNP }},
	}
	seen := map[Opcode]bool{}
	for _, line := range strings.Split(strings.TrimSpace(opcodeList), "\n") {
		var op Opcode
		var name, layout, props string
		if _, err := fmt.Sscanf(line, "%x %s %s %s", &op, &name, &layout, &props); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seen[op] = true
		i := op.Info()
		if op.String() != name || i.Service != op.Service() || !strings.HasPrefix(name, i.Service.String()) {
			t.Errorf("%#02x: %v of service %v, want %s", uint8(op), op, i.Service, name)
		}
		offset := BTHLen
		for _, h := range strings.Split(layout, ",") {
			if h == "-" {
				continue
			}
			if got := int(headers[h].offset(i)); got != offset || !i.Has(headers[h].flag) {
				t.Errorf("%v: %s at %d, want %d", op, h, got, offset)
			}
			offset += headers[h].length
		}
		if i.HeaderLen != offset {
			t.Errorf("%v: header length %d, want %d", op, i.HeaderLen, offset)
		}
		for h, v := range headers {
			listed := strings.Contains(","+layout+",", ","+h+",")
			if i.Has(v.flag) != listed || (v.offset(i) != 0) != listed {
				t.Errorf("%v: has %s is %v", op, h, !listed)
			}
		}
		for prop, flag := range map[string]OpFlags{"R": OpRequest, "r": OpResponse, "P": OpPayload, "Q": OpRecv} {
			if i.Has(flag) != strings.Contains(props, prop) {
				t.Errorf("%v: property %s is %v", op, prop, i.Has(flag))
			}
		}
		checkNameFlags(t, op, name)
	}
	for op := range 256 {
		op := Opcode(op)
		if op.Info().Valid() != seen[op] {
			t.Errorf("%#02x: valid is %v", uint8(op), op.Info().Valid())
		}
		if !seen[op] && (op.Info().Flags != 0 || op.String() != fmt.Sprintf("opcode 0x%02x", uint8(op))) {
			t.Errorf("%#02x is not in the list but has %+v", uint8(op), *op.Info())
		}
	}
}

// checkNameFlags derives position and operation from the words of the name.
func checkNameFlags(t *testing.T, op Opcode, name string) {
	t.Helper()
	word := func(w string) bool { return strings.Contains(name, w) }
	position := OpOnly
	switch {
	case word("_FIRST"):
		position = OpFirst
	case word("_MIDDLE"):
		position = OpMiddle
	case word("_LAST"):
		position = OpLast
	}
	if got := op.Info().Flags & (OpFirst | OpMiddle | OpLast | OpOnly); got != position {
		t.Errorf("%v: position flags %#x, want %#x", op, got, position)
	}
	for flag, want := range map[OpFlags]bool{
		OpSend:        word("_SEND_"),
		OpWrite:       word("RDMA_WRITE"),
		OpRead:        word("READ_REQUEST"),
		OpReadResp:    word("READ_RESPONSE"),
		OpAtomic:      word("COMPARE_SWAP") || word("FETCH_ADD"),
		OpAtomicWrite: word("ATOMIC_WRITE"),
		OpFlush:       word("FLUSH"),
		OpAck:         word("ACKNOWLEDGE"),
		OpImm:         word("IMMEDIATE"),
		OpInv:         word("INVALIDATE"),
	} {
		if op.Info().Has(flag) != want {
			t.Errorf("%v: flag %#x is %v", op, flag, !want)
		}
	}
}

// TestOpcodeConstants pins the constants that a reader is most likely to meet
// in a capture.
func TestOpcodeConstants(t *testing.T) {
	for op, name := range map[Opcode]string{
		RCSendOnly: "RC_SEND_ONLY", RCWriteLastImm: "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE",
		RCReadRequest: "RC_RDMA_READ_REQUEST", RCReadResponseOnly: "RC_RDMA_READ_RESPONSE_ONLY",
		RCAck: "RC_ACKNOWLEDGE", RCAtomicAck: "RC_ATOMIC_ACKNOWLEDGE",
		RCCompareSwap: "RC_COMPARE_SWAP", RCFetchAdd: "RC_FETCH_ADD",
		RCSendLastInv: "RC_SEND_LAST_WITH_INVALIDATE", RCSendOnlyInv: "RC_SEND_ONLY_WITH_INVALIDATE",
		RCFlush: "RC_FLUSH", RCAtomicWrite: "RC_ATOMIC_WRITE",
		UCSendFirst: "UC_SEND_FIRST", UCWriteOnlyImm: "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE",
		UDSendOnly: "UD_SEND_ONLY", UDSendOnlyImm: "UD_SEND_ONLY_WITH_IMMEDIATE",
		OpCNP: "CNP", XRCSendFirst: "XRC_SEND_FIRST", XRCSendOnlyInv: "XRC_SEND_ONLY_WITH_INVALIDATE",
		XRCFetchAdd: "XRC_FETCH_ADD", XRCReadResponseLast: "XRC_RDMA_READ_RESPONSE_LAST",
	} {
		if op.String() != name {
			t.Errorf("%#02x is %v, want %s", uint8(op), op, name)
		}
	}
}

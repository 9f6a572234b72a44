package mlx5

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// framing keeps the frames of queue pairs, and gives them to another one.
type framing struct {
	sent [][]byte
	as   []rxe.FrameSend
	to   *rxe.QP
	info rxe.FrameInfo
	// strip: queue pairs take VLAN tags away
	strip bool
}

func (w *framing) SendFrames(_ *rxe.QP, frames []rxe.FrameOut) {
	for _, f := range frames {
		w.sent, w.as = append(w.sent, bytes.Clone(f.Data)), append(w.as, f.As)
		if w.to != nil {
			w.to.ReceiveFrame(f.Data, w.info)
		}
	}
}

// rawTwo returns queue pairs for raw packets. What the first one sends, the other one gets.
func rawTwo(t *testing.T, strip bool) (a, b *pair) {
	t.Helper()
	p := newProgram(t, rxedev.New(t))
	p.frames.strip = strip
	a, b = p.newQP(rxe.QPRaw, 0x101), p.newQP(rxe.QPRaw, 0xabcdef)
	a.connect(a)
	b.connect(b)
	p.frames.to = b.qp
	return a, b
}

// eth is the segment of a raw packet, with the beginning of its frame.
func eth(flags uint8, mss uint16, head []byte) []byte {
	b := append(seg(uint32(0), flags, uint8(0), mss, uint32(0), uint16(len(head))), head...)
	return append(b, make([]byte, max(ethSize-len(b), -len(b)&15))...)
}

// TestRawSend: a frame is what its request has inline, in its segment, and in memory. What the
// request asks for reaches the port. Requests wrap at the end of the queue.
func TestRawSend(t *testing.T) {
	head := []byte("to...!from..!88 and a header that is longer than eighteen bytes")
	data := []byte("of memory")
	insert := seg(uint32(0), uint32(0), uint32(0), uint16(ethInsertVLAN), uint16(0x2007))
	for _, tt := range []struct {
		name string
		op   uint8
		segs func(p *pair) [][]byte
		want string
		as   rxe.FrameSend
	}{
		{"all in memory", opSend, func(p *pair) [][]byte { return [][]byte{eth(0, 0, nil), p.piece(0, 64)} }, string(head) + "o", rxe.FrameSend{}},
		{"two pieces", opSend, func(p *pair) [][]byte { return [][]byte{eth(ethL3Sum, 0, nil), p.piece(0, 14), p.piece(63, 9)} },
			string(head[:14]) + string(data), rxe.FrameSend{Flags: rxe.FrameL3Sum}},
		{"eighteen bytes inline", opSend, func(p *pair) [][]byte { return [][]byte{eth(ethL4Sum, 0, head[:18]), p.piece(63, 9)} },
			string(head[:18]) + string(data), rxe.FrameSend{Flags: rxe.FrameL4Sum}},
		{"nothing in memory", opSend, func(*pair) [][]byte { return [][]byte{eth(0, 0, nil), inlined(head)} }, string(head), rxe.FrameSend{}},
		{"all inline", opSend, func(*pair) [][]byte { return [][]byte{eth(ethL3Sum|ethL4Sum, 0, head[:2]), inlined(head[2:])} },
			string(head), rxe.FrameSend{Flags: rxe.FrameL3Sum | rxe.FrameL4Sum}},
		{"to be cut", opTSO, func(p *pair) [][]byte { return [][]byte{eth(0, 4, head[:54]), p.piece(63, 9)} },
			string(head[:54]) + string(data), rxe.FrameSend{MSS: 4, Header: 54}},
		{"with a tag", opSend, func(p *pair) [][]byte { return [][]byte{insert, p.piece(0, 20)} }, string(head[:20]),
			rxe.FrameSend{Flags: rxe.FrameInsertVLAN, VLAN: 0x2007}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := rawTwo(t, false)
			copy(a.bytes(dataAt, 128), append(bytes.Clone(head), data...))
			for i := range 3 * sqBlocks {
				at := a.post(tt.op, signaled, 0, tt.segs(a)...)
				want := cqe{wqeOp: tt.op, qpn: uint32(a.qp.Num()), user: 0x101, counter: at, bytes: uint32(len(tt.want))}
				if got := a.send.one(); got != want {
					t.Fatalf("request %d: %+v, want %+v", i, got, want)
				}
				if len(a.frames.sent) != 1 || string(a.frames.sent[0]) != tt.want || a.frames.as[0] != tt.as {
					t.Fatalf("request %d: %q, %+v", i, a.frames.sent, a.frames.as)
				}
				a.frames.sent, a.frames.as = nil, nil
			}
		})
	}
}

// TestRawReceive: a completion says of a frame what libmlx5 and DPDK look for. It names a VLAN if
// the tag is not in the buffer.
func TestRawReceive(t *testing.T) {
	for _, strip := range []bool{false, true} {
		a, b := rawTwo(t, strip)
		a.frames.info = rxe.FrameInfo{Flags: rxe.FrameL3OK | rxe.FrameL4OK | rxe.FrameVLAN | rxe.FrameTag | rxe.FrameHash,
			L3: 2, L4: 1, VLAN: 0x3004, Tag: 0x123456, Hash: 0xfeedbeef}
		copy(a.bytes(dataAt, 20), "twenty bytesTAGSdata")
		want, cv, vlan := "twenty bytesTAGSdata", uint8(0), uint16(0)
		if strip {
			want, cv, vlan = "twenty bytesdata", 1, 0x3004
		}
		b.receive(b.piece(4096, 64))
		at := b.recv.cons
		a.post(opSend, signaled, 0, eth(0, 0, nil), a.piece(0, 20))
		raw := b.bytes(b.recv.buf+uint64((at+1)*uint32(b.recv.size))-cqeSize, cqeSize)
		c := b.recv.one()
		if c.op != cqeRespSend || int(c.bytes) != len(want) || c.user != 0xabcdef || c.counter != 0 || c.qpn != 0x123456 {
			t.Errorf("%+v", c)
		}
		be := binary.BigEndian
		if raw[28] != 6 || raw[29]>>2&3 != 2 || raw[29]>>4&7 != 1 || raw[29]&1 != cv || be.Uint16(raw[30:]) != vlan || be.Uint32(raw[12:]) != 0xfeedbeef {
			t.Errorf("% x", raw)
		}
		if got := b.bytes(dataAt+4096, len(want)); string(got) != want {
			t.Errorf("%q", got)
		}
		b.receive(b.piece(4096, 64))
		b.to(rxe.QPErr)
		if c := b.recv.one(); c.op != cqeRespErr || c.syndrome != 5 {
			t.Errorf("flushed: %+v", c)
		}
	}
}

// TestRawFlags: what a program may ask for when it makes a queue pair, and what not.
func TestRawFlags(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	cq := p.newCQ(64, 64, false)
	for flags, ok := range map[uint32]bool{
		uapi.QPCreateBlockMulticastLoopback | uapi.QPCreateScatterFCS | uapi.QPCreateCVLANStripping | uapi.QPCreatePCIWriteEndPadding: true,
		1 << 10: false, // IBV_QP_CREATE_SOURCE_QPN
	} {
		req := provider.QPRequest{Type: uapi.QPTypeRawPacket, Flags: flags, SendCQ: cq.mem, RecvCQ: cq.mem, Keys: p}
		own := CreateQPReq{DBAddr: p.alloc(recordSize), BufAddr: p.alloc(64), SQBufAddr: p.alloc(64), SQWQECount: 1,
			Flags: qpFlagUARPage, BFRegIndex: p.uar.id}
		q, err := p.ctx.NewQP(ask(p, own), req)
		if (err == nil) != ok {
			t.Errorf("flags %#x: %v", flags, err)
		}
		if err == nil {
			q.Free()
		}
	}
}

// TestHostileRaw: a request whose segment is not there as a whole fails, and sends nothing.
func TestHostileRaw(t *testing.T) {
	for name, segs := range map[string][][]byte{
		"no segment":                  {},
		"a header beyond the request": {seg(uint32(0), uint32(0), uint32(0), uint16(200), uint16(0))},
		"shorter than a frame":        {eth(0, 0, []byte("thirteen byte"))},
		"cut into nothing":            nil,
		"a header that is the frame":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := rawTwo(t, false)
			op := uint8(opSend)
			switch name {
			case "cut into nothing":
				op, segs = opTSO, [][]byte{eth(0, 0, make([]byte, 54)), a.piece(0, 9)}
			case "a header that is the frame":
				op, segs = opTSO, [][]byte{eth(0, 4, make([]byte, 54))}
			}
			a.post(op, signaled, 0, segs...)
			if c := a.send.one(); c.op != cqeReqErr || c.syndrome != 2 {
				t.Errorf("%+v", c)
			}
			if len(a.frames.sent) != 0 {
				t.Error("something was sent")
			}
			b.recv.none()
		})
	}
}

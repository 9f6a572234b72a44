package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// striding is a work queue whose requests have 8 strides of 64 bytes.
type striding struct {
	*program
	cq     *queue
	mem    provider.WQ
	qp     *rxe.QP
	own    CreateWQReq
	posted uint32
}

const strideBytes, requestBytes = 1 << leastStrideLog, 1 << (leastStrideLog + leastStridesLog)

func newStriding(p *program, change func(*CreateWQReq)) *striding {
	p.t.Helper()
	s := &striding{program: p, cq: p.newCQ(32, cqeSize, false)}
	s.mem, s.qp, s.own = p.workQueue(s.cq, func(r *CreateWQReq) {
		r.CompMask, r.SingleStrideLogBytes, r.SingleWQELogStrides = wqStriding, leastStrideLog, leastStridesLog
		if change != nil {
			change(r)
		}
	})
	ready(p.t, s.qp)
	return s
}

// post posts a request of n bytes, at its place in the messages' memory.
func (s *striding) post(n int) {
	at := s.own.BufAddr + uint64(s.posted%s.own.RQWQECount)<<wqShift
	copy(s.bytes(at, 1<<wqShift), append(make([]byte, nextSize), s.piece(uint64(s.posted)*requestBytes, n)...))
	s.posted++
	s.put32(s.own.DBAddr+qpRecordReceive, s.posted)
}

func (s *striding) arrive(frame []byte) {
	s.qp.ReceiveFrame(frame, rxe.FrameInfo{})
	s.dev.Deliver()
}

// part is what a completion says of a frame in a striding queue.
type part struct {
	request, first  uint16
	strides, length uint32
	filler          bool
}

func (s *striding) part() part {
	s.t.Helper()
	b := s.bytes(s.cq.buf+uint64(s.cq.cons&(s.cq.entries-1))*cqeSize, cqeSize)
	if c := s.cq.one(); c.op != cqeRespSend || c.user != s.own.UserIndex {
		s.t.Errorf("completion %+v", c)
	}
	count := binary.BigEndian.Uint32(b[44:])
	return part{binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[60:]), count >> 16 & 0x7fff, count & 0xffff, count>>31 != 0}
}

func frameOf(n int, fill byte) []byte { return bytes.Repeat([]byte{fill}, n) }

// TestStrides: frames lie in the strides that their completions name, one behind the other. One
// that does not fit into the rest of a request begins the next one, behind a filler.
func TestStrides(t *testing.T) {
	for _, c := range []struct {
		name  string
		shift uint64
		want  []part
	}{
		{"whole", 0, []part{{0, 0, 1, 60, false}, {0, 1, 2, 100, false}, {0, 3, 1, 64, false}, {0, 4, 4, 256, false},
			{1, 0, 1, 14, false}, {1, 1, 7, 0, true}, {2, 0, 8, 500, false}}},
		{"shifted", 2, []part{{0, 0, 1, 60, false}, {0, 1, 2, 100, false}, {0, 3, 2, 64, false}, {0, 5, 3, 0, true},
			{1, 0, 5, 256, false}, {1, 5, 1, 14, false}, {1, 6, 2, 0, true}, {2, 0, 8, 500, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStriding(newProgram(t, rxedev.New(t)), func(r *CreateWQReq) { r.TwoByteShiftEn = uint32(c.shift) })
			for range 3 {
				s.post(requestBytes)
			}
			for i, n := range []int{60, 100, 64, 256, 14, 500} {
				s.arrive(frameOf(n, byte(i+1)))
			}
			fill := byte(0)
			for _, want := range c.want {
				got := s.part()
				if got != want {
					t.Errorf("completion %+v, want %+v", got, want)
				}
				if got.filler {
					continue
				}
				fill++
				at := dataAt + uint64(got.request)*requestBytes + uint64(got.first)*strideBytes + c.shift
				if b := s.bytes(at, int(got.length)); !bytes.Equal(b, frameOf(len(b), fill)) {
					t.Errorf("frame %d: % x", fill, b)
				}
			}
			s.cq.none()
			s.arrive(frameOf(60, 9)) // the last request is full, and no other waits
			s.cq.none()
		})
	}
}

// TestStridesTooLong: a frame for which no request has room is dropped and counted, and takes
// nothing.
func TestStridesTooLong(t *testing.T) {
	s := newStriding(newProgram(t, rxedev.New(t)), nil)
	s.post(requestBytes)
	s.arrive(frameOf(requestBytes+1, 1))
	s.cq.none()
	if i := slices.Index(s.dev.Counters(), rxe.Counter{Name: "drop_bad_length", Value: 1}); i < 0 {
		t.Errorf("not counted: %v", s.dev.Counters())
	}
	s.arrive(frameOf(requestBytes, 2))
	if got := s.part(); got != (part{0, 0, 8, requestBytes, false}) {
		t.Errorf("completion %+v", got)
	}
}

// TestStridesWithoutRoom: a request with less memory than strides ends the queue, as a malformed
// one does.
func TestStridesWithoutRoom(t *testing.T) {
	s := newStriding(newProgram(t, rxedev.New(t)), nil)
	s.post(requestBytes - 1)
	s.arrive(frameOf(60, 1))
	if c := s.cq.one(); c.op != cqeRespErr || c.counter != 0 || c.wqeOp != 0 || s.qp.State() != rxe.QPErr {
		t.Errorf("completion %+v in %v", c, s.qp.State())
	}
}

// TestStridesFlushed: each request completes once when its queue ends, also one of which a part is
// taken. A queue that begins again begins with its first stride.
func TestStridesFlushed(t *testing.T) {
	s := newStriding(newProgram(t, rxedev.New(t)), nil)
	for range 2 {
		s.post(requestBytes)
	}
	s.arrive(frameOf(100, 1))
	s.part()
	must.OK(t, s.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
	for i := range uint16(2) {
		if c := s.cq.one(); c.op != cqeRespErr || c.syndrome != 0x05 || c.counter != i || c.user != s.own.UserIndex {
			t.Errorf("completion %+v", c)
		}
	}
	s.cq.none()
	beginsAgain(t, s, "after an error")
	s.arrive(frameOf(100, 1))
	s.part()
	beginsAgain(t, s, "after a reset within a request")
}

// beginsAgain resets a queue, and requires that it begins with its first stride.
func beginsAgain(t *testing.T, s *striding, when string) {
	t.Helper()
	must.OK(t, s.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
	s.mem.Reset()
	s.posted = 0
	ready(t, s.qp)
	s.post(requestBytes)
	s.arrive(frameOf(60, 1))
	if got := s.part(); got != (part{0, 0, 1, 60, false}) {
		t.Errorf("%s: completion %+v", when, got)
	}
}

// TestOrphanedStrides: the keeper completes the requests of a striding queue that have strides
// left, whether the daemon had noted the last completions or not.
func TestOrphanedStrides(t *testing.T) {
	for _, c := range []struct {
		frame int
		first uint16 // that the keeper completes
	}{{60, 0}, {requestBytes, 1}} {
		p, flush := newOrphan(t)
		s := newStriding(p, nil)
		for range 3 {
			s.post(requestBytes)
		}
		s.arrive(frameOf(c.frame, 1))
		s.part()
		if n, has := flush(); n != int(3-c.first) || !has {
			t.Fatalf("%d completed, %t", n, has)
		}
		for i := c.first; i < 3; i++ {
			if got := s.cq.one(); got.op != cqeRespErr || got.counter != i {
				t.Errorf("completion %+v, want of request %d", got, i)
			}
		}
	}
}

// TestStridesRefused: what mlx5_ib refuses of strides, and what the device says that it has.
func TestStridesRefused(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	u := ask(p, uint64(0))
	must.OK(t, p.ctx.QueryDevice(u, &provider.DeviceAttr{}))
	caps := uapi.Load[QueryDeviceResp](u.resp).StridingRQCaps
	if caps.SupportedQPTs != 1<<uapi.QPTypeRawPacket {
		t.Errorf("striding_rq_caps are %+v", caps)
	}
	for _, c := range []struct {
		what         string
		bytes, count uint32
		want         error
	}{
		{"the least", caps.MinStrideLogBytes, caps.MinWQELogStrides, nil},
		{"the most", caps.MaxStrideLogBytes, caps.MaxWQELogStrides, nil},
		{"small strides", caps.MinStrideLogBytes - 1, caps.MinWQELogStrides, rxe.ErrInvalid},
		{"large strides", caps.MaxStrideLogBytes + 1, caps.MinWQELogStrides, rxe.ErrInvalid},
		{"few strides", caps.MinStrideLogBytes, caps.MinWQELogStrides - 1, rxe.ErrInvalid},
		{"many strides", caps.MinStrideLogBytes, caps.MaxWQELogStrides + 1, rxe.ErrInvalid},
		{"very many", caps.MinStrideLogBytes, 1 << 31, rxe.ErrInvalid},
	} {
		own := CreateWQReq{RQWQECount: 4, RQWQEShift: wqShift, CompMask: wqStriding, SingleStrideLogBytes: c.bytes, SingleWQELogStrides: c.count}
		q, err := p.ctx.NewWQ(ask(p, own), provider.WQRequest{MaxWR: 4, MaxSGE: 1})
		if !errors.Is(err, c.want) || (q != nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
}

// TestCompressedCQ: a queue of compressed completions is made, as an adapter makes it, and mlx5_ib
// refuses what the device does not say that it has.
func TestCompressedCQ(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for _, c := range []struct {
		what   string
		size   uint32
		format uint8
		want   error
	}{
		{"hash", cqeSize, compressHash, nil}, {"strides", cqeSize, compressStridx, nil},
		{"two formats", cqeSize, compressHash | compressCsum, unix.EOPNOTSUPP},
		{"no format", cqeSize, 0, unix.EOPNOTSUPP}, {"128 bytes", 2 * cqeSize, compressHash, unix.EOPNOTSUPP},
	} {
		own := CreateCQReq{BufAddr: p.alloc(16 * int(c.size)), DBAddr: p.alloc(recordSize), CQESize: c.size, CQECompEn: 1, CQECompResFormat: c.format}
		if _, err := p.ctx.NewCQ(ask(p, own), provider.CQRequest{Entries: 15}); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
}

// FuzzStrides: whatever a program posts, and whatever arrives, parts follow each other and lie in
// the memory of their request.
func FuzzStrides(f *testing.F) {
	list := seg(uint32(requestBytes), uint32(5), uint64(dataAt))
	two := seg(uint32(100), uint32(5), uint64(dataAt), uint32(requestBytes), uint32(5), uint64(dataAt+100))
	for _, shift := range []bool{false, true} {
		f.Add(byte(0), byte(0), shift, list, uint16(3), []byte{60, 100, 64, 255, 14, 200})
		f.Add(byte(1), byte(0), shift, two, uint16(4), []byte{1, 62, 63, 64, 65, 66, 128})
		f.Add(byte(7), byte(12), shift, seg(uint32(0), uint32(lastKey), uint64(0)), uint16(1), []byte{60})
		f.Add(byte(0), byte(1), shift, seg(uint32(1<<31), uint32(5), uint64(1<<63), uint32(1<<31), uint32(5), ^uint64(0)), uint16(9), []byte{60, 60})
	}
	f.Fuzz(func(t *testing.T, log, count byte, shift bool, list []byte, posted uint16, lengths []byte) {
		p := newProgram(t, rxedev.New(t))
		own := CreateWQReq{BufAddr: p.alloc(4 << 6), DBAddr: p.alloc(recordSize), RQWQECount: 4, RQWQEShift: 6,
			CompMask: wqStriding, SingleStrideLogBytes: uint32(log%8) + leastStrideLog, SingleWQELogStrides: uint32(count%13) + leastStridesLog}
		if shift {
			own.TwoByteShiftEn = 1
		}
		for i := range 4 {
			copy(p.bytes(own.BufAddr+uint64(i)<<6, 64)[nextSize:], list)
		}
		p.put32(own.DBAddr+qpRecordReceive, uint32(posted))
		q := must.Get[provider.WQ](t)(p.ctx.NewWQ(ask(p, own), provider.WQRequest{MaxWR: 4, MaxSGE: 1})).(*workQueue)
		size, all := uint64(1)<<own.SingleStrideLogBytes, uint64(1)<<own.SingleWQELogStrides
		var w, request rxe.RecvWQE
		_ = decodeList(&request, append(append([]byte(nil), list...), make([]byte, 64)...)[:48])
		var at uint64 // strides that were taken
		for _, b := range lengths {
			n := int(b) << (b & 7)
			got := q.parts.PopPart(n, &w)
			for got == rxe.PartRest {
				if id := wrID(w.ID); uint64(id.first()) != at%all || uint64(id.first())+uint64(id.strides()) != all || !id.last() || !id.filler() || len(w.SGL) > 0 {
					t.Fatalf("a rest %#x after %d strides", w.ID, at)
				}
				at += uint64(wrID(w.ID).strides())
				got = q.parts.PopPart(n, &w)
			}
			if got != rxe.PartTaken {
				continue
			}
			id := wrID(w.ID)
			need := (uint64(n) + uint64(q.parts.shift) + size - 1) / size
			if uint64(id.first()) != at%all || uint64(id.strides()) != need || uint64(id.counter()) != at/all {
				t.Fatalf("part %#x of %d bytes after %d strides", w.ID, n, at)
			}
			var room uint64
			for _, e := range w.SGL {
				room += uint64(e.Length)
			}
			if want := need*size - min(need*size, uint64(q.parts.shift)); room != want {
				t.Fatalf("room for %d bytes, want %d", room, want)
			}
			if len(w.SGL) > 0 {
				if want, ok := byteAt(request.SGL, at%all*size+uint64(q.parts.shift)); !ok || w.SGL[0].Addr != want {
					t.Fatalf("part %#x begins at %#x, want %#x", w.ID, w.SGL[0].Addr, want)
				}
			}
			if at += need; at > 4*all {
				t.Fatalf("%d strides of a queue that has %d", at, 4*all)
			}
		}
	})
}

// byteAt is the address of a byte of a list.
func byteAt(list []rxe.SGE, off uint64) (addr uint64, ok bool) {
	for _, e := range list {
		if off < uint64(e.Length) {
			return e.Addr + off, true
		}
		off -= uint64(e.Length)
	}
	return 0, false
}

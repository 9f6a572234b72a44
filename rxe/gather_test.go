package rxe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// callCounter is memory that notes how many pieces each call of ReadV and WriteV had. A call with
// a piece at hole fails.
type callCounter struct {
	Memory
	calls, writes []int
	hole          uint64
}

func (m *callCounter) ReadV(spans []Span) error {
	m.calls = append(m.calls, len(spans))
	if err := m.check(spans); err != nil {
		return err
	}
	return m.Memory.ReadV(spans)
}

func (m *callCounter) WriteV(spans []Span) error {
	m.writes = append(m.writes, len(spans))
	if err := m.check(spans); err != nil {
		return err
	}
	return m.Memory.WriteV(spans)
}

func (m *callCounter) check(spans []Span) error {
	for _, s := range spans {
		if s.VA == m.hole {
			return errors.New("nothing is mapped there")
		}
	}
	return nil
}

// newAheadBench is a queue pair in RTS that gathers ahead, with a region whose byte n is n.
func newAheadBench(t *testing.T, typ QPType) (*bench, *callCounter, *MR) {
	t.Helper()
	b := newBench(t, typ, func(a *QPAttr) { a.PathMTU = 1024 })
	b.dev.cfg.CostlyMemory = true
	a := QPAttr{State: QPRTS, SQPSN: 1, MaxRdAtomic: 2}
	b.must(b.qp.Modify(&a, RequiredMask(typ, QPRTR, QPRTS)))
	mem := &callCounter{Memory: b.mem}
	mr, err := b.pd.RegMR(mem, localVA, localLen, localVA, AccessLocalWrite)
	b.must(err)
	for i := range localLen {
		b.mem.b[localVA-benchBase+i] = byte(i)
	}
	b.take()
	return b, mem, mr
}

// aheadWR is a WRITE of n bytes that begin at byte off of the region.
func aheadWR(id uint64, mr *MR, off uint64, n uint32) SendWR {
	return SendWR{ID: id, Op: WRWrite, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1,
		SGL: []SGE{{Addr: localVA + off, Length: n, LKey: mr.LKey()}}}
}

// TestGatherAhead: payloads of messages that follow each other are read with one call, and each
// message has its own.
func TestGatherAhead(t *testing.T) {
	for _, typ := range []QPType{QPRC, QPUC} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			b, mem, mr := newAheadBench(t, typ)
			wrs := []SendWR{
				aheadWR(0, mr, 1, 8),
				aheadWR(1, mr, 200, 1024),
				aheadWR(2, mr, 0, 0),
				{ID: 3, Op: WRWrite, Flags: SendInline, RemoteAddr: remoteVA, RKey: 1, Inline: []byte{7, 7}},
				aheadWR(4, mr, 90, 3),
				aheadWR(5, mr, 0, 1025), // two packets
				aheadWR(6, mr, 33, 4),
				aheadWR(7, mr, 5, aheadMessage+1),
				aheadWR(8, mr, 34, 4),
			}
			wrs[4].SGL = append(wrs[4].SGL, SGE{Addr: localVA + 50, Length: 2, LKey: mr.LKey()})
			b.qp.sq.maxInline = 16
			for i := range b.qp.sq.wqes {
				b.qp.sq.wqes[i].inline = make([]byte, 0, 16)
			}
			n, err := b.qp.PostSend(wrs)
			if err != nil || n != len(wrs) {
				t.Fatalf("PostSend: %d, %v", n, err)
			}
			var got [][]byte
			for _, pkt := range b.take() {
				got = append(got, pkt.Payload())
			}
			region := b.mem.b[localVA-benchBase:]
			want := [][]byte{region[1:9], region[200:1224], nil, {7, 7}, {90, 91, 92, 50, 51}, region[:1024], region[1024:1025], region[33:37]}
			for off := range uint64(aheadMessage / 1024) {
				want = append(want, region[5+1024*off:5+1024*(off+1)])
			}
			want = append(want, region[5+aheadMessage:6+aheadMessage], region[34:38])
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("the packets have %v, want %v", got, want)
			}
			// The first seven in one call, with a piece for each packet and each SGE. Then those
			// that are alone.
			if want := []int{7, 17, 1}; !slices.Equal(mem.calls, want) {
				t.Errorf("ReadV was called with %v pieces, want %v", mem.calls, want)
			}
		})
	}
}

// TestGatherAheadFails: a message whose payload cannot be read fails in its turn. Those before it
// are sent, and nothing keeps the region in use.
func TestGatherAheadFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(mem *callCounter, wr *SendWR)
	}{
		{"key", func(_ *callCounter, wr *SendWR) { wr.SGL[0].LKey++ }},
		{"second key", func(_ *callCounter, wr *SendWR) {
			wr.SGL = append(wr.SGL, SGE{Addr: localVA, Length: 8, LKey: wr.SGL[0].LKey + 1})
		}},
		{"memory", func(mem *callCounter, wr *SendWR) { mem.hole = wr.SGL[0].Addr }},
	} {
		for bad := range 3 {
			t.Run(fmt.Sprintf("%s of message %d", tt.name, bad), func(t *testing.T) {
				b, mem, mr := newAheadBench(t, QPUC)
				var wrs []SendWR
				for id := range uint64(3) {
					wrs = append(wrs, aheadWR(id, mr, 16*id, 8))
				}
				tt.spoil(mem, &wrs[bad])
				n, err := b.qp.PostSend(wrs)
				if err != nil || n != len(wrs) {
					t.Fatalf("PostSend: %d, %v", n, err)
				}
				if got := len(b.take()); got != bad {
					t.Errorf("%d packets, want %d", got, bad)
				}
				want := make([]WC, 3)
				for id := range want {
					want[id] = WC{ID: uint64(id), Status: WCSuccess}
					switch {
					case id == bad:
						want[id].Status = WCLocProtErr
					case id > bad:
						want[id].Status = WCFlushErr
					}
				}
				b.wantWC(want...)
				b.must(mr.Dereg())
			})
		}
	}
}

// TestGatherAheadStops: the payload of a request that waits for an earlier READ is not read before
// that.
func TestGatherAheadStops(t *testing.T) {
	b, mem, mr := newAheadBench(t, QPRC)
	fenced := aheadWR(2, mr, 0, 8)
	fenced.Flags |= SendFence
	read := aheadWR(0, mr, 64, 8)
	read.Op = WRRead
	wrs := []SendWR{read, aheadWR(1, mr, 32, 8), fenced, aheadWR(3, mr, 48, 8)}
	if n, err := b.qp.PostSend(wrs); err != nil || n != len(wrs) {
		t.Fatalf("PostSend: %d, %v", n, err)
	}
	if got := len(b.take()); got != 2 {
		t.Errorf("%d packets, want the READ's and one more", got)
	}
	if want := []int{1}; !slices.Equal(mem.calls, want) {
		t.Errorf("ReadV was called with %v pieces, want %v", mem.calls, want)
	}
}

// TestGatherReads: what several READs ask for is read with one call, and each answer has its own. A
// long READ, and one whose key is wrong, end that.
func TestGatherReads(t *testing.T) {
	b, mem, _ := newAheadBench(t, QPRC)
	mr, err := b.pd.RegMR(mem, localVA, localLen, localVA, AccessRemoteRead)
	b.must(err)
	psn := wire.PSN(benchPSN)
	read := func(off uint64, n uint32, key wire.RKey) pkt {
		p := pkt{h: wire.Headers{Opcode: wire.RCReadRequest, PSN: psn, VA: localVA + off, RKey: key, DMALen: n}}
		psn = psn.Add(readPackets(n, b.qp.mtu()))
		return p
	}
	key := mr.RKey()
	b.send(read(1, 8, key), read(300, 1024, key), read(0, 0, key), read(7, 3, key), read(0, 1025, key), read(9, 1, key),
		read(5, aheadMessage+1, key), read(2, 2, key))
	region := b.mem.b[localVA-benchBase:]
	want := [][]byte{region[1:9], region[300:1324], nil, region[7:10], region[:1024], region[1024:1025], region[9:10]}
	for off := range uint64(aheadMessage / 1024) {
		want = append(want, region[5+1024*off:5+1024*(off+1)])
	}
	want = append(want, region[5+aheadMessage:6+aheadMessage], region[2:4])
	var got [][]byte
	for _, pkt := range b.take() {
		got = append(got, pkt.Payload())
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("the answers have %v, want %v", got, want)
	}
	if want := []int{6, 17, 1}; !slices.Equal(mem.calls, want) {
		t.Errorf("ReadV was called with %v pieces, want %v", mem.calls, want)
	}
	mem.calls = nil
	mem.hole = localVA + 64
	b.send(read(16, 8, key), read(64, 8, key), read(32, 8, key))
	answers := b.take()
	if len(answers) != 2 || !bytes.Equal(answers[0].Payload(), region[16:24]) || !answers[1].Syndrome().IsNAK() {
		t.Errorf("%d answers, want one and a NAK", len(answers))
	}
	b.must(mr.Dereg())
}

package rxe

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// newTogether is a queue pair in RTS with costly memory. Its receive work requests 0 to 2 have 16
// bytes each, and number 3 has two packets.
func newTogether(t *testing.T, cqe int) (*bench, *callCounter) {
	t.Helper()
	b := newBenchCQ(t, QPRC, cqe, func(a *QPAttr) { a.PathMTU = 256 })
	b.dev.cfg.CostlyMemory = true
	a := QPAttr{State: QPRTS, SQPSN: 1, MaxRdAtomic: 16, RetryCnt: 7}
	b.must(b.qp.Modify(&a, RequiredMask(QPRC, QPRTR, QPRTS)))
	mem := &callCounter{Memory: b.mem}
	b.must(b.local.Dereg())
	var err error
	b.local, err = b.pd.RegMR(mem, localVA, localLen, localVA, AccessLocalWrite)
	b.must(err)
	for id, size := range []uint32{16, 16, 16, 512} {
		b.post(uint64(id), 16*uint64(id), size)
	}
	b.take()
	return b, mem
}

// eight is the payload of message i.
func eight(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 8) }

// sends returns n SENDs of eight bytes.
func sends(n int) (pkts []pkt) {
	for i := range n {
		pkts = append(pkts, req(wire.RCSendOnly, benchPSN+wire.PSN(i), eight(i)))
	}
	return pkts
}

// failedAt is what n work requests complete with if number bad fails: those behind it are flushed.
func failedAt(bad, n int) []WC {
	wcs := make([]WC, n)
	for id := range wcs {
		wcs[id].ID = uint64(id)
		switch {
		case id == bad:
			wcs[id].Status = WCLocProtErr
		case id > bad:
			wcs[id].Status = WCFlushErr
		}
	}
	return wcs
}

func (m *callCounter) wantWrites(t *testing.T, want ...int) {
	t.Helper()
	if !slices.Equal(m.writes, want) {
		t.Errorf("WriteV was called with %v pieces, want %v", m.writes, want)
	}
}

// TestSendsTogether: payloads of the SENDs of one batch are written with one call, before any of
// them completes.
func TestSendsTogether(t *testing.T) {
	b, mem := newTogether(t, 64)
	pkts := sends(4)
	pkts[2].data, pkts[3].h.Opcode, pkts[3].h.Imm = nil, wire.RCSendOnlyImm, 77
	b.send(pkts...)
	got := b.wantWC(WC{ID: 0}, WC{ID: 1}, WC{ID: 2}, WC{ID: 3})
	if len(got) == 4 && (got[1].ByteLen != 8 || got[2].ByteLen != 0 || got[3].Imm != 77 || got[3].Flags&WCWithImm == 0) {
		t.Errorf("completions %+v", got)
	}
	mem.wantWrites(t, 3)
	for _, i := range []int{0, 1, 3} {
		if got := b.bytes(localVA+16*uint64(i), 8); !bytes.Equal(got, eight(i)) {
			t.Errorf("buffer %d has %v", i, got)
		}
	}
	b.want(ack(benchPSN+3, 4))
	if n := b.dev.counters.RDMARecvs.Load(); n != 4 {
		t.Errorf("%d receives were counted, want 4", n)
	}
}

// TestSendsTogetherFail: if the payload of one SEND cannot be written, those before it complete,
// and the peer learns which one it was. SENDs behind it are flushed, in order.
func TestSendsTogetherFail(t *testing.T) {
	for bad := range 3 {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("message %d, another begun %v", bad, begun), func(t *testing.T) {
				b, mem := newTogether(t, 64)
				mem.hole = localVA + 16*uint64(bad)
				pkts := sends(3)
				if begun {
					pkts = append(pkts, req(wire.RCSendFirst, benchPSN+3, pattern(256)))
				}
				b.send(pkts...)
				b.wantWC(failedAt(bad, 4)...)
				b.want(nak(wire.NAKRemoteOp, benchPSN+wire.PSN(bad)))
				b.wantState(QPErr)
				b.must(b.local.Dereg())
			})
		}
	}
	t.Run("a message that was begun", func(t *testing.T) {
		b, mem := newTogether(t, 64)
		mem.hole = localVA + 48
		b.send(append(sends(3), req(wire.RCSendFirst, benchPSN+3, pattern(256)))...)
		b.wantWC(failedAt(3, 4)...)
		b.want(nak(wire.NAKRemoteOp, benchPSN+3))
	})
}

// TestSendsTogetherOverflow: a completion that does not fit its queue ends the queue pair.
func TestSendsTogetherOverflow(t *testing.T) {
	b, _ := newTogether(t, 2)
	b.send(sends(3)...)
	b.wantState(QPErr)
	b.wantEvents(EventCQErr, EventQPFatal)
	b.must(b.local.Dereg())
}

// TestSendsTogetherBeforeFault: a request that is refused does not keep the SENDs before it from
// completing.
func TestSendsTogetherBeforeFault(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.send(append(sends(2), req(wire.RCSendLast, benchPSN+2, nil))...)
	b.wantWC(WC{ID: 0}, WC{ID: 1}, WC{ID: 2, Status: WCFlushErr}, WC{ID: 3, Status: WCFlushErr})
	b.want(nak(wire.NAKInvalidRequest, benchPSN+2))
	mem.wantWrites(t, 2)
}

// reads posts a READ for each size, into buffers of 16 bytes, or 512 for the last one.
func (b *bench) reads(sizes ...uint32) {
	b.t.Helper()
	for i, n := range sizes {
		wr := SendWR{ID: uint64(i), Op: WRRead, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1,
			SGL: []SGE{{Addr: localVA + 16*uint64(i), Length: n, LKey: b.local.LKey()}}}
		_, err := b.qp.PostSend([]SendWR{wr})
		b.must(err)
	}
	b.take()
}

// answers returns answers of eight bytes to n READs.
func answers(n int) (pkts []pkt) {
	for i := range n {
		pkts = append(pkts, answer(wire.RCReadResponseOnly, wire.PSN(i+1), eight(i)))
	}
	return pkts
}

func answer(op wire.Opcode, psn wire.PSN, data []byte) pkt {
	return pkt{h: wire.Headers{Opcode: op, PSN: psn, Syndrome: wire.SyndromeACK}, data: data}
}

// TestReadsTogether: the data of the READs whose answers come in one batch is written with one
// call. Data of a READ that is not complete goes with it.
func TestReadsTogether(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.reads(8, 8, 0, 300)
	pkts := answers(2)
	data := pattern(300)
	pkts = append(pkts, answer(wire.RCReadResponseOnly, 3, nil), answer(wire.RCReadResponseFirst, 4, data[:256]))
	b.send(pkts...)
	b.wantWC(WC{ID: 0}, WC{ID: 1}, WC{ID: 2})
	mem.wantWrites(t, 3)
	b.send(answer(wire.RCReadResponseLast, 5, data[256:]))
	b.wantWC(WC{ID: 3})
	for i, want := range [][]byte{eight(0), eight(1), nil, data} {
		if got := b.bytes(localVA+16*uint64(i), len(want)); !bytes.Equal(got, want) {
			t.Errorf("buffer %d has %v", i, got)
		}
	}
}

// TestReadsTogetherFail: if the data of one READ cannot be written, those before it complete, and
// those behind it are flushed.
func TestReadsTogetherFail(t *testing.T) {
	for bad := range 3 {
		t.Run(fmt.Sprintf("READ %d", bad), func(t *testing.T) {
			b, mem := newTogether(t, 64)
			b.reads(8, 8, 8)
			mem.hole = localVA + 16*uint64(bad)
			b.send(answers(3)...)
			flushed := []WC{{ID: 0, Status: WCFlushErr}, {ID: 1, Status: WCFlushErr}, {ID: 2, Status: WCFlushErr}, {ID: 3, Status: WCFlushErr}}
			b.wantWC(append(failedAt(bad, 3), flushed...)...)
			b.wantState(QPErr)
			b.must(b.local.Dereg())
		})
	}
	t.Run("the key of the last one", func(t *testing.T) {
		b, mem := newTogether(t, 64)
		b.reads(8, 8)
		wr := SendWR{ID: 2, Op: WRRead, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1,
			SGL: []SGE{{Addr: localVA, Length: 8, LKey: b.local.LKey() + 1}}}
		_, err := b.qp.PostSend([]SendWR{wr})
		b.must(err)
		b.send(answers(3)...)
		if got := b.polled(); len(got) != 7 || got[0].Status|got[1].Status != WCSuccess || got[2].Status != WCLocProtErr {
			t.Errorf("completions %+v", got)
		}
		mem.wantWrites(t, 2)
	})
}

// TestReadsTogetherBeforeFault: READs whose answers came complete, if the queue pair then fails for
// another reason.
func TestReadsTogetherBeforeFault(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.reads(8, 8, 8)
	b.send(append(answers(2), req(wire.RCSendLast, benchPSN, nil))...)
	got := b.polled()
	if len(got) != 7 || got[0].Status|got[1].Status != WCSuccess || got[2].Status != WCFlushErr {
		t.Errorf("completions %+v", got)
	}
	mem.wantWrites(t, 2)
	if !bytes.Equal(b.bytes(localVA, 8), eight(0)) || !bytes.Equal(b.bytes(localVA+16, 8), eight(1)) {
		t.Error("the data is not in memory")
	}
}

// TestReadsTogetherInOrder: other requests complete in their turn, between READs.
func TestReadsTogetherInOrder(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.reads(8)
	add := SendWR{ID: 1, Op: WRFetchAdd, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1, CompareAdd: 1,
		SGL: []SGE{{Addr: localVA + 64, Length: 8, LKey: b.local.LKey()}}}
	write := SendWR{ID: 2, Op: WRWrite, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1}
	read := SendWR{ID: 3, Op: WRRead, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1,
		SGL: []SGE{{Addr: localVA + 16, Length: 8, LKey: b.local.LKey()}}}
	_, err := b.qp.PostSend([]SendWR{add, write, read})
	b.must(err)
	b.take()
	atomic := pkt{h: wire.Headers{Opcode: wire.RCAtomicAck, PSN: 2, Syndrome: wire.SyndromeACK, AtomicOrig: 5}}
	b.send(answers(1)[0], atomic, answer(wire.RCReadResponseOnly, 4, eight(1)))
	b.wantWC(WC{ID: 0}, WC{ID: 1}, WC{ID: 2}, WC{ID: 3})
	mem.wantWrites(t, 1, 1, 1)
	if !bytes.Equal(b.bytes(localVA+16, 8), eight(1)) || b.bytes(localVA+64, 8)[0] != 5 {
		t.Error("the data is not in memory")
	}
}

// TestSendsTogetherEmpty: a SEND without payload, alone in its batch, waits for nothing.
func TestSendsTogetherEmpty(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.send(sends(1)...)
	b.wantWC(WC{ID: 0})
	b.send(req(wire.RCSendOnly, benchPSN+1, nil))
	b.wantWC(WC{ID: 1})
	mem.wantWrites(t, 1)
}

// TestReadsTogetherBeforeAtomic: if the data of a READ cannot be written, the READ fails, and not
// the atomic whose answer came with it.
func TestReadsTogetherBeforeAtomic(t *testing.T) {
	b, mem := newTogether(t, 64)
	b.reads(8)
	_, err := b.qp.PostSend([]SendWR{{ID: 1, Op: WRFetchAdd, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1, CompareAdd: 1,
		SGL: []SGE{{Addr: localVA + 64, Length: 8, LKey: b.local.LKey()}}}})
	b.must(err)
	mem.hole = localVA
	b.send(answers(1)[0], pkt{h: wire.Headers{Opcode: wire.RCAtomicAck, PSN: 2, Syndrome: wire.SyndromeACK, AtomicOrig: 5}})
	if got := b.polled(); len(got) != 6 || got[0].Status != WCLocProtErr || got[1].Status != WCFlushErr {
		t.Errorf("completions %+v", got)
	}
}

// TestReadsTogetherTwoSpaces: data for another address space takes a call of its own, and errors
// are those of the READ that they belong to.
func TestReadsTogetherTwoSpaces(t *testing.T) {
	for _, bad := range []int{0, 1, 2, 3} { // 3: none
		t.Run(fmt.Sprintf("READ %d", bad), func(t *testing.T) {
			b, mem := newTogether(t, 64)
			other := &callCounter{Memory: b.mem}
			mr, err := b.pd.RegMR(other, localVA, localLen, localVA, AccessLocalWrite)
			b.must(err)
			first := b.local
			for i, key := range []*MR{first, mr, first} {
				_, err := b.qp.PostSend([]SendWR{{ID: uint64(i), Op: WRRead, Flags: SendSignaled, RemoteAddr: remoteVA, RKey: 1,
					SGL: []SGE{{Addr: localVA + 16*uint64(i), Length: 8, LKey: key.LKey()}}}})
				b.must(err)
			}
			b.take()
			mem.hole = localVA + 16*uint64(bad)
			other.hole = mem.hole
			b.send(answers(3)...)
			want := failedAt(bad, 3)
			if bad < 3 {
				for id := range uint64(4) {
					want = append(want, WC{ID: id, Status: WCFlushErr})
				}
			}
			b.wantWC(want...)
			b.must(mr.Dereg())
			b.must(first.Dereg())
		})
	}
}

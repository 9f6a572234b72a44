package rxe

import (
	"bytes"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// collect adds packets of 4 KiB to the outbox, one for each destination.
func collect(st *step, r *wire.Route, dests ...wire.QPN) {
	for i, dest := range dests {
		h := wire.Headers{Opcode: wire.RCWriteOnly, DestQP: dest, PSN: wire.PSN(i), DMALen: 4096}
		b := st.packet(r, h.Len(), h.Len()+4096)
		h.Put(b)
		fill(b[h.Len():])
	}
}

// TestDeliverWhole: a large burst for one QP goes into its inbox with the memory of the outbox,
// which gets other memory. A burst for two QPs, two bursts and a small one do not.
func TestDeliverWhole(t *testing.T) {
	for _, tt := range []struct {
		name    string
		collect func(st *step, d *pairEnd)
		whole   bool
	}{
		{"one QP", func(st *step, d *pairEnd) {
			n := d.qps[1].qpn
			collect(st, d.qps[0].route, n, n, n)
		}, true},
		{"two QPs", func(st *step, d *pairEnd) {
			collect(st, d.qps[0].route, d.qps[1].qpn, d.qps[0].qpn, d.qps[1].qpn)
		}, false},
		{"two bursts", func(st *step, d *pairEnd) {
			collect(st, d.qps[0].route, d.qps[1].qpn, d.qps[1].qpn)
			collect(st, d.qps[1].route, d.qps[1].qpn)
		}, false},
		{"small", func(st *step, d *pairEnd) {
			h := wire.Headers{Opcode: wire.RCAck, DestQP: d.qps[1].qpn}
			h.Put(st.packet(d.qps[0].route, h.Len(), h.Len()))
		}, false},
		{"damaged", func(st *step, d *pairEnd) {
			collect(st, d.qps[0].route, d.qps[1].qpn, d.qps[1].qpn)
			st.bursts[0].Damage = 1
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newLocalPair(t, 1, 1<<20, 4096, nil)
			q := d.qps[1]
			q.lock() // what comes stays in the inbox
			defer q.unlock(nil)
			wide := d.dev.newStep()
			wide.reserve(1, 1, wideBytes)
			wide.close() // the next user's outbox is narrow all the same
			st := d.dev.newStep()
			tt.collect(st, d)
			memory := unsafe.SliceData(st.buf)
			var want [][]byte
			for i := range st.bursts[0].N() {
				p := st.bursts[0].Packet(i)
				want = append(want, bytes.Clone(p[:len(p)-wire.ICRCLen]))
			}
			if got := d.dev.deliverWhole(st); got != tt.whole {
				t.Fatalf("delivered whole: %t, want %t", got, tt.whole)
			}
			if given := unsafe.SliceData(st.buf) != memory; given != tt.whole {
				t.Errorf("the outbox has given its memory away: %t, want %t", given, tt.whole)
			}
			if cap(st.buf) != outboxBytes {
				t.Errorf("the outbox has room for %d bytes, want %d", cap(st.buf), outboxBytes)
			}
			in, _ := q.gate.takeInbox()
			defer in.free()
			if !tt.whole {
				if in.first != nil {
					t.Error("something is in the inbox")
				}
				return
			}
			if unsafe.SliceData(in.first.store) != memory || len(in.first.store) != outboxBytes {
				t.Error("the inbox has a copy")
			}
			for i, at := 0, 0; i < len(want); i++ {
				end := int(in.first.ends[i])
				if !bytes.Equal(in.first.buf[at:end], want[i]) {
					t.Errorf("packet %d differs", i)
				}
				at = end + in.first.trailer
			}
		})
	}
}

// TestLocalBursts: messages of one packet arrive as they were posted, in rounds that use the same
// memory again, and nothing allocates.
func TestLocalBursts(t *testing.T) {
	const size, n = 4096, 40
	d := newLocalPair(t, 1, 2*n*size, 4096, nil)
	wrs := make([]SendWR, n)
	for i := range wrs {
		at := uint64(i * size)
		wrs[i] = SendWR{Op: WRWrite, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: n*size + at,
			SGL: []SGE{{Addr: at, Length: size, LKey: d.mr.LKey()}}}
	}
	wcs := make([]WC, n)
	round := byte(0)
	once := func() {
		round++
		for i := range n * size {
			d.mem.b[i] = byte(i/size) ^ byte(i>>4) ^ round
		}
		if _, err := d.qps[0].PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		if got, _ := d.cq.Poll(wcs); got != n {
			t.Fatalf("%d completions, want %d", got, n)
		}
		if !bytes.Equal(d.mem.b[:n*size], d.mem.b[n*size:]) {
			t.Fatal("the data differs")
		}
	}
	for range 2 * 64 {
		once()
	}
	if allocs := testing.AllocsPerRun(50, once); allocs >= 1 && !race.Enabled {
		t.Errorf("%v allocations", allocs)
	}
}

// TestDatagramBursts: datagrams that fill more than one burst leave and arrive like others, to
// another host and to a QP of this device.
func TestDatagramBursts(t *testing.T) {
	const size, n = 4096, 40
	for name, addr := range map[string]netip.Addr{"another host": benchThere, "this device": benchHere} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, QPUD, nil)
			b.must(b.qp.Modify(&QPAttr{State: QPRTS}, QPAttrState|QPAttrSQPSN))
			ah, err := b.pd.CreateAH(AHAttr{DGID: wire.GIDFromAddr(addr), PortNum: 1})
			b.must(err)
			q, err := b.pd.CreateQP(QPInitAttr{Type: QPUD, SendCQ: b.cq, RecvCQ: b.cq,
				Cap: QPCap{MaxSendWR: n, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
			b.must(err)
			a := QPAttr{PortNum: 1, QKey: benchQKey}
			for from := range QPRTS {
				a.State = from + 1
				b.must(q.Modify(&a, RequiredMask(QPUD, from, a.State)))
			}
			wrs := make([]SendWR, n)
			for i := range wrs {
				wrs[i] = SendWR{Op: WRSend, AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: benchQKey,
					SGL: []SGE{{Addr: remoteVA, Length: size, LKey: b.remote.LKey()}}}
			}
			if addr == benchHere {
				for i := range uint64(16) {
					b.post(i, 0, 40+size)
				}
			}
			sent, err := q.PostSend(wrs)
			if err != nil || sent != n {
				t.Fatalf("PostSend: %d, %v", sent, err)
			}
			if addr == benchThere {
				if got := len(b.take()); got != n {
					t.Errorf("%d datagrams left, want %d", got, n)
				}
				return
			}
			if got := len(b.polled()); got != 16 {
				t.Errorf("%d datagrams arrived, want as many as receives were posted, 16", got)
			}
			if got := b.counter("rcvd_pkts"); got != n {
				t.Errorf("%d datagrams reached the device, want %d", got, n)
			}
		})
	}
}

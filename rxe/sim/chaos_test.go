package sim

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// What chaos makes visible, and what it must not: one device, driven packet by packet, with many
// seeds. chaosSeeds is more than enough for each freedom to show.
const chaosSeeds = 200

// newChaosStage is newStage with a QP that has chaos.
func newChaosStage(t *testing.T, seed uint64) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.ok(s.q.Destroy())
	s.chaos = rxe.NewChaos(seed)
	s.q = s.connect(farQPN, nil)
	s.evts = nil
	return s
}

// bytesPlaced says which bytes of want lie at off, as a program sees them.
func (s *stage) bytesPlaced(off int, want []byte) (first, last bool, n int) {
	got := s.mem.Data[off:][:len(want)]
	for i := range want {
		if got[i] == want[i] {
			n++
		}
	}
	return got[0] == want[0], got[len(want)-1] == want[len(want)-1], n
}

// inverted is n bytes none of which are where they will be written.
func (s *stage) inverted(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = ^s.mem.Data[off+i]
	}
	return b
}

// write sends a WRITE of one packet.
func (s *stage) write(psn wire.PSN, off int, data []byte) {
	s.mumble(wire.Headers{Opcode: wire.RCWriteOnly, PSN: psn, AckReq: true, VA: va(off), RKey: s.rkey(),
		DMALen: uint32(len(data))}, data)
}

// TestChaosPlacement sends two WRITEs and looks at memory as it changes. With some seeds the
// acknowledgement comes first; the end of a WRITE is there before its beginning; the second WRITE
// is there before the first. With all seeds everything is there in the end, without more traffic.
func TestChaosPlacement(t *testing.T) {
	var early, pieces, backward, overtaken int
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		a, b := s.inverted(0x100, 200), s.inverted(0x800, 200)
		s.write(stageRQ, 0x100, a)
		s.write(stageRQ.Add(1), 0x800, b)
		seen := [4]bool{}
		acked := false
		for range 40_000 {
			s.wait(time.Microsecond)
			acked = acked || len(s.hear()) > 0
			first, last, n := s.bytesPlaced(0x100, a)
			_, _, m := s.bytesPlaced(0x800, b)
			seen[0] = seen[0] || acked && n < len(a)
			seen[1] = seen[1] || 0 < n && n < len(a)
			seen[2] = seen[2] || last && !first
			seen[3] = seen[3] || m == len(b) && n == 0
			if n == len(a) && m == len(b) && acked {
				break
			}
		}
		for i, c := range [...]*int{&early, &pieces, &backward, &overtaken} {
			if seen[i] {
				*c++
			}
		}
		if !bytes.Equal(s.mem.Data[0x100:][:200], a) || !bytes.Equal(s.mem.Data[0x800:][:200], b) {
			t.Fatalf("seed %d: not all data is in memory", seed)
		}
	}
	t.Logf("%d seeds: acknowledged before placed %d, in pieces %d, end first %d, second WRITE first %d",
		chaosSeeds, early, pieces, backward, overtaken)
	for what, n := range map[string]int{"an early ACK": early, "pieces": pieces, "an end before its beginning": backward,
		"a WRITE before an earlier one": overtaken} {
		if n == 0 {
			t.Errorf("no seed showed %s", what)
		}
	}
}

// TestChaosOrder writes the same bytes three times: the last one stays (C9-28).
func TestChaosOrder(t *testing.T) {
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		var last []byte
		for i := range 3 {
			last = bytes.Repeat([]byte{byte(1 + i)}, 100)
			s.write(stageRQ.Add(uint32(i)), 0x100, last)
			s.wait(time.Duration(seed) * 10 * time.Nanosecond)
		}
		s.wait(40 * time.Millisecond)
		if got := s.mem.Data[0x100:][:100]; !bytes.Equal(got, last) {
			t.Fatalf("seed %d: memory has %v", seed, got)
		}
	}
}

// TestChaosSource changes the source of a SEND after it was posted, and before it completes. With
// some seeds the peer gets the changed bytes. With all it gets old or new ones.
func TestChaosSource(t *testing.T) {
	const n = 1000
	changed, mixed := 0, 0
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		before := bytes.Clone(s.mem.Data[0x100:][:n])
		_, err := s.q.PostSend([]rxe.SendWR{{ID: 1, Op: rxe.WRSend, SGL: s.sge(0x100, n)}})
		s.ok(err)
		s.wait(50 * time.Microsecond)
		after := s.inverted(0x100, n)
		copy(s.mem.Data[0x100:], after)
		s.wait(40 * time.Millisecond)
		var got []byte
		for _, h := range s.hear() {
			if len(got) == int(h.PSN.Sub(uint32(stageSQ)))*stageMTU { // not one that was sent again
				got = append(got, h.data...)
			}
		}
		if len(got) != n {
			t.Fatalf("seed %d: the peer got %d bytes", seed, len(got))
		}
		fresh := 0
		for i := range got {
			switch got[i] {
			case after[i]:
				fresh++
			case before[i]:
			default:
				t.Fatalf("seed %d: byte %d is %#x", seed, i, got[i])
			}
		}
		if fresh == n {
			changed++
		} else if fresh > 0 {
			mixed++
		}
	}
	t.Logf("%d seeds: the peer got the changed bytes %d times, some of them %d times", chaosSeeds, changed, mixed)
	if changed == 0 || mixed == 0 {
		t.Error("the source was always read early, or always as a whole")
	}
}

// TestChaosRead watches the destination of a READ: it may change in any order, and is complete
// when the work request completes.
func TestChaosRead(t *testing.T) {
	backward, late := 0, 0
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		want := s.inverted(0x100, 200)
		_, err := s.q.PostSend([]rxe.SendWR{{ID: 1, Op: rxe.WRRead, SGL: s.sge(0x100, 200), RemoteAddr: 1, RKey: 2}})
		s.ok(err)
		for len(s.heard) == 0 {
			s.wait(100 * time.Microsecond)
		}
		s.mumble(wire.Headers{Opcode: wire.RCReadResponseOnly, PSN: stageSQ, Syndrome: wire.SyndromeACK, MSN: 1}, want)
		wcs := make([]rxe.WC, 1)
		showed := false
		for n := 0; n == 0; n, err = s.cq.Poll(wcs) {
			first, last, _ := s.bytesPlaced(0x100, want)
			showed = showed || last && !first
			s.wait(time.Microsecond)
		}
		s.ok(err)
		if showed {
			backward++
		}
		if s.net.Now() > rxe.Time(time.Millisecond) {
			late++
		}
		if wcs[0].Status != rxe.WCSuccess || !bytes.Equal(s.mem.Data[0x100:][:200], want) {
			t.Fatalf("seed %d: %v, and the data is not there", seed, wcs[0].Status)
		}
	}
	if backward == 0 || late == 0 {
		t.Errorf("of %d seeds %d placed the end first, and %d completed late", chaosSeeds, backward, late)
	}
}

// TestChaosCompletions receives a message on each of two QPs with one CQ, two after the other.
// The QPs' completions come in either order, those of one QP in theirs.
func TestChaosCompletions(t *testing.T) {
	orders := map[string]int{}
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		first := s.q
		second := s.connect(farQPN+1, nil)
		for _, q := range [...]*rxe.QP{first, second} {
			for i := range 2 {
				_, err := q.PostRecv([]rxe.RecvWR{{ID: uint64(1 + i), SGL: s.sge(0x100, 16)}})
				s.ok(err)
				s.mumble(wire.Headers{Opcode: wire.RCSendOnly, DestQP: q.Num(), PSN: stageRQ.Add(uint32(i))}, make([]byte, 4))
				s.wait(5 * time.Microsecond)
			}
		}
		s.wait(40 * time.Millisecond)
		wcs := make([]rxe.WC, 8)
		n, err := s.cq.Poll(wcs)
		s.ok(err)
		next := map[wire.QPN]uint64{}
		order := ""
		for _, wc := range wcs[:n] {
			if next[wc.QPN]++; wc.ID != next[wc.QPN] {
				t.Fatalf("seed %d: receive %d of a QP completed as its number %d", seed, wc.ID, next[wc.QPN])
			}
			order += map[bool]string{true: "a", false: "b"}[wc.QPN == first.Num()]
		}
		if n != 4 {
			t.Fatalf("seed %d: %d completions", seed, n)
		}
		orders[order]++
	}
	t.Logf("%d seeds: %v", chaosSeeds, orders)
	if len(orders) < 4 || orders["bbaa"] == 0 {
		t.Errorf("few orders: %v", orders)
	}
}

// TestChaosRepeats runs one seed twice: the same bytes change at the same times.
func TestChaosRepeats(t *testing.T) {
	run := func(seed uint64) string {
		s := newChaosStage(t, seed)
		a := s.inverted(0x100, 200)
		s.write(stageRQ, 0x100, a)
		log, have := "", 0
		for range 20_000 {
			s.wait(time.Microsecond)
			if _, _, n := s.bytesPlaced(0x100, a); n != have {
				have = n
				log += fmt.Sprintln(s.net.Now(), n)
			}
		}
		return log
	}
	logs := map[string]bool{}
	for seed := range uint64(20) {
		once := run(seed)
		if again := run(seed); again != once {
			t.Fatalf("seed %d:\n%sthen\n%s", seed, once, again)
		}
		logs[once] = true
	}
	if len(logs) < 5 {
		t.Errorf("20 seeds have %d sequences", len(logs))
	}
}

// TestChaosPlacementFails sends WRITEs to a region whose memory is not mapped. Whether their data
// is late or not, the QP fails, as it does without chaos.
func TestChaosPlacementFails(t *testing.T) {
	for seed := range uint64(chaosSeeds) {
		s := newChaosStage(t, seed)
		mr, err := s.pd.RegMR(s.mem, memBase, 2*stageMem, memBase, everyAccess)
		s.ok(err)
		s.mumble(wire.Headers{Opcode: wire.RCWriteOnly, PSN: stageRQ, AckReq: true, VA: va(stageMem), RKey: mr.RKey(),
			DMALen: 4}, make([]byte, 4))
		s.wait(40 * time.Millisecond)
		if got := s.q.State(); got != rxe.QPErr {
			t.Fatalf("seed %d: data could not be written, and the QP is in %v", seed, got)
		}
		s.ok(mr.Dereg())
	}
}

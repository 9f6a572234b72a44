package sanitize

import (
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// party is a process with a region that has the process's number as its key, and a completion
// queue.
type party struct {
	*File
	key     uint32
	waiting int // completions that it has not polled
}

// parties are processes 1, 2 and 3. Each two have a connection.
type parties struct {
	*Session
	all [4]*party
	qps map[[2]int]*rxe.QP
}

func newParties(t testing.TB, checks string) *parties {
	t.Helper()
	selected, err := ParseSelection(checks)
	if err != nil {
		t.Fatal(err)
	}
	w := &parties{Session: New(selected, time.Now), qps: make(map[[2]int]*rxe.QP)}
	for pid := 1; pid <= 3; pid++ {
		p := &party{File: w.Open(pid, "program", "rxe0"), key: uint32(pid)}
		p.Made("mr", Made{Kind: kindMR, Number: p.key, Region: &Region{Length: 1 << 20}}, at(1))
		p.Made("cq", Made{Kind: kindCQ, CQ: &CQ{Entries: func() int { return 64 }, Waiting: func() int { return p.waiting }}}, at(2))
		w.all[pid] = p
	}
	for a := 1; a <= 3; a++ {
		for b := 1; b <= 3; b++ {
			if a != b {
				w.connect(a, b, 0)
			}
		}
	}
	return w
}

// connect makes a's end of a connection with b. Connections of the same two have numbers.
func (w *parties) connect(a, b, number int) {
	q := new(rxe.QP)
	w.qps[[2]int{a + 10*number, b}] = q
	num := func(a, b int) uint32 { return uint32(100*number + 10*a + b) }
	w.all[a].Made(q, Made{Kind: kindQP, Number: num(a, b), QP: &QP{QP: q, SendCQ: "cq", RecvCQ: "cq", Depth: 64}}, at(3))
	w.all[a].Modified(q, &rxe.QPAttr{DestQPN: wire.QPN(num(b, a))}, rxe.QPAttrDestQPN|rxe.QPAttrRQPSN, at(4))
}

// post posts a request of a to b, on 8 bytes at va of an owner's memory. local is where its data
// is.
func (w *parties) post(a, b int, op rxe.WROpcode, owner int, va, local uint64, flags rxe.SendFlags) {
	p, q := w.all[a%10], w.qps[[2]int{a, b}]
	wr := rxe.SendWR{Op: op, Flags: flags | rxe.SendSignaled, SGL: []rxe.SGE{{Addr: local, Length: 8, LKey: wire.LKey(p.key)}}}
	if !isMessage(op) {
		wr.RKey, wr.RemoteAddr = wire.RKey(owner), va
	}
	p.Posting(q, at(uint64(1000+len(p.objects))))
	p.Posted(q, wr)
}

// complete completes the oldest request of a to b. It is polled at once, or later (waiting).
func (w *parties) complete(a, b int) {
	w.all[a%10].Completed(w.qps[[2]int{a, b}], rxe.WC{Status: rxe.WCSuccess}, true)
}

// message has a message arrive that was posted.
func (w *parties) message(a, b int) {
	w.all[b].Completed(w.qps[[2]int{b, a % 10}], rxe.WC{Status: rxe.WCSuccess, Opcode: rxe.WCRecv}, true)
}

// atomic has b's device execute an atomic that a has posted.
func (w *parties) atomic(a, b int, va uint64) {
	w.all[b].Accessed(w.qps[[2]int{b, a % 10}], uint32(b), va, 8, rxe.AccessRemoteAtomic)
}

// land has the memory of an owner written by a WRITE of a that was posted to b.
func (w *parties) land(a, b int, va uint64) {
	w.all[b].Accessed(w.qps[[2]int{b, a % 10}], uint32(b), va, 8, rxe.AccessRemoteWrite)
}

// receives gives b a receive queue for the messages of a, and posts a receive of 8 bytes at va.
func (w *parties) receives(b, a int, va uint64) {
	ring := &queue{key: w.all[b].key}
	w.all[b].byQP[w.qps[[2]int{b, a}]].Receives = func() rxe.WaitingRing { return ring }
	ring.post(va, 8)
}

// takes has a message of a arrive that takes this receive.
func (w *parties) takes(a, b int) {
	q := w.qps[[2]int{b, a}]
	w.all[b].Receiving(q)
	w.all[b].Completed(q, rxe.WC{Status: rxe.WCSuccess, Opcode: rxe.WCRecv, ByteLen: 8}, true)
}

// end is the number of an end of RDMA CM.
func end(n uint32) CMEnd { return CMEnd{"10.0.0.1", n} }

func (w *parties) found() (names []string) {
	for _, f := range w.Report().Findings {
		names = append(names, f.Check)
	}
	return names
}

// TestRaces: what three processes do to the memory of process 3, and what is found.
func TestRaces(t *testing.T) {
	const fence = rxe.SendFence
	write := func(w *parties, a int, va uint64) { w.post(a, 3, rxe.WRWrite, 3, va, 64, 0) }
	read := func(w *parties, a int, va uint64) { w.post(a, 3, rxe.WRRead, 3, va, 128, 0) }
	add := func(w *parties, a int, va uint64) { w.post(a, 3, rxe.WRFetchAdd, 3, va, 256+va, 0) }
	send := func(w *parties, a, b int, flags rxe.SendFlags) { w.post(a, b, rxe.WRSend, 0, 0, 512, flags) }
	for _, c := range []struct {
		name string
		do   func(*parties)
		want []string
	}{
		{"two WRITEs", func(w *parties) { write(w, 1, 8); write(w, 2, 15) }, []string{raceWrite}},
		{"side by side", func(w *parties) { write(w, 1, 8); write(w, 2, 16) }, nil},
		{"both polled, but nobody told", func(w *parties) { write(w, 1, 8); w.complete(1, 3); write(w, 2, 8) }, []string{raceWrite}},
		{"told after it was polled", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			send(w, 1, 2, 0)
			w.message(1, 2)
			write(w, 2, 8)
		}, nil},
		{"told before it was polled", func(w *parties) {
			write(w, 1, 8)
			w.all[1].waiting = 1
			w.complete(1, 3)
			send(w, 1, 2, 0)
			w.message(1, 2)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"told, but not heard", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			send(w, 1, 2, 0)
			w.all[2].waiting = 1
			w.message(1, 2)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"a message told before the WRITE", func(w *parties) {
			send(w, 1, 2, 0)
			write(w, 1, 8)
			w.complete(1, 3)
			w.message(1, 2)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"through the owner, behind the WRITE", func(w *parties) {
			write(w, 1, 8)
			send(w, 1, 3, 0)
			w.message(1, 3)
			send(w, 3, 2, 0)
			w.message(3, 2)
			write(w, 2, 8)
		}, nil},
		{"through the owner, behind a READ", func(w *parties) {
			read(w, 1, 8)
			send(w, 1, 3, 0)
			w.message(1, 3)
			send(w, 3, 2, 0)
			w.message(3, 2)
			write(w, 2, 8)
		}, []string{raceRead}},
		{"through the owner, behind a READ and a fence", func(w *parties) {
			read(w, 1, 8)
			send(w, 1, 3, fence)
			w.message(1, 3)
			send(w, 3, 2, 0)
			w.message(3, 2)
			write(w, 2, 8)
		}, nil},
		{"a READ beside a WRITE", func(w *parties) { write(w, 1, 8); read(w, 2, 8) }, []string{raceRead}},
		{"two READs", func(w *parties) { read(w, 1, 8); read(w, 2, 8) }, nil},
		{"two atomics", func(w *parties) { add(w, 1, 8); add(w, 2, 8) }, nil},
		{"an atomic beside a WRITE", func(w *parties) { add(w, 1, 8); write(w, 2, 8) }, []string{raceAtomic}},
		{"one queue pair: WRITE, WRITE, READ", func(w *parties) { write(w, 1, 8); write(w, 1, 8); read(w, 1, 8) }, nil},
		{"one queue pair: READ, WRITE", func(w *parties) { read(w, 1, 8); write(w, 1, 8) }, []string{raceRead}},
		{"one queue pair: READ, fence, WRITE", func(w *parties) { read(w, 1, 8); w.post(1, 3, rxe.WRWrite, 3, 8, 64, fence) }, nil},
		{"one queue pair: READ, polled, WRITE", func(w *parties) { read(w, 1, 8); w.complete(1, 3); write(w, 1, 8) }, nil},
		{"one queue pair: READ, WRITE elsewhere with a fence, WRITE", func(w *parties) {
			read(w, 1, 8)
			w.post(1, 3, rxe.WRWrite, 3, 64, 64, fence)
			write(w, 1, 8)
		}, nil},
		{"two queue pairs of one process", func(w *parties) { write(w, 1, 8); write(w, 11, 8) }, []string{raceWrite}},
		{"two queue pairs of one process, polled between", func(w *parties) { write(w, 1, 8); w.complete(1, 3); write(w, 11, 8) }, nil},
		{"a lock", func(w *parties) {
			write(w, 1, 8)
			add(w, 1, 64)
			w.atomic(1, 3, 64)
			add(w, 2, 64)
			w.atomic(2, 3, 64)
			w.complete(2, 3)
			write(w, 2, 8)
		}, nil},
		{"a lock that nobody waits for", func(w *parties) {
			write(w, 1, 8)
			add(w, 1, 64)
			w.atomic(1, 3, 64)
			add(w, 2, 64)
			w.atomic(2, 3, 64)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"a lock that is taken before", func(w *parties) {
			add(w, 2, 64)
			w.atomic(2, 3, 64)
			write(w, 1, 8)
			add(w, 1, 64)
			w.atomic(1, 3, 64)
			w.complete(2, 3)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"another lock", func(w *parties) {
			write(w, 1, 8)
			add(w, 1, 64)
			w.atomic(1, 3, 64)
			add(w, 2, 72)
			w.atomic(2, 3, 72)
			w.complete(2, 3)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"the target of a READ, which a peer writes", func(w *parties) {
			w.post(3, 2, rxe.WRRead, 2, 8, 64, 0)
			write(w, 1, 64)
		}, []string{raceWrite}},
		{"what is sent, which a peer writes", func(w *parties) { send(w, 3, 2, 0); write(w, 1, 512) }, []string{raceRead}},
		{"the target of a READ, polled and told", func(w *parties) {
			w.post(3, 2, rxe.WRRead, 2, 8, 64, 0)
			w.complete(3, 2)
			send(w, 3, 1, 0)
			w.message(3, 1)
			write(w, 1, 64)
		}, nil},
		{"the target of a READ, sent before it is polled", func(w *parties) {
			w.post(3, 2, rxe.WRRead, 2, 8, 64, 0)
			w.all[3].waiting = 1
			w.complete(3, 2)
			w.post(3, 1, rxe.WRSend, 0, 0, 64, 0)
		}, []string{raceRead}},
		{"a region that its owner ended", func(w *parties) {
			write(w, 1, 8)
			w.all[3].Ended("mr", at(5))
			w.all[3].Made("mr", Made{Kind: kindMR, Number: 3, Region: &Region{Length: 1 << 20}}, at(1))
			write(w, 2, 8)
		}, nil},
		{"a queue pair that was destroyed", func(w *parties) {
			write(w, 1, 8)
			w.all[1].Modified(w.qps[[2]int{1, 3}], &rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState, at(5))
			w.all[1].Ended(w.qps[[2]int{1, 3}], at(5))
			write(w, 2, 8)
		}, nil},
		{"a key that was made later", func(w *parties) {
			write(w, 1, 8)
			send(w, 1, 3, 0)
			w.message(1, 3)
			w.all[3].Made("mr2", Made{Kind: kindMR, Number: 33, Region: &Region{Length: 1 << 20}}, at(1))
			w.post(2, 3, rxe.WRWrite, 33, 8, 64, 0)
		}, nil},
		{"another key of the same memory", func(w *parties) {
			w.all[3].Made("mr2", Made{Kind: kindMR, Number: 33, Region: &Region{Start: 4, Length: 64}}, at(1))
			write(w, 1, 8)
			w.post(2, 3, rxe.WRWrite, 33, 8, 64, 0)
		}, []string{raceWrite}},
		{"a flag that the owner waits for", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			w.post(1, 2, rxe.WRWrite, 2, 2048, 128, 0)
			w.land(1, 2, 2048)
			write(w, 2, 8)
		}, nil},
		{"a flag, before what it tells of has completed", func(w *parties) {
			write(w, 1, 8)
			w.post(1, 2, rxe.WRWrite, 2, 2048, 128, 0)
			w.land(1, 2, 2048)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"a flag that has not come", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			w.post(1, 2, rxe.WRWrite, 2, 2048, 128, 0)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"the flag itself", func(w *parties) {
			write(w, 1, 8)
			w.land(1, 3, 8)
			w.post(3, 2, rxe.WRRead, 2, 64, 8, 0)
		}, []string{raceWrite}},
		{"a receive that a peer writes", func(w *parties) {
			w.receives(3, 1, 8)
			write(w, 2, 8)
			send(w, 1, 3, 0)
			w.takes(1, 3)
		}, []string{raceWrite}},
		{"a receive that a peer writes later", func(w *parties) {
			w.receives(3, 1, 8)
			send(w, 1, 3, 0)
			w.takes(1, 3)
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"a receive beside what a peer writes", func(w *parties) {
			w.receives(3, 1, 8)
			write(w, 2, 16)
			send(w, 1, 3, 0)
			w.takes(1, 3)
		}, nil},
		{"a receive that is polled, and its peer told", func(w *parties) {
			w.receives(3, 1, 8)
			send(w, 1, 3, 0)
			w.takes(1, 3)
			send(w, 3, 2, 0)
			w.message(3, 2)
			write(w, 2, 8)
		}, nil},
		{"a receive that is posted when the WRITE is known", func(w *parties) {
			write(w, 2, 8)
			send(w, 2, 3, 0)
			w.message(2, 3)
			w.receives(3, 1, 8)
			send(w, 1, 3, 0)
			w.takes(1, 3)
		}, nil},
		{"a receive that is posted before the WRITE is known", func(w *parties) {
			w.receives(3, 1, 8)
			w.all[3].look(at(9))
			write(w, 2, 8)
			send(w, 2, 3, 0)
			w.message(2, 3)
			send(w, 1, 3, 0)
			w.takes(1, 3)
		}, []string{raceWrite}},
		{"RDMA CM, polled", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			w.all[1].Told(end(12))
			w.all[2].Heard(end(12))
			write(w, 2, 8)
		}, nil},
		{"RDMA CM, not polled", func(w *parties) {
			write(w, 1, 8)
			w.all[1].waiting = 1
			w.complete(1, 3)
			w.all[1].Told(end(12))
			w.all[2].Heard(end(12))
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"RDMA CM, told before", func(w *parties) {
			w.all[1].Told(end(12))
			write(w, 1, 8)
			w.complete(1, 3)
			w.all[2].Heard(end(12))
			write(w, 2, 8)
		}, []string{raceWrite}},
		{"RDMA CM, by a peer that nobody watches", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			w.all[1].Told(end(12))
			w.all[2].Heard(end(13))
			write(w, 2, 8)
		}, nil},
		{"another mapping of the same memory", func(w *parties) {
			file := procmaps.File{Minor: 1, Inode: 7}
			for i, start := range []uint64{1 << 20, 1 << 21} {
				key := uint32(33 + i)
				w.all[3].Made(key, Made{Kind: kindMR, Number: key, Region: &Region{Start: start, Base: start, Length: 64, Shared: &Shared{file, 128}}}, at(1))
				w.post(1+i, 3, rxe.WRWrite, int(key), start+8, 64, 0)
			}
		}, []string{raceWrite}},
		{"another mapping of the memory beside", func(w *parties) {
			file := procmaps.File{Minor: 1, Inode: 7}
			for i, start := range []uint64{1 << 20, 1 << 21} {
				key := uint32(33 + i)
				w.all[3].Made(key, Made{Kind: kindMR, Number: key, Region: &Region{Start: start, Base: start, Length: 64, Shared: &Shared{file, 128 + uint64(64*i)}}}, at(1))
				w.post(1+i, 3, rxe.WRWrite, int(key), start+8, 64, 0)
			}
		}, nil},
		{"a message from a process that nobody watches", func(w *parties) {
			write(w, 1, 8)
			w.complete(1, 3)
			q := new(rxe.QP)
			w.all[2].Made(q, Made{Kind: kindQP, Number: 99, QP: &QP{QP: q, SendCQ: "cq", RecvCQ: "cq"}}, at(3))
			w.all[2].Modified(q, &rxe.QPAttr{DestQPN: 98}, rxe.QPAttrDestQPN|rxe.QPAttrRQPSN, at(4))
			w.all[2].Completed(q, rxe.WC{Status: rxe.WCSuccess, Opcode: rxe.WCRecv}, true)
			write(w, 2, 8)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newParties(t, "races")
			w.connect(1, 3, 1)
			w.connect(3, 1, 1)
			c.do(w)
			if got := w.found(); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestRacesBounded: what is kept to find races has limits, and none of them makes a race where none
// is.
func TestRacesBounded(t *testing.T) {
	if race.Enabled {
		return // one goroutine, and long
	}
	w := newParties(t, "all")
	for i := range 2 * maxNews {
		w.post(1, 2, rxe.WRSend, 0, 0, 512, 0)
		w.post(1, 3, rxe.WRFetchAdd, 3, uint64(8*i), 1024, 0)
		w.atomic(1, 3, uint64(8*i))
		w.post(1, 3, rxe.WRWrite, 3, uint64(8*i), 64, 0)
		w.all[1].waiting = min(2*i, 64)
		w.complete(1, 3)
		w.complete(1, 2)
		w.all[2].waiting = min(i, 64)
		w.message(1, 2)
	}
	if n := len(w.claims); n > maxClaims {
		t.Errorf("%d claims", n)
	}
	if w.noted > maxNews+1 || len(w.places) > maxPlaces {
		t.Errorf("%d news, %d places", w.noted, len(w.places))
	}
	for i := range 2 * maxSlots {
		q := new(rxe.QP)
		w.all[1].Made(q, Made{Kind: kindQP, Number: uint32(1000 + i), QP: &QP{QP: q, SendCQ: "cq", RecvCQ: "cq"}}, at(3))
	}
	if n := len(w.slots); n != maxSlots {
		t.Errorf("%d slots", n)
	}
	for n := range uint32(2 * maxTold) {
		w.all[1].Told(end(n))
	}
	if n := len(w.told); n != maxTold {
		t.Errorf("%d ends of connections", n)
	}
	for pid := range 2 * maxProcesses {
		w.Open(100+pid, "program", "rxe0")
	}
	if n := len(w.processes); n != maxProcesses {
		t.Errorf("%d processes", n)
	}
	for _, f := range w.Report().Findings {
		if f.Check == raceWrite || f.Check == raceRead || f.Check == raceAtomic {
			t.Error(f.Brief())
		}
	}
	for _, p := range w.all[1:] {
		p.Close(false)
	}
	if len(w.claims) > 0 || w.noted != 0 {
		t.Errorf("%d claims and %d news are left", len(w.claims), w.noted)
	}
	if n := slices.IndexFunc(w.slots, func(o *object) bool { return o != nil }); n >= 0 {
		t.Errorf("slot %d is taken, and its queue pair is gone", n)
	}
}

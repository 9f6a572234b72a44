package librxe

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// scribble overwrites random words of a queue until stop: any word with what
// often means something, and the indices more often than their share.
func scribble(q *librxeclient.Queue, rng *rand.Rand, words []uint32, stop *atomic.Bool) {
	for !stop.Load() {
		at := rng.IntN(len(q.Mem)/4) * 4
		if rng.IntN(4) == 0 {
			at = []int{queueProducer, queueConsumer}[rng.IntN(2)]
		}
		v := rng.Uint32()
		if rng.IntN(3) > 0 {
			v = words[rng.IntN(len(words))]
		}
		atomic.StoreUint32(q.Word(at), v)
		for range rng.IntN(50) {
			runtime.Gosched()
		}
	}
}

// anySend is a work request of a QP to itself that names memory in and around
// the region.
func (s *station) anySend(rng *rand.Rand) *librxeclient.SendWR {
	addr := func() uint64 { return stationBase + rng.Uint64N(stationSize)&^7 }
	ops := []rxe.WROpcode{rxe.WRWrite, rxe.WRWriteImm, rxe.WRSend, rxe.WRSendImm, rxe.WRRead, rxe.WRCompareSwap,
		rxe.WRFetchAdd, rxe.WRAtomicWrite, rxe.WRFlush}
	wr := &librxeclient.SendWR{SendWR: rxe.SendWR{Op: ops[rng.IntN(len(ops))], Flags: rxedev.Signaled, RemoteAddr: addr(), RKey: s.mr.RKey(),
		FlushType: 1, FlushLength: 64}}
	for range rng.IntN(3) {
		wr.SGL = append(wr.SGL, rxe.SGE{Addr: addr(), Length: 8 << rng.IntN(8), LKey: s.mr.LKey()})
	}
	return wr
}

// TestScribble: a program that writes all over its queues while they are in use harms
// only what it registered. It harms neither the memory around that, nor the daemon, nor
// the traffic of another program.
func TestScribble(t *testing.T) {
	const guard = 0xa5
	dev := rxedev.New(t)
	honest := [2]*station{newStation(t, dev, rxe.QPRC), newStation(t, dev, rxe.QPRC)}
	honest[0].connect(honest[1].qp)
	honest[1].connect(honest[0].qp)
	wild := [2]*station{newStation(t, dev, rxe.QPRC), newStation(t, dev, rxe.QPUC)}
	var stop atomic.Bool
	var threads sync.WaitGroup
	for i, s := range wild {
		// The region is the middle of the memory.
		for j := range s.mem.Data {
			s.mem.Data[j] = guard
		}
		s.mr = must.Get[*rxe.MR](t)(s.dom.RegMR(s.mem, stationBase+stationSize/4, stationSize/2,
			stationBase+stationSize/4, rxedev.Rights))
		words := []uint32{0, 1, 2, 3, 7, 8, 15, 64, 4096, 1 << 20, 1<<32 - 1, uint32(s.mr.LKey()),
			uint32(s.mw.RKey()), uint32(wild[1-i].qp.Num()), stationBase + stationSize/4, stationBase + stationSize/2}
		for j, q := range []*librxeclient.Queue{s.send, s.recv, s.comp} {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			threads.Go(func() { scribble(q, rng, words, &stop) })
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	list := []rxe.SGE{honest[0].sge(0, 64)}
	rounds := 20000
	if race.Enabled {
		rounds = 300
	}
	for round := range rounds {
		for i, s := range wild {
			if s.qp.State() != rxe.QPRTS {
				s.must(s.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
				s.sq.reset()
				s.rq.reset()
				s.connect(wild[i].qp) // to itself: what it sends it has to receive
			}
			s.recv.PostRecv(1, s.anySend(rng).SGL...)
			s.send.PostSend(s.anySend(rng))
			_ = s.sq.doorbell()
		}
		binary.NativeEndian.PutUint64(honest[0].bytes(0, 8), uint64(round))
		honest[1].recv.PostRecv(uint64(round), honest[1].sge(0, 64))
		honest[0].post(librxeclient.SendWR{SendWR: rxe.SendWR{ID: uint64(round), Op: rxe.WRSend, Flags: rxedev.Signaled, SGL: list}})
		honest[0].want(uint64(round), rxe.WCSuccess)
		honest[1].want(uint64(round), rxe.WCSuccess)
		if !bytes.Equal(honest[0].bytes(0, 64), honest[1].bytes(0, 64)) {
			t.Fatal("other bytes arrived")
		}
	}
	stop.Store(true)
	threads.Wait()
	for _, s := range wild {
		for _, c := range s.qp.Counters() {
			if c.Name == "sent_packets" && c.Value == 0 {
				t.Errorf("%v: nothing was sent: the test tests nothing", s.qp.Type())
			}
		}
	}
	around := bytes.Repeat([]byte{guard}, stationSize/4)
	for _, s := range wild {
		if !bytes.Equal(s.bytes(0, stationSize/4), around) || !bytes.Equal(s.bytes(3*stationSize/4, stationSize/4), around) {
			t.Error("memory outside the region was written")
		}
	}
}

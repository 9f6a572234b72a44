package sim

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Messages between QPs of one device travel as super-packets or, when a tap wants
// to see them, as packets. Only the tap may see the difference. The same seeds are
// run both ways and compared down to the last counter.

// finalState describes all that a program can see: memory, counters,
// attributes.
func (w *world) finalState() string {
	var b strings.Builder
	for _, h := range w.hosts {
		fmt.Fprintf(&b, "host %d: memory %x, %v\n", h.index, crc32.ChecksumIEEE(h.mem.Data), h.dev.Counters())
		fmt.Fprintf(&b, "%v %v\n", h.dev.PacketCounts(), h.dev.WorkCounts())
	}
	for i, e := range w.ends {
		attr, _, err := e.q.Query()
		fmt.Fprintf(&b, "QP %d: %+v %+v %v %v\n", i, attr, e.q.Snapshot(), err, e.q.Counters())
	}
	return b.String()
}

// diff returns where two descriptions differ. The names say what they are of.
func diff(a, b, nameA, nameB string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("%s: %s\n %s: %s", nameA, as[i], nameB, bs[i])
		}
	}
	if len(as) != len(bs) {
		return fmt.Sprintf("%d lines with %s, %d with %s", len(as), nameA, len(bs), nameB)
	}
	return ""
}

// compareRuns makes two runs, which vary makes different, and wants the same checksum and final
// state of both.
func compareRuns(t *testing.T, p params, names [2]string, vary func(p *params, second bool)) (runs [2]*world) {
	t.Helper()
	for k := range runs {
		vary(&p, k == 1)
		w, err := runWorld(p)
		if err != nil {
			t.Fatalf("seed %d, %s: %v", p.seed, names[k], err)
		}
		runs[k] = w
	}
	if a, b := runs[0], runs[1]; a.checksum() != b.checksum() || a.final != b.final {
		t.Fatalf("seed %d: checksum %x with %s, %x with %s\n%s", p.seed, a.checksum(), names[0], b.checksum(), names[1],
			diff(a.final, b.final, names[0], names[1]))
	}
	return runs
}

// TestSuperPackets runs seeds of TestSeeds with more pairs on one host.
func TestSuperPackets(t *testing.T) {
	first, tapped := seedFirst(t), 0
	for i := range max(seedCount(t)/4, 1) {
		seed := first + uint64(i)
		p := drawParams(seed, scaleOf(seed))
		p.chaos = false // it draws for each packet
		for j := range p.pairs {
			p.pairs[j].hosts = [2]int{int(seed % 2), int(seed % 2)}
		}
		for _, w := range compareRuns(t, p, [2]string{"super-packets", "packets"}, func(p *params, second bool) { p.tap = second }) {
			tapped += w.stats.tapped
		}
	}
	if tapped == 0 {
		t.Error("there was nothing to be seen by the tap")
	}
}

// TestSuperPacketMistakes draws what can go wrong: two QPs of one device that may
// not fit each other, keys that do not, missing receives, and work that is not
// checked.
func TestSuperPacketMistakes(t *testing.T) {
	first := seedFirst(t)
	statuses := map[rxe.WCStatus]int{}
	for i := range seedCount(t) {
		seed := first + uint64(i)
		supers := newMistakes(seed, false).run(statuses)
		packets := newMistakes(seed, true).run(nil)
		if supers != packets {
			t.Fatalf("seed %d: %s", seed, diff(supers, packets, "super-packets", "packets"))
		}
	}
	t.Logf("completions by status: %v", statuses)
	for _, s := range []rxe.WCStatus{rxe.WCSuccess, rxe.WCLocProtErr, rxe.WCRemAccessErr, rxe.WCRemInvReqErr, rxe.WCRemOpErr,
		rxe.WCRNRRetryErr, rxe.WCFlushErr, rxe.WCLocLenErr, rxe.WCRetryExcErr} {
		if statuses[s] == 0 && seedCount(t) >= 300 {
			t.Errorf("no run had a completion with status %v", s)
		}
	}
}

// mistakes is one such run. Its decisions depend on the seed only.
type mistakes struct {
	rng  *rand.Rand
	net  *simnet.Network
	dev  *rxe.Device
	pd   *rxe.PD
	mem  *simnet.Memory
	mrs  []*rxe.MR
	cqs  [2]*rxe.CQ
	qps  [2]*rxe.QP
	srq  *rxe.SRQ
	mws  [2]*rxe.MW
	odds int // one in so many is wrong
	log  strings.Builder
	seen map[rxe.WCStatus]int
	// spaceEnded: registered memory may turn out to be missing. Which packet
	// reveals that depends on how many were written together.
	holes, spaceEnded bool
}

const (
	blunderMem = 256 << 10
	mistakeMRs = 4 // the last reaches beyond the memory
	gapStart   = blunderMem - 16<<10
)

func newMistakes(seed uint64, tap bool) *mistakes {
	b := &mistakes{rng: rand.New(rand.NewPCG(seed, 77)), net: simnet.New(simnet.Config{Seed: seed, MaxBatch: 1})}
	port := b.net.NewPort(nearAddr)
	cfg := rxe.Config{Name: "near", GUID: 1, Link: port, Clock: port, Seed: [32]byte{1}, OnEvent: b.event}
	if tap {
		cfg.Tap = func(*wire.Burst) {}
	}
	b.odds, b.holes = pick(b.rng, 16, 100, 1000), b.rng.IntN(8) == 0
	var err error
	b.dev, err = rxe.New(cfg)
	must(err)
	port.Attach(b.dev)
	must(b.dev.SetGIDs([]wire.GID{wire.GIDFromAddr(nearAddr)}))
	must(b.dev.SetPort(rxe.PortActive, 4096))
	b.pd, err = b.dev.AllocPD()
	must(err)
	b.mem = &simnet.Memory{Base: memBase, Data: append([]byte(nil), template[:blunderMem]...)}
	b.regions()
	for i := range b.cqs {
		b.cqs[i], err = b.dev.CreateCQ(rxe.CQInit{Entries: pick(b.rng, 4, 64, 256)})
		must(err)
	}
	if b.rng.IntN(3) == 0 {
		b.srq, err = b.pd.CreateSRQ(rxe.SRQInit{MaxWR: 16, MaxSGE: 4})
		must(err)
	}
	b.connect()
	return b
}

func (b *mistakes) event(e rxe.Event) {
	fmt.Fprintf(&b.log, "%v: event %v\n", b.net.Now(), e.Type)
}

// regions registers parts of the memory with some of the rights.
func (b *mistakes) regions() {
	for i := range mistakeMRs {
		from, to := b.rng.IntN(gapStart/2), gapStart/2+b.rng.IntN(gapStart/2)
		mem := rxe.Memory(b.mem)
		if b.rng.IntN(2) == 0 {
			mem = &simnet.Memory{Base: b.mem.Base, Data: b.mem.Data}
		}
		access := rxe.AccessLocalWrite
		for _, a := range []rxe.Access{rxe.AccessRemoteRead, rxe.AccessRemoteWrite, rxe.AccessRemoteAtomic, rxe.AccessMWBind} {
			if b.rng.IntN(b.odds) != 0 {
				access |= a
			}
		}
		switch {
		case i == mistakeMRs-1:
			from, to = gapStart+8<<10, blunderMem+8<<10
		case b.rng.IntN(b.odds) == 0:
			access = 0
		}
		mr, err := b.pd.RegMR(mem, uint64(memBase+from), uint64(to-from), uint64(memBase+from), access)
		must(err)
		b.mrs = append(b.mrs, mr)
	}
}

func (b *mistakes) connect() {
	typ := pick(b.rng, rxe.QPRC, rxe.QPRC, rxe.QPRC, rxe.QPUC)
	mtu := pick[rxe.MTU](b.rng, 256, 512, 1024, 2048, 4096)
	psn := wire.PSN(0).Sub(b.rng.Uint32N(64))
	var err error
	for i := range b.qps {
		b.qps[i], err = b.pd.CreateQP(rxe.QPInitAttr{Type: typ, SendCQ: b.cqs[i], RecvCQ: b.cqs[b.rng.IntN(2)], SRQ: b.srq,
			Cap: rxe.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 512}, SignalAll: true})
		must(err)
		b.mws[i], err = b.pd.AllocMW(rxe.MWType2)
		must(err)
	}
	for i, q := range b.qps {
		a := rxe.QPAttr{PortNum: 1, PathMTU: mtu, DestQPN: b.qps[1-i].Num(), SQPSN: psn, RQPSN: psn,
			Access:      rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic,
			AH:          rxe.AHAttr{DGID: wire.GIDFromAddr(nearAddr), PortNum: 1},
			MaxRdAtomic: uint8(1 + b.rng.IntN(8)), MaxDestRdAtomic: uint8(1 + b.rng.IntN(8)),
			MinRNRTimer: uint8(1 + b.rng.IntN(5)), Timeout: 8, RetryCnt: uint8(b.rng.IntN(3)), RNRRetry: uint8(b.rng.IntN(7)),
		}
		switch b.rng.IntN(b.odds) {
		case 0:
			a.PathMTU = pick[rxe.MTU](b.rng, 256, 512, 1024, 2048, 4096)
		case 1:
			a.Access = rxe.Access(b.rng.Uint32()) & a.Access
		case 2:
			a.DestQPN++ // nobody
		case 3:
			a.RQPSN = a.RQPSN.Sub(uint32(b.rng.IntN(4)))
		case 4:
			a.DestQPN = q.Num() // itself
		}
		for from := range rxe.QPRTS {
			a.State = from + 1
			must(q.Modify(&a, rxe.RequiredMask(typ, from, a.State)))
		}
	}
}

// sgl draws up to four pieces of n bytes in all. Occasionally one is outside.
func (b *mistakes) sgl(n int) []rxe.SGE {
	var s []rxe.SGE
	for k := 1 + b.rng.IntN(4); k > 0; k-- {
		part := n
		if k > 1 {
			part = b.rng.IntN(n + 1)
		}
		at, key := b.place(part)
		s = append(s, rxe.SGE{Addr: at, Length: uint32(part), LKey: wire.LKey(key)})
		n -= part
	}
	return s
}

// place draws n bytes of a region, and its key, which is rarely a bad one.
func (b *mistakes) place(n int) (va uint64, key uint32) {
	i := b.rng.IntN(mistakeMRs - 1)
	if b.holes && b.rng.IntN(b.odds) == 0 {
		i, b.spaceEnded = mistakeMRs-1, true
	}
	mr := b.mrs[i]
	key = uint32(mr.LKey())
	switch b.rng.IntN(b.odds) {
	case 0:
		key++
	case 1:
		return uint64(memBase + b.rng.IntN(blunderMem)), key
	}
	from := map[bool]uint64{false: memBase + gapStart/2 - 16<<10, true: memBase + blunderMem - 4<<10}[i == mistakeMRs-1]
	return from + uint64(b.rng.IntN(16<<10)), key
}

func (b *mistakes) size() int {
	return pick(b.rng, 0, 1, 8, 255, 256, 4096, 4097, 8192, b.rng.IntN(20_000), b.rng.IntN(60_000))
}

func (b *mistakes) post(i int) {
	q := b.qps[i]
	var wrs []rxe.SendWR
	for range 1 + b.rng.IntN(4) {
		op := pick(b.rng, rxe.WRSend, rxe.WRSend, rxe.WRSendImm, rxe.WRWrite, rxe.WRWrite, rxe.WRWriteImm,
			rxe.WRRead, rxe.WRRead, rxe.WRFetchAdd, rxe.WRSendInv, rxe.WRBindMW)
		if b.rng.IntN(b.odds) > 4 { // what most is about
			op = pick(b.rng, rxe.WRWrite, rxe.WRSend, rxe.WRRead)
		}
		wr := rxe.SendWR{ID: b.rng.Uint64() >> 1, Op: op, Imm: b.rng.Uint32(), Flags: rxe.SendFlags(b.rng.IntN(4)) &^ 2}
		n := b.size()
		if op == rxe.WRFetchAdd {
			n = 8
		}
		wr.SGL = b.sgl(n)
		va, key := b.place(n)
		wr.RemoteAddr, wr.RKey, wr.InvRKey = va&^7, wire.RKey(key), b.mws[1-i].RKey()
		if b.rng.IntN(max(b.odds/8, 2)) == 0 {
			wr.RKey = b.mws[1-i].RKey()
		}
		if op == rxe.WRBindMW {
			mw := b.mws[i]
			wr.Bind = &rxe.MWBind{MW: mw, RKey: mw.RKey()&^0xff | (mw.RKey()+1)&0xff, MR: b.mrs[b.rng.IntN(len(b.mrs))],
				Addr: memBase + gapStart/2 - 8<<10, Length: 48 << 10, Access: rxe.AccessRemoteRead | rxe.AccessRemoteWrite}
		}
		if n <= 512 && op != rxe.WRRead && op != rxe.WRFetchAdd && b.rng.IntN(4) == 0 {
			wr.Flags |= rxe.SendInline
			wr.Inline = append([]byte(nil), template[:n]...)
		}
		if b.rng.IntN(20*b.odds) == 0 {
			wr.Status = rxe.WCLocLenErr
		}
		wrs = append(wrs, wr)
	}
	k, err := q.PostSend(wrs)
	fmt.Fprintf(&b.log, "%v: QP %d: %d of %d posted: %v\n", b.net.Now(), i, k, len(wrs), err)
}

func (b *mistakes) postRecv(i int) {
	var wrs []rxe.RecvWR
	for range 1 + b.rng.IntN(6) {
		wrs = append(wrs, rxe.RecvWR{ID: 1<<63 | b.rng.Uint64(), SGL: b.sgl(pick(b.rng, 60_000, 30_000, b.size()))})
	}
	var k int
	var err error
	if b.srq != nil {
		k, err = b.srq.PostRecv(wrs)
	} else {
		k, err = b.qps[i].PostRecv(wrs)
	}
	fmt.Fprintf(&b.log, "%v: QP %d: %d of %d receives posted: %v\n", b.net.Now(), i, k, len(wrs), err)
}

// run does a few dozen things and returns all that can be seen of them.
func (b *mistakes) run(statuses map[rxe.WCStatus]int) string {
	b.seen = statuses
	for range 4 + b.rng.IntN(30) {
		i := b.rng.IntN(2)
		switch b.rng.IntN(16) {
		case 0, 1, 2, 3, 4, 5:
			b.postRecv(i)
		case 6:
			b.net.Drain(b.net.Now() + rxe.Time(b.rng.Int64N(int64(3*time.Millisecond))))
		case 7:
			if b.rng.IntN(b.odds) == 0 {
				mr := b.mrs[b.rng.IntN(mistakeMRs)]
				fmt.Fprintf(&b.log, "dereg: %v\n", mr.Dereg())
			}
		default:
			b.post(i)
		}
		b.poll()
	}
	b.net.Drain(b.net.Now() + rxe.Time(10*time.Second))
	b.poll()
	fmt.Fprintf(&b.log, "memory %x\n", crc32.ChecksumIEEE(b.mem.Data[:gapStart]))
	if !b.spaceEnded {
		fmt.Fprintf(&b.log, "%v %v %v\n", b.dev.Counters(), b.dev.PacketCounts(), b.dev.WorkCounts())
	}
	for i, q := range b.qps {
		attr, _, err := q.Query()
		s := q.Snapshot()
		if s.State == rxe.QPErr {
			s.RecvPSN = 0 // nothing is expected any more
		}
		fmt.Fprintf(&b.log, "QP %d: %+v %+v %v\n", i, attr, s, err)
		if !b.spaceEnded {
			fmt.Fprintf(&b.log, "%v\n", q.Counters())
		}
	}
	must(b.dev.Close())
	return b.log.String()
}

func (b *mistakes) poll() {
	var wcs [32]rxe.WC
	for i, cq := range b.cqs {
		for {
			n, err := cq.Poll(wcs[:])
			for _, wc := range wcs[:n] {
				fmt.Fprintf(&b.log, "%v: CQ %d: %+v\n", b.net.Now(), i, wc)
				if b.seen != nil {
					b.seen[wc.Status]++
				}
			}
			if err != nil {
				fmt.Fprintf(&b.log, "CQ %d: %v\n", i, err)
			}
			if n == 0 {
				break
			}
		}
	}
}

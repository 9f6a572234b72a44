package rxe

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// TestExtentCheck has a case for each reason to refuse a key, and for the order of
// the reasons.
func TestExtentCheck(t *testing.T) {
	pd, other := &PD{}, &PD{}
	q, q2 := &QP{intake: intake{pd: pd}}, &QP{intake: intake{pd: pd}}
	const key = 0x123456_78
	top := ^uint64(0)
	full := extent{key: key, pd: pd, base: 0x1000, length: 0x100, access: AccessLocalWrite | AccessRemoteRead}
	for _, c := range []struct {
		name  string
		alter func(*extent)
		key   uint32
		va, n uint64
		need  Access
		want  keyReason
	}{
		{"whole", nil, key, 0x1000, 0x100, 0, keyOK},
		{"granted right", nil, key, 0x1000, 0x100, AccessLocalWrite, keyOK},
		{"last byte", nil, key, 0x10ff, 1, AccessRemoteRead, keyOK},
		{"nothing at the end", nil, key, 0x1100, 0, 0, keyOK},
		{"old variant", nil, key - 1, 0x1000, 1, 0, keyVariant},
		{"other domain", func(e *extent) { e.pd = other }, key, 0x1000, 1, 0, keyPD},
		{"own QP", func(e *extent) { e.qp = q }, key, 0x1000, 1, 0, keyOK},
		{"other QP", func(e *extent) { e.qp = q2 }, key, 0x1000, 1, 0, keyQP},
		{"missing right", nil, key, 0x1000, 1, AccessRemoteWrite, keyAccess},
		{"one of two rights", nil, key, 0x1000, 1, AccessRemoteRead | AccessFlushGlobal, keyAccess},
		{"before", nil, key, 0xfff, 1, 0, keyRange},
		{"one too long", nil, key, 0x1000, 0x101, 0, keyRange},
		{"behind", nil, key, 0x1101, 0, 0, keyRange},
		{"length wraps", nil, key, 0x1001, top, 0, keyRange},
		{"address wraps", nil, key, top, 0x1100, 0, keyRange},
		{"top of the address space", func(e *extent) { e.base = top - 0xff }, key, top, 1, 0, keyOK},
		{"past the top", func(e *extent) { e.base = top - 0xff }, key, top, 2, 0, keyRange},
		{"empty extent", func(e *extent) { e.length = 0 }, key, 0x1000, 1, 0, keyRange},
		{"variant before domain", func(e *extent) { e.pd = other }, 0, 0, 1, AccessRemoteWrite, keyVariant},
		{"right before range", nil, key, 0, 1, AccessRemoteWrite, keyAccess},
	} {
		e := full
		if c.alter != nil {
			c.alter(&e)
		}
		if got := e.check(q, q.pd, c.key, c.va, c.n, c.need); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// FuzzExtentCheck compares the check with an oracle that goes through rights
// bit by bit and compares the ends of ranges, where the check compares offsets.
func FuzzExtentCheck(f *testing.F) {
	top := ^uint64(0)
	f.Add(uint64(0x1000), uint64(0x100), uint64(0x10ff), uint64(1), uint32(1), uint32(1))
	f.Add(top-1, uint64(2), top, uint64(1), uint32(0), uint32(0))
	f.Add(uint64(0), top, uint64(1), top, uint32(7), uint32(2))
	f.Fuzz(func(t *testing.T, base, length, va, n uint64, access, need uint32) {
		length = min(length, -base-1) // registration refuses what wraps
		pd := &PD{}
		e := extent{key: 5, pd: pd, base: base, length: length, access: Access(access)}
		got := e.check(&QP{intake: intake{pd: pd}}, pd, 5, va, n, Access(need))

		rights := true
		for bit := range 32 {
			if need>>bit&1 == 1 && access>>bit&1 == 0 {
				rights = false
			}
		}
		end := va + n
		wraps := end < va
		inside := va >= base && !wraps && end <= base+length
		want := keyOK
		if !rights {
			want = keyAccess
		} else if !inside {
			want = keyRange
		}
		if got != want {
			t.Errorf("[%x,+%x) rights %x in [%x,+%x) rights %x: %v, want %v",
				va, n, need, base, length, access, got, want)
		}
	})
}

func TestLocalAccess(t *testing.T) {
	d := newObjDev(t)
	pd, other := d.pd(), d.pd()
	q := d.qp(pd, QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, 0)
	foreign := d.mr(other, 0x5000, 0x100, 0x1000, 0)
	mw := d.mw(pd, MWType1)
	for _, c := range []struct {
		name string
		sge  SGE
		need Access
		want keyReason
	}{
		{"read", SGE{0x1010, 0x10, mr.LKey()}, 0, keyOK},
		{"empty needs no key", SGE{0, 0, 0}, AccessLocalWrite, keyOK},
		{"zero key", SGE{0x1000, 1, 0}, 0, keyNotFound},
		{"write without right", SGE{0x1000, 1, mr.LKey()}, AccessLocalWrite, keyAccess},
		{"stale", SGE{0x1000, 1, mr.LKey() ^ 1}, 0, keyVariant},
		{"other domain", SGE{0x1000, 1, foreign.LKey()}, 0, keyPD},
		{"address instead of iova", SGE{0x5000, 1, mr.LKey()}, 0, keyRange},
		{"window", SGE{0x1000, 1, wire.LKey(mw.RKey())}, 0, keyType},
	} {
		ref, r := q.localAccess(pd, c.sge, c.need)
		if r != c.want {
			t.Errorf("%s: %v, want %v", c.name, r, c.want)
		}
		if r == keyOK && c.sge.Length > 0 && ref.va != 0x5010 {
			t.Errorf("%s: va %x", c.name, ref.va)
		}
		if (r != keyOK) != (ref.reg == nil) && c.sge.Length > 0 {
			t.Errorf("%s: grant %+v with %v", c.name, ref, r)
		}
		ref.release()
	}
	if n := mr.reg.Load().uses.n.Load(); n != 0 {
		t.Errorf("%d uses left", n)
	}
}

// TestNullKey: the null key names memory of zeros in every domain, for lists only, and only on a
// device that has it.
func TestNullKey(t *testing.T) {
	d := newObjDev(t)
	q := d.qp(d.pd(), QPRC)
	const key = 1
	if _, why := q.localAccess(q.pd, SGE{0x1000, 8, key}, 0); why != keyNotFound {
		t.Errorf("without one: %v", why)
	}
	d.whole.attr.NullLKey = key
	ref, why := q.localAccess(q.pd, SGE{1<<64 - 1, 8, key}, AccessLocalWrite)
	if why != keyOK {
		t.Fatal(why)
	}
	b := []byte("something")
	if ref.mem.WriteV([]Span{{VA: ref.va, Buf: b}}) != nil || ref.mem.ReadV([]Span{{VA: ref.va, Buf: b}}) != nil || string(b) != string(make([]byte, 9)) {
		t.Errorf("it reads %q", b)
	}
	ref.release()
	if _, why := q.remoteAccess(q.pd, key, 0x1000, 8, AccessRemoteRead); why != keyNotFound {
		t.Errorf("of a peer: %v", why)
	}
}

func TestRemoteAccess(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	q := d.qp(pd, QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0, AccessRemoteRead|AccessZeroBased)
	ref, r := q.remoteAccess(q.pd, mr.RKey(), 0x80, 0x80, AccessRemoteRead)
	if r != keyOK || ref.va != 0x5080 {
		t.Fatalf("%v at %x", r, ref.va)
	}
	ref.release()
	ref.release() // of nothing
	if _, r := q.remoteAccess(q.pd, 0, 0, 0, AccessRemoteWrite); r != keyOK {
		t.Errorf("empty range: %v", r)
	}
	if _, r := q.remoteAccess(q.pd, 0, 0, 1, AccessRemoteRead); r != keyNotFound {
		t.Errorf("zero key: %v", r)
	}
	if q.flushesRegion(mr.RKey(), AccessFlushGlobal) || !q.flushesRegion(mr.RKey(), AccessRemoteRead) ||
		q.flushesRegion(mr.RKey()^0xff, 0) || q.flushesRegion(0, 0) {
		t.Error("flushesRegion")
	}
	key := mr.RKey()
	d.must(mr.Dereg())
	if _, r := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead); r != keyNotFound {
		t.Errorf("after Dereg: %v", r)
	}
}

// TestDeregWaits checks that a region stays until the last access has ended, and
// that no access begins meanwhile.
func TestDeregWaits(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	q := d.qp(pd, QPRC)
	mr := d.mr(pd, 0, 0x100, 0, AccessRemoteRead)
	key := mr.RKey()
	reg := mr.reg.Load()
	a, _ := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead)
	b, _ := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead)
	done := make(chan error)
	go func() { done <- mr.Dereg() }()
	must.Eventually(t, "Dereg is in its wait", func() bool {
		select {
		case err := <-done:
			t.Fatalf("Dereg returned %v with two accesses in flight", err)
		default:
		}
		return reg.uses.n.Load()&useDying != 0
	})
	if _, r := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead); r != keyNotFound {
		t.Errorf("access to a dying region: %v", r)
	}
	a.release()
	select {
	case <-done:
		t.Fatal("Dereg returned with an access in flight")
	default:
	}
	b.release()
	d.must(<-done)
}

func TestRegMRRefusals(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	top := ^uint64(0)
	for _, c := range []struct {
		arg                string
		mem                Memory
		addr, length, iova uint64
		access             Access
	}{
		{"mem", nil, 0, 1, 0, 0},
		{"addr", &objMem{}, top, 2, 0, 0},
		{"iova", &objMem{}, 0, 2, top, 0},
		{"access", &objMem{}, 0, 1, 0, 1 << 10},
		{"access", &objMem{}, 0, 1, 0, AccessRemoteWrite},
		{"access", &objMem{}, 0, 1, 0, AccessRemoteAtomic | AccessRemoteRead},
	} {
		_, err := pd.RegMR(c.mem, c.addr, c.length, c.iova, c.access)
		d.want(err, ErrInvalid, c.arg)
	}
	if n := d.Objects().MR; n != 0 {
		t.Errorf("%d regions after refusals", n)
	}
	for _, access := range []Access{
		AccessOnDemand | AccessLocalWrite | AccessRemoteWrite | AccessRelaxed,
		AccessZeroBased | AccessHugeTLB, 1 << 29,
	} {
		if _, err := pd.RegMR(&objMem{}, 0, top, 0, access); err != nil {
			t.Errorf("access %x: %v", access, err)
		}
	}
}

func TestRereg(t *testing.T) {
	d := newObjDev(t)
	pd, pd2 := d.pd(), d.pd()
	q, q2 := d.qp(pd, QPRC), d.qp(pd2, QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, AccessRemoteRead|AccessMWBind)
	key := mr.RKey()

	d.want(mr.Rereg(0, nil, nil, 0, 0, 0, 0), ErrInvalid, "flags")
	d.want(mr.Rereg(8, nil, nil, 0, 0, 0, 0), ErrInvalid, "flags")
	d.want(mr.Rereg(ReregPD, nil, nil, 0, 0, 0, 0), ErrInvalid, "pd")
	d.want(mr.Rereg(ReregPD|ReregAccess, pd2, nil, 0, 0, 0, AccessRemoteWrite), ErrInvalid, "access")
	d.want(mr.Rereg(ReregTranslation, nil, nil, 0, 1, 0, 0), ErrInvalid, "mem")
	mw := d.mw(pd, MWType1)
	bind := MWBind{MW: mw, MR: mr, Addr: 0x1000, Length: 1}
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Fatal(s)
	}
	d.want(mr.Rereg(ReregAccess, nil, nil, 0, 0, 0, 0), ErrBusy, "mr")
	bind.Length = 0
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Fatal(s)
	}
	if ref, r := q.remoteAccess(q.pd, key, 0x1000, 1, AccessRemoteRead); r != keyOK {
		t.Errorf("refusals changed the region: %v", r)
	} else {
		ref.release()
	}

	d.must(mr.Rereg(ReregPD, pd2, nil, 0, 0, 0, 0))
	if _, r := q.remoteAccess(q.pd, key, 0x1000, 1, AccessRemoteRead); r != keyPD {
		t.Errorf("old domain: %v", r)
	}
	if pd.children != 2 || pd2.children != 2 { // a QP and the window; a QP and the region
		t.Errorf("children %d, %d", pd.children, pd2.children)
	}
	d.must(mr.Rereg(ReregAccess, nil, nil, 0, 0, 0, AccessLocalWrite|AccessRemoteWrite))
	if _, r := q2.remoteAccess(q2.pd, key, 0x1000, 1, AccessRemoteRead); r != keyAccess {
		t.Errorf("right taken away: %v", r)
	}
	d.must(mr.Rereg(ReregTranslation, nil, &objMem{}, 0x9000, 0x10, 0x2000, 0))
	if _, r := q2.remoteAccess(q2.pd, key, 0x2000, 1, AccessRemoteWrite); r != keyVariant {
		t.Errorf("old key: %v", r)
	}
	ref, r := q2.remoteAccess(q2.pd, mr.RKey(), 0x2001, 1, AccessRemoteWrite)
	if r != keyOK || ref.va != 0x9001 || mr.reg.Load().length != 0x10 {
		t.Errorf("new translation: %v at %x, length %x", r, ref.va, mr.reg.Load().length)
	}
	ref.release()
	d.must(mr.Dereg())
	d.want(mr.Rereg(ReregAccess, nil, nil, 0, 0, 0, 0), ErrClosed, "mr")
}

// TestAccessDuringRereg has readers of the key table race with threads that change
// it. The race detector is the judge.
func TestAccessDuringRereg(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	mr := d.mr(pd, 0, 0x100, 0, AccessRemoteRead)
	key := mr.RKey()
	var wg sync.WaitGroup
	for range 2 {
		q := d.qp(pd, QPRC) // one for each reader, as a QP's accesses hold its lock
		wg.Go(func() {
			for range 500 {
				if ref, r := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead); r == keyOK {
					ref.release()
				}
			}
		})
	}
	for range 200 {
		d.must(mr.Rereg(ReregAccess, nil, nil, 0, 0, 0, AccessRemoteRead))
		d.must(d.mr(pd, 0, 1, 0, 0).Dereg())
	}
	d.must(mr.Dereg())
	wg.Wait()
}

func TestAccessAllocatesNothing(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	q := d.qp(pd, QPRC)
	mr := d.mr(pd, 0, 0x100, 0, AccessRemoteRead)
	key := mr.RKey()
	if n := testing.AllocsPerRun(100, func() {
		ref, _ := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead)
		ref.release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNumTable compares the table with a map over random inserts and removes.
func TestNumTable(t *testing.T) {
	var table numTable[int]
	model := make(map[uint32]*int)
	rnd := rand.New(rand.NewPCG(1, 2))
	if table.lookup(3) != nil {
		t.Fatal("found in an empty table")
	}
	for range 5000 {
		if len(model) > 0 && rnd.IntN(3) == 0 {
			for num := range model {
				table.remove(num)
				delete(model, num)
				break
			}
			table.remove(1 << 20) // never there
		} else {
			v := new(int)
			model[table.insert(v, func() uint32 { return rnd.Uint32N(4096) })] = v
		}
		if len(model) > 3000 {
			break
		}
	}
	seen := 0
	table.each(func(num uint32, v *int) {
		seen++
		if model[num] != v {
			t.Errorf("%d: not what was inserted", num)
		}
	})
	if seen != len(model) || table.count != len(model) {
		t.Errorf("%d objects, count %d, want %d", seen, table.count, len(model))
	}
	for num, v := range model {
		if table.lookup(num) != v {
			t.Errorf("%d not found", num)
		}
	}
}

// BenchmarkRemoteAccess measures the whole cost of a key on the way to memory: look
// up, check, acquire, release.
func BenchmarkRemoteAccess(b *testing.B) {
	d, err := New(Config{Link: new(objLink), Clock: objClock{}, Seed: objSeed})
	if err != nil {
		b.Fatal(err)
	}
	pd, err := d.AllocPD()
	if err != nil {
		b.Fatal(err)
	}
	q := &QP{qpMade: qpMade{dev: d}, intake: intake{pd: pd}}
	var key wire.RKey
	for range 1000 {
		mr, err := pd.RegMR(&objMem{}, 0, 1<<20, 0, AccessRemoteRead)
		if err != nil {
			b.Fatal(err)
		}
		key = mr.RKey()
	}
	b.ReportAllocs()
	for b.Loop() {
		ref, r := q.remoteAccess(q.pd, key, 4096, 4096, AccessRemoteRead)
		if r != keyOK {
			b.Fatal(r)
		}
		ref.release()
	}
}

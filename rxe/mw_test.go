package rxe

import (
	"errors"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

const objMRAccess = AccessLocalWrite | AccessRemoteRead | AccessMWBind

func TestBindRefusals(t *testing.T) {
	d := newObjDev(t)
	pd, other := d.pd(), d.pd()
	q, foreignQP := d.qp(pd, QPRC), d.qp(other, QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
	readOnly := d.mr(pd, 0x5000, 0x100, 0x1000, AccessMWBind)
	unbindable := d.mr(pd, 0x5000, 0x100, 0x1000, AccessLocalWrite)
	zeroBased := d.mr(pd, 0x5000, 0x100, 0, AccessMWBind|AccessZeroBased)
	foreignMR := d.mr(other, 0x5000, 0x100, 0x1000, objMRAccess)
	deregistered := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
	d.must(deregistered.Dereg())

	for _, typ := range []MWType{MWType1, MWType2} {
		mw := d.mw(pd, typ)
		good := MWBind{MW: mw, MR: mr, Addr: 0x1000, Length: 0x100, Access: AccessRemoteRead}
		for _, c := range []struct {
			name string
			q    *QP
			set  func(*MWBind)
			want keyReason
		}{
			{"QP of another domain", foreignQP, func(b *MWBind) {}, keyPD},
			{"region of another domain", q, func(b *MWBind) { b.MR = foreignMR }, keyPD},
			{"no region", q, func(b *MWBind) { b.MR = nil }, keyNotFound},
			{"region deregistered", q, func(b *MWBind) { b.MR = deregistered }, keyNotFound},
			{"region without MW bind", q, func(b *MWBind) { b.MR = unbindable }, keyAccess},
			{"remote write to a read-only region", q, func(b *MWBind) {
				b.MR, b.Access = readOnly, AccessRemoteWrite
			}, keyAccess},
			{"remote atomic to a read-only region", q, func(b *MWBind) {
				b.MR, b.Access = readOnly, AccessRemoteAtomic
			}, keyAccess},
			{"local right", q, func(b *MWBind) { b.Access |= AccessLocalWrite }, keyAccess},
			{"zero-based region", q, func(b *MWBind) { b.MR, b.Addr = zeroBased, 0 }, keyType},
			{"before the region", q, func(b *MWBind) { b.Addr-- }, keyRange},
			{"too long", q, func(b *MWBind) { b.Length++ }, keyRange},
			{"wraps", q, func(b *MWBind) { b.Length = ^uint64(0) }, keyRange},
		} {
			b := good
			c.set(&b)
			before := mw.RKey()
			if got := mw.bind(c.q, &b); got != c.want {
				t.Errorf("type %d, %s: %v, want %v", typ, c.name, got, c.want)
			}
			if mw.RKey() != before || mw.bound.Load() != nil {
				t.Errorf("type %d, %s: the window changed", typ, c.name)
			}
		}
		d.must(mw.Dealloc())
		if got := mw.bind(q, &good); got != keyNotFound {
			t.Errorf("freed window: %v", got)
		}
		if err := mw.BindTo(q, &good); !errors.Is(err, ErrInvalid) {
			t.Errorf("freed window: %v", err)
		}
	}
	if mr.windows+readOnly.windows+unbindable.windows+zeroBased.windows != 0 {
		t.Error("a refused bind counts")
	}
	for _, b := range []*MWBind{nil, {}, {MW: d.mw(pd, MWType2)}} {
		if s := q.bindMW(b); s != WCMWBindErr {
			t.Errorf("%+v: %v", b, s)
		}
	}
}

func TestType1Window(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	q, q2 := d.qp(pd, QPRC), d.qp(pd, QPRC)
	stranger := d.qp(d.pd(), QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
	mw := d.mw(pd, MWType1)
	first := mw.RKey()
	if _, r := q.remoteAccess(q.pd, first, 0x1000, 1, AccessRemoteRead); r != keyState {
		t.Errorf("unbound: %v", r)
	}
	if got := mw.bind(q, &MWBind{MW: mw, MR: mr, Addr: 0x1000, Length: 1, Access: AccessZeroBased}); got != keyAccess {
		t.Errorf("zero-based type 1: %v", got) // o10-36.2.2
	}
	bind := MWBind{MW: mw, MR: mr, Addr: 0x1040, Length: 0x40, Access: AccessRemoteWrite}
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Fatal(s)
	}
	key := mw.RKey()
	if uint32(key) != nextVariant(uint32(first)) {
		t.Errorf("key %x after %x", key, first)
	}
	for _, c := range []struct {
		name  string
		q     *QP
		key   wire.RKey
		va, n uint64
		need  Access
		want  keyReason
	}{
		{"whole", q, key, 0x1040, 0x40, AccessRemoteWrite, keyOK},
		{"any QP of the domain", q2, key, 0x1040, 0x40, AccessRemoteWrite, keyOK},
		{"other domain", stranger, key, 0x1040, 1, AccessRemoteWrite, keyPD},
		{"old key", q, first, 0x1040, 1, AccessRemoteWrite, keyVariant},
		{"right of the region only", q, key, 0x1040, 1, AccessRemoteRead, keyAccess},
		{"range of the region only", q, key, 0x1000, 1, AccessRemoteWrite, keyRange},
	} {
		ref, r := c.q.remoteAccess(c.q.pd, c.key, c.va, c.n, c.need)
		if r != c.want || (r == keyOK && ref.va != 0x5040) {
			t.Errorf("%s: %v at %x, want %v", c.name, r, ref.va, c.want)
		}
		ref.release()
	}
	if s := q.localInvalidate(key); s != WCMWBindErr {
		t.Errorf("LOCAL INV of type 1: %v", s)
	}
	d.want(mr.Dereg(), ErrBusy, "mr")

	bind.RKey = first // a provider that counts variants itself
	if s := q.bindMW(&bind); s != WCSuccess || mw.RKey() != first {
		t.Errorf("%v, key %x, want %x", s, mw.RKey(), first)
	}
	if mr.windows != 1 {
		t.Errorf("%d windows after a rebind", mr.windows)
	}
	bind.RKey, bind.Length, bind.MR = 0, 0, nil
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Errorf("unbind: %v", s)
	}
	if _, r := q.remoteAccess(q.pd, mw.RKey(), 0x1040, 1, AccessRemoteWrite); r != keyState {
		t.Errorf("unbound: %v", r)
	}
	d.must(mr.Dereg())
}

func TestType2Window(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	q, q2 := d.qp(pd, QPRC), d.qp(pd, QPRC)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
	mw := d.mw(pd, MWType2)
	free := mw.RKey()
	bind := MWBind{MW: mw, MR: mr, RKey: 0xffffff42, Addr: 0x1040, Length: 0x40,
		Access: AccessRemoteRead | AccessZeroBased}
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Fatal(s)
	}
	key := mw.RKey()
	if key&0xff != 0x42 || key>>8 != free>>8 {
		t.Errorf("key %x", key)
	}
	if got := mw.bind(q, &bind); got != keyState {
		t.Errorf("bind of a bound window: %v", got) // o10-37.2.30
	}
	ref, r := q.remoteAccess(q.pd, key, 0x10, 0x30, AccessRemoteRead)
	if r != keyOK || ref.va != 0x5050 {
		t.Errorf("zero-based: %v at %x", r, ref.va)
	}
	ref.release()
	if _, r := q.remoteAccess(q.pd, key, 0x1040, 1, AccessRemoteRead); r != keyRange {
		t.Errorf("address of the region: %v", r)
	}
	if _, r := q2.remoteAccess(q2.pd, key, 0, 1, AccessRemoteRead); r != keyQP {
		t.Errorf("other QP: %v", r)
	}
	if !q.flushesRegion(key, AccessRemoteRead) || q2.flushesRegion(key, 0) {
		t.Error("flush of the window")
	}
	for _, c := range []struct {
		name string
		q    *QP
		key  wire.RKey
		want keyReason
	}{
		{"other QP", q2, key, keyQP},
		{"stale key", q, key ^ 1, keyVariant},
		{"region", q, mr.RKey(), keyType},
		{"nothing", q, 0, keyNotFound},
		{"its own", q, key, keyOK},
		{"again", q, key, keyState},
	} {
		if got := c.q.remoteInvalidate(c.key); got != c.want {
			t.Errorf("invalidate, %s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, r := q.remoteAccess(q.pd, key, 0, 1, AccessRemoteRead); r != keyState {
		t.Errorf("invalidated: %v", r)
	}
	bind.Length = 0
	if got := mw.bind(q, &bind); got != keyRange {
		t.Errorf("zero-length bind of type 2: %v", got) // o10-37.2.40
	}
	bind.Length = 1
	if s := q.bindMW(&bind); s != WCSuccess {
		t.Errorf("bind after invalidate: %v", s)
	}
	if s := q.localInvalidate(mw.RKey()); s != WCSuccess {
		t.Errorf("LOCAL INV: %v", s)
	}
	d.must(mr.Dereg())
	_, err := pd.AllocMW(3)
	d.want(err, ErrInvalid, "type")
}

// TestType2AWindow checks the difference between 2A and 2B. The QP of a 2A window
// cannot be destroyed while the window is bound. A 2B window stays bound, and gives
// no access to anyone.
func TestType2AWindow(t *testing.T) {
	for name, c := range map[string]struct {
		cap  DeviceCap
		ties bool
	}{
		"2A": {CapMemWindowType2A, true},
		"2B": {CapMemWindowType2B, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newObjDevWith(t, c.cap)
			pd := d.pd()
			q, other := d.qp(pd, QPRC), d.qp(pd, QPRC)
			mr := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
			mw := d.mw(pd, MWType2)
			bind := MWBind{MW: mw, MR: mr, Addr: 0x1000, Length: 8, Access: AccessRemoteRead}
			if s := q.bindMW(&bind); s != WCSuccess {
				t.Fatal(s)
			}
			key := mw.RKey()
			d.must(other.Destroy()) // it has none
			if c.ties {
				d.want(q.Destroy(), ErrBusy, "qp")
				if ref, r := q.remoteAccess(q.pd, key, 0x1000, 8, AccessRemoteRead); r != keyOK {
					t.Errorf("after the refusal: %v", r)
				} else {
					ref.release()
				}
				if s := q.localInvalidate(key); s != WCSuccess {
					t.Fatal(s)
				}
				d.must(q.Destroy())
				return
			}
			d.must(q.Destroy())
			if _, r := d.qp(pd, QPRC).remoteAccess(pd, key, 0x1000, 8, AccessRemoteRead); r != keyQP {
				t.Errorf("another QP of the domain: %v", r)
			}
			d.want(mr.Dereg(), ErrBusy, "mr")
			d.must(mw.Dealloc())
			d.must(mr.Dereg())
		})
	}
	// Close finds the order itself.
	d := newObjDevWith(t, CapMemWindowType2A)
	pd := d.pd()
	q, mw := d.qp(pd, QPRC), d.mw(pd, MWType2)
	mr := d.mr(pd, 0x5000, 0x100, 0x1000, objMRAccess)
	if s := q.bindMW(&MWBind{MW: mw, MR: mr, Addr: 0x1000, Length: 8, Access: AccessRemoteRead}); s != WCSuccess {
		t.Fatal(s)
	}
	d.must(d.Close())
	if left := d.Objects(); left != (ObjectCounts{}) {
		t.Errorf("left behind: %+v", left)
	}
	limits := DefaultLimits()
	limits.Cap |= CapMemWindowType2A | CapMemWindowType2B
	_, err := New(Config{Link: new(objLink), Clock: objClock{}, Limits: &limits})
	d.want(err, ErrInvalid, "limits")
}

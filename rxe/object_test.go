package rxe

import (
	"errors"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// objLink drops every packet and notes which groups were joined.
type objLink struct {
	mu     sync.Mutex
	joined map[wire.GID]int
	refuse error // what Join answers
}

func (l *objLink) Send([]wire.Burst) {}

func (l *objLink) Join(g wire.GID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	if l.joined == nil {
		l.joined = make(map[wire.GID]int)
	}
	l.joined[g]++
	return nil
}

func (l *objLink) Leave(g wire.GID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined[g]--; l.joined[g] == 0 {
		delete(l.joined, g)
	}
	return nil
}

type objClock struct{}

func (objClock) Now() Time { return 1 }
func (objClock) Arm(Time)  {}

// objMem is an address space in which nothing is ever read or written.
type objMem struct{ Memory }

// objDev is a device with its events and objects.
type objDev struct {
	*Device
	t    *testing.T
	link *objLink

	mu     sync.Mutex
	events []Event
}

var (
	objSeed = [32]byte{1}
	objGID4 = wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	objGID6 = wire.GID{0: 0xfe, 1: 0x80, 15: 1}
	objPeer = wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}
	objMGID = wire.GID{10: 0xff, 11: 0xff, 12: 239, 15: 7}
)

func newObjDev(t *testing.T) *objDev { return newObjDevWith(t, CapMemWindowType2B) }

// newObjDevWith makes one with type 2 memory windows of one kind.
func newObjDevWith(t *testing.T, windows DeviceCap) *objDev {
	t.Helper()
	o := &objDev{t: t, link: new(objLink)}
	limits := DefaultLimits()
	limits.Cap = limits.Cap&^(CapMemWindowType2A|CapMemWindowType2B) | windows
	d, err := New(Config{Name: "rxe0", GUID: 7, Link: o.link, Clock: objClock{}, Seed: objSeed, Limits: &limits,
		OnEvent: func(e Event) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.events = append(o.events, e)
		}})
	o.must(err)
	o.Device = d
	o.must(d.SetGIDs([]wire.GID{objGID6, objGID4}))
	o.must(d.SetPort(PortActive, 1024))
	o.takeEvents()
	return o
}

func (o *objDev) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// want checks that err is of a kind and, with arg, names that argument.
func (o *objDev) want(err, kind error, arg string) {
	o.t.Helper()
	wantErr(o.t, err, kind, arg)
}

func wantErr(t *testing.T, err, kind error, arg string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
		return
	}
	var op *OpError
	if arg != "" && (!errors.As(err, &op) || op.Arg != arg) {
		t.Errorf("error %q does not name %q", err, arg)
	}
}

func (o *objDev) takeEvents() []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.events
	o.events = nil
	return e
}

func (o *objDev) wantEvent(e Event) {
	o.t.Helper()
	if got := o.takeEvents(); len(got) != 1 || got[0] != e {
		o.t.Errorf("events %v, want %v once", got, e.Type)
	}
}

func (o *objDev) wantNoEvent() {
	o.t.Helper()
	if got := o.takeEvents(); len(got) != 0 {
		o.t.Errorf("events %v, want none", got)
	}
}

func (o *objDev) pd() *PD {
	o.t.Helper()
	pd, err := o.AllocPD()
	o.must(err)
	return pd
}

func (o *objDev) cq(n int) *CQ {
	o.t.Helper()
	cq, err := o.CreateCQ(CQInit{Entries: n})
	o.must(err)
	return cq
}

func (o *objDev) qp(pd *PD, typ QPType) *QP {
	o.t.Helper()
	if typ == QPXRCTgt {
		x, err := o.Whole().OpenXRCD(XRCDInit{})
		o.must(err)
		q, err := o.Whole().CreateTarget(x, QPInitAttr{})
		o.must(err)
		return q
	}
	cq := o.cq(16)
	q, err := pd.CreateQP(QPInitAttr{Type: typ, SendCQ: cq, RecvCQ: cq,
		Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2}})
	o.must(err)
	return q
}

func (o *objDev) mr(pd *PD, addr, length, iova uint64, access Access) *MR {
	o.t.Helper()
	mr, err := pd.RegMR(&objMem{}, addr, length, iova, access)
	o.must(err)
	return mr
}

func (o *objDev) mw(pd *PD, typ MWType) *MW {
	o.t.Helper()
	mw, err := pd.AllocMW(typ)
	o.must(err)
	return mw
}

// objAttr has a valid value for every attribute.
func objAttr() QPAttr {
	return QPAttr{
		PathMTU: 1024, QKey: 0x11111111, RQPSN: 0xfffffe, SQPSN: 0x123456, DestQPN: 0x4711,
		Access:  AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic,
		AH:      AHAttr{DGID: objPeer, SGIDIndex: 1, PortNum: 1, TrafficClass: 32, FlowLabel: 5},
		PortNum: 1, MaxRdAtomic: 3, MaxDestRdAtomic: 5, MinRNRTimer: 12,
		Timeout: 14, RetryCnt: 7, RNRRetry: 6,
	}
}

// step takes q through one transition, with exactly the required attributes.
func (o *objDev) step(q *QP, to QPState) {
	o.t.Helper()
	set, ok := attrsFor(q.typ, q.State(), to)
	if !ok {
		o.t.Fatalf("no transition %v to %v", q.State(), to)
	}
	a := objAttr()
	a.State = to
	o.must(q.Modify(&a, set.required|QPAttrState))
}

// reach brings a fresh QP into a state.
func (o *objDev) reach(q *QP, state QPState) {
	o.t.Helper()
	path := map[QPState][]QPState{
		QPReset: {},
		QPInit:  {QPInit},
		QPRTR:   {QPInit, QPRTR},
		QPRTS:   {QPInit, QPRTR, QPRTS},
		QPSQD:   {QPInit, QPRTR, QPRTS, QPSQD},
		QPSQE:   {QPInit, QPRTR, QPRTS},
		QPErr:   {QPInit, QPErr},
	}
	for _, s := range path[state] {
		o.step(q, s)
	}
	if state == QPSQE { // only a failed send leads there
		q.lock()
		q.attr.State = QPSQE
		q.unlock(nil)
	}
	o.takeEvents()
}

func TestDeviceConfig(t *testing.T) {
	_, err := New(Config{Clock: objClock{}})
	wantErr(t, err, ErrInvalid, "link")
	_, err = New(Config{Link: new(objLink)})
	wantErr(t, err, ErrInvalid, "clock")
	d := newObjDev(t)
	if d.Name() != "rxe0" || d.GUID() != 7 || d.Attr().NodeGUID != 7 || d.Attr().MaxSGE != 32 {
		t.Errorf("device is %q %x %+v", d.Name(), d.GUID(), d.Attr())
	}
}

func TestNumbersAreDrawnAtRandom(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	var qpns, keys []uint32
	for range 8 {
		qpns = append(qpns, uint32(d.qp(pd, QPRC).Num()))
		keys = append(keys, uint32(d.mr(pd, 0, 1, 0, 0).RKey())>>8)
	}
	for _, s := range [][]uint32{qpns, keys} {
		for i := 1; i < len(s); i++ {
			if s[i]-s[i-1]+2 < 5 {
				t.Errorf("%x follows %x", s[i], s[i-1])
			}
		}
	}
}

func TestSeedReplays(t *testing.T) {
	a, b := newObjDev(t), newObjDev(t)
	if x, y := a.qp(a.pd(), QPRC).Num(), b.qp(b.pd(), QPRC).Num(); x != y {
		t.Errorf("QPNs %x and %x from one seed", x, y)
	}
}

// TestBusy checks which object keeps which from being freed, and in which order all
// can be freed.
func TestBusy(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	mr := d.mr(pd, 0, 100, 0, AccessLocalWrite|AccessMWBind)
	mw := d.mw(pd, MWType2)
	ah, err := pd.CreateAH(objAttr().AH)
	d.must(err)
	srq, err := pd.CreateSRQ(SRQInit{MaxWR: 1})
	d.must(err)
	cq := d.cq(1)
	q, err := pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	d.must(err)
	if s := q.bindMW(&MWBind{MW: mw, RKey: 9, MR: mr, Length: 10}); s != WCSuccess {
		t.Fatal(s)
	}

	objects := []struct {
		name string
		free func() error
		busy bool
	}{
		{"pd", pd.Dealloc, true},
		{"cq", cq.Destroy, true},
		{"srq", srq.Destroy, true},
		{"mr", mr.Dereg, true},
		{"qp", q.Destroy, false},
		{"mw", mw.Dealloc, false},
		{"ah", ah.Destroy, false},
	}
	for _, o := range objects {
		if o.busy {
			if err := o.free(); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: %v, want busy", o.name, err)
			}
		}
	}
	for i := len(objects) - 1; i >= 0; i-- {
		if err := objects[i].free(); err != nil {
			t.Errorf("%s: %v", objects[i].name, err)
		}
		if err := objects[i].free(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s freed twice: %v", objects[i].name, err)
		}
	}
	if n := d.Objects(); n != (ObjectCounts{}) {
		t.Errorf("left: %+v", n)
	}
	if pd.children != 0 || cq.users != 0 || srq.users != 0 || mr.windows != 0 {
		t.Error("a use is left")
	}
}

func TestCloseFreesAll(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	mr := d.mr(pd, 0, 100, 0, AccessLocalWrite|AccessMWBind)
	mw := d.mw(pd, MWType1)
	q := d.qp(pd, QPUD)
	d.reach(q, QPRTS)
	d.must(q.AttachMcast(objMGID, 0))
	_, err := pd.CreateAH(objAttr().AH)
	d.must(err)
	_, err = pd.CreateSRQ(SRQInit{MaxWR: 1})
	d.must(err)
	if s := q.bindMW(&MWBind{MW: mw, MR: mr, Length: 10}); s != WCSuccess {
		t.Fatal(s)
	}
	d.must(d.Close())
	d.must(d.Close())
	if n := d.Objects(); n != (ObjectCounts{}) {
		t.Errorf("left: %+v", n)
	}
	if len(d.link.joined) != 0 {
		t.Errorf("still joined: %v", d.link.joined)
	}
	for name, err := range map[string]error{
		"qp": q.Destroy(), "mr": mr.Dereg(), "mw": mw.Dealloc(), "pd": pd.Dealloc(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if _, err := d.AllocPD(); !errors.Is(err, ErrClosed) {
		t.Errorf("AllocPD after Close: %v", err)
	}
}

func TestLimits(t *testing.T) {
	limits := DefaultLimits()
	limits.MaxPD, limits.MaxCQ, limits.MaxMR, limits.MaxMW = 1, 1, 1, 1
	limits.MaxAH, limits.MaxSRQ, limits.MaxQP = 1, 1, 1
	dev, err := New(Config{Link: new(objLink), Clock: objClock{}, Limits: &limits})
	if err != nil {
		t.Fatal(err)
	}
	d := &objDev{Device: dev, t: t}
	d.must(d.SetGIDs([]wire.GID{objGID6, objGID4}))
	pd, cq := d.pd(), d.cq(1)
	for name, create := range map[string]func() error{
		"pd":  func() error { _, err := d.AllocPD(); return err },
		"cq":  func() error { _, err := d.CreateCQ(CQInit{Entries: 1}); return err },
		"mr":  func() error { _, err := pd.RegMR(&objMem{}, 0, 1, 0, 0); return err },
		"mw":  func() error { _, err := pd.AllocMW(MWType1); return err },
		"ah":  func() error { _, err := pd.CreateAH(objAttr().AH); return err },
		"srq": func() error { _, err := pd.CreateSRQ(SRQInit{MaxWR: 1}); return err },
		"qp": func() error {
			_, err := pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq})
			return err
		},
	} {
		if name != "pd" && name != "cq" {
			if err := create(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := create(); !errors.Is(err, ErrLimit) {
			t.Errorf("second %s: %v, want limit", name, err)
		}
	}
}

func TestCountersHaveTheirNames(t *testing.T) {
	d := newObjDev(t)
	d.counters.LinkDowned.Add(3)
	d.counters.BadResponse.Add(4)
	all, hw := d.Counters(), d.HWCounters()
	seen := make(map[string]uint64)
	for _, c := range all {
		if _, dup := seen[c.Name]; dup || c.Name == "" {
			t.Errorf("counter %q twice or without a name", c.Name)
		}
		seen[c.Name] = c.Value
	}
	if seen["link_downed"] != 3 || seen["drop_bad_response"] != 4 {
		t.Errorf("counters %v", seen)
	}
	if hw[0].Name != "sent_pkts" || hw[14].Name != "rdma_recvs" || hw[len(hw)-1].Name != "rp_cnp_ignored" {
		t.Errorf("hw counters %v", hw)
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{WCSuccess.String(), "success"},
		{WCMWBindErr.String(), "memory management operation error"},
		{WCGeneralErr.String(), "general error"},
		{WCStatus(22).String(), "unknown"},
		{PortActive.String(), "active"},
		{PortState(6).String(), "unknown"},
		{EventGIDChange.String(), "GID table change"},
		{EventType(19).String(), "unknown"},
		{EventDeviceSpeedChange.String(), "Device link speed change"},
		{EventType(19).String(), "unknown"},
		{NodeCA.String(), "InfiniBand channel adapter"},
		{NodeType(0).String(), "unknown"},
		{QPRC.String(), "RC"},
		{QPSQE.String(), "SQE"},
		{QPState(7).String(), "UNKNOWN"},
		{WRAtomicWrite.String(), "ATOMIC_WRITE"},
		{WROpcode(10).String(), "UNKNOWN"},
		{WCRecvImm.String(), "RECV_RDMA_WITH_IMM"},
		{WCOpcode(100).String(), "UNKNOWN"},
		{keyQP.String(), "window bound on another QP"},
		{keyReason(200).String(), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

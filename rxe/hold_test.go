package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// TestHolds: each reason for the requester to wait, what it counts, and what ends it.
func TestHolds(t *testing.T) {
	write := []SendWR{{ID: 1, Op: WRWrite, RemoteAddr: 4096, SGL: []SGE{{Length: 8192}}}}
	read := []SendWR{{ID: 1, Op: WRRead, RemoteAddr: 4096, SGL: []SGE{{Length: 8}}}}
	fenced := []SendWR{read[0], {ID: 2, Op: WRWrite, Flags: SendFence, RemoteAddr: 4096, SGL: []SGE{{Length: 8}}}}
	local := []SendWR{read[0], {ID: 2, Op: WRLocalInv, InvRKey: 1}}
	refused := []SendWR{{ID: 1, Op: WRWrite, RemoteAddr: 4096, SGL: []SGE{{Length: 8, LKey: 1}}}}
	rows := make(map[hold]bool)
	for _, tt := range []struct {
		why   hold
		path  holdPath
		wrs   []SendWR
		cause func(q *QP, st *step)
		end   func(q *QP, st *step)
	}{
		{holdIdle, rcPath, nil, nil, nil},
		{holdState, rcPath, write, func(q *QP, _ *step) { q.attr.State = QPSQD }, func(q *QP, _ *step) { q.attr.State = QPRTS }},
		{holdRNR, rcPath, write, func(q *QP, _ *step) { q.send.rnrUntil = 1 }, func(q *QP, _ *step) { q.send.rnrUntil = 0 }},
		{holdPause, rcPath, write, func(q *QP, _ *step) { q.send.pausedUntil = 1 }, func(q *QP, _ *step) { q.send.pausedUntil = 0 }},
		{holdRate, rcPath, write, func(q *QP, st *step) {
			q.rate.notified(&q.dev.ecn, bytesPerMbps, st.now)
			q.rate.credit = -second << 10
		}, func(q *QP, _ *step) { q.rate, q.send.pausedUntil = reaction{}, 0 }},
		{holdAdmission, rcPath, write, func(q *QP, _ *step) { q.dev.admission.active = q.dev.admission.limit },
			func(q *QP, _ *step) { q.dev.admission.expire(q.dev, admissionDelay+second1) }},
		{holdYield, ucLocal, write, func(_ *QP, st *step) { st.sinceYield = yieldBytes }, func(_ *QP, st *step) { st.sinceYield = 0 }},
		{holdPeer, ucLocal, write, func(q *QP, _ *step) { q.dev.lookupQP(q.attr.DestQPN).gate.queuedBytes.Store(ucPauseBytes) },
			func(q *QP, _ *step) {
				q.dev.lookupQP(q.attr.DestQPN).gate.queuedBytes.Store(0)
				q.send.pausedUntil = 0
			}},
		{holdQuantum, ucRemote, write, func(q *QP, _ *step) { q.req.quantumSent = ucQuantum }, func(q *QP, _ *step) { q.send.pausedUntil = 0 }},
		{holdInbox, ucRemote, write, func(q *QP, _ *step) { q.gate.queuedBytes.Store(ucPauseBytes) },
			func(q *QP, _ *step) { q.gate.queuedBytes.Store(0) }},
		{holdWindow, rcPath, write, func(q *QP, _ *step) { q.send.window = 0 }, func(q *QP, _ *step) { q.send.window = 8 }},
		{holdReads, rcPath, read, func(q *QP, _ *step) { q.send.reads.n = int(q.attr.MaxRdAtomic) }, func(q *QP, _ *step) { q.send.reads.n = 0 }},
		{holdFence, rcPath, fenced, nil, func(q *QP, _ *step) { q.send.reads.n = 0 }},
		{holdDrain, rcPath, local, nil, nil},
		{holdFailed, rcPath, refused, nil, nil},
	} {
		rows[tt.why] = true
		t.Run("reason "+holdNames[tt.why], func(t *testing.T) {
			q, lkey, rkey := tt.path.open(t)
			st := q.dev.newStep()
			q.lock()
			wrs := append([]SendWR(nil), tt.wrs...)
			for i := range wrs {
				if wrs[i].RKey = rkey; len(wrs[i].SGL) > 0 && wrs[i].SGL[0].LKey == 0 {
					wrs[i].SGL = []SGE{{Length: wrs[i].SGL[0].Length, LKey: lkey}}
				}
			}
			_, err := q.postSend(wrs)
			must.OK(t, err)
			if tt.cause != nil {
				tt.cause(q, st)
			}
			waits := func() (n uint64) {
				for i := range q.tallies.stats.Waits {
					n += q.tallies.stats.Waits[i].Load()
				}
				return n
			}
			before := q.send
			first := q.mayGoOn(st)
			if q.send.cur != before.cur || q.send.psn != before.psn || q.send.pausedUntil != before.pausedUntil || waits() != 0 {
				t.Errorf("mayGoOn has changed something")
			}
			if early := tt.why < holdWindow && tt.why != holdFailed; early && first != tt.why {
				t.Errorf("mayGoOn returned %d, want %d", first, tt.why)
			}
			q.runRequester(st)
			want, counted := uint64(0), uint64(0)
			if tt.why >= holdRNR {
				want, counted = 1, q.tallies.stats.Waits.of(tt.why).Load()
			}
			if counted != want || waits() != want {
				t.Errorf("counted %d times, and all reasons %d times, want %d", counted, waits(), want)
			}
			if tt.end != nil {
				at := q.send.cur
				tt.end(q, st)
				if q.runRequester(st); q.send.cur == at && q.send.psn == before.psn {
					t.Error("the requester does not go on")
				}
			}
			q.unlock(st)
			st.done()
		})
	}
	for why := holdIdle; why < numHolds; why++ {
		if !rows[why] {
			t.Errorf("reason %d (%s) has no row", why, holdNames[why])
		}
	}
}

// holdPath is a queue pair that waits, and where its peer is.
type holdPath uint8

const (
	rcPath   holdPath = iota // RC, to another device
	ucRemote                 // UC, to another device
	ucLocal                  // UC, on one device
)

// open returns a queue pair of such a path, and the keys of its own and its peer's memory.
func (h holdPath) open(t *testing.T) (*QP, wire.LKey, wire.RKey) {
	t.Helper()
	p := newPair(t, 1, 1<<20, 4096)
	if h == rcPath {
		return p.a.qps[0], p.a.mr.LKey(), p.b.mr.RKey()
	}
	end := p.b
	if h == ucLocal {
		end = p.a
	}
	q, peer := newUC(t, p.a), newUC(t, end)
	connectUC(t, q, peer, end.gid)
	connectUC(t, peer, q, p.a.gid)
	return q, p.a.mr.LKey(), end.mr.RKey()
}

// second1 is far behind every deadline of TestHolds.
const second1 = Time(second)

// TestHoldCounters: QP.Counters has each reason by name.
func TestHoldCounters(t *testing.T) {
	p := newPair(t, 1, 1<<20, 4096)
	q := p.a.qps[0]
	q.tallies.stats.Waits.of(holdWindow).Add(7)
	got := map[string]uint64{}
	for _, c := range q.Counters() {
		got[c.Name] = c.Value
	}
	for why, name := range holdNames {
		if counted := hold(why) >= holdRNR; counted != (name != "") {
			t.Errorf("reason %d has the name %q, and is counted: %t", why, name, counted)
		}
		if name == "" {
			continue
		}
		want := uint64(0)
		if hold(why) == holdWindow {
			want = 7
		}
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: %d, %t, want %d", name, n, ok, want)
		}
	}
}

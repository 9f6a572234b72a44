package sanitize

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// ram is the memory of a program. It begins at address 0.
type ram []byte

func (m ram) ReadV(spans []rxe.Span) error {
	for _, s := range spans {
		if s.VA+uint64(len(s.Buf)) > uint64(len(m)) {
			return errors.New("not mapped")
		}
		copy(s.Buf, m[s.VA:])
	}
	return nil
}
func (ram) WriteV([]rxe.Span) error                            { return nil }
func (ram) CompareSwap(_, _, _ uint64) (old uint64, err error) { return 0, nil }
func (ram) FetchAdd(_, _ uint64) (old uint64, err error)       { return 0, nil }
func (ram) Store(_, _ uint64) error                            { return nil }

const (
	key   = 0x1100 // of all memory
	depth = 4
)

// rig is a program with a region, a completion queue and a queue pair.
type rig struct {
	*File
	memory  ram
	qp      *rxe.QP
	waiting int
}

func newRig(t testing.TB, checks string) *rig {
	t.Helper()
	selected, err := ParseSelection(checks)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	s := New(selected, func() time.Time { clock = clock.Add(time.Millisecond); return clock })
	r := &rig{File: s.Open(7, "program", "rxe0"), memory: make(ram, 1<<20), qp: new(rxe.QP)}
	r.Made("mr", Made{Kind: kindMR, Number: key, Region: &Region{Length: uint64(len(r.memory)), Memory: r.memory}}, at(1))
	r.Made("cq", Made{Kind: "completion queue", CQ: &CQ{Entries: func() int { return 3 }, Waiting: func() int { return r.waiting }}}, at(2))
	r.Made("qp", Made{Kind: kindQP, QP: &QP{QP: r.qp, SendCQ: "cq", Depth: depth}}, at(3))
	return r
}

func at(pc uint64) *Stack { return &Stack{PC: pc, Maps: -1} }

// remote is how far the peer's memory is behind the program's own.
const remote = 1 << 19

// post posts a work request on n bytes at va, and on as many of the peer.
func (r *rig) post(op rxe.WROpcode, va uint64, n uint32, flags rxe.SendFlags) {
	r.Posting(r.qp, at(4))
	r.Posted(r.qp, rxe.SendWR{ID: 9, Op: op, Flags: flags, SGL: []rxe.SGE{{Addr: va, Length: n, LKey: key}}, RKey: key, RemoteAddr: va + remote})
}

func (r *rig) complete(pushed bool) {
	r.Completed(r.qp, rxe.WC{ID: 9, Status: rxe.WCSuccess}, pushed)
}

// BenchmarkRequest: what a request costs with each group of checks.
func BenchmarkRequest(b *testing.B) {
	for _, checks := range append(groups(), Default, "all") {
		for _, n := range []uint32{64, 1 << 16} {
			b.Run(fmt.Sprintf("%s/%d", checks, n), func(b *testing.B) {
				r := newRig(b, checks)
				for b.Loop() {
					r.post(rxe.WRWrite, 64, n, rxe.SendSignaled)
					r.complete(true)
				}
			})
		}
	}
}

// two returns the program with another queue pair.
func (r *rig) two() *rig {
	other := *r
	other.qp = new(rxe.QP)
	r.Made("qp2", Made{Kind: kindQP, QP: &QP{QP: other.qp, Depth: depth}}, at(3))
	return &other
}

// connect connects the queue pair to itself: its number is 0.
func (r *rig) connect(sq, rq wire.PSN) {
	r.Modified(r.qp, &rxe.QPAttr{RQPSN: rq, MaxDestRdAtomic: 1}, rxe.QPAttrDestQPN|rxe.QPAttrRQPSN|rxe.QPAttrMaxDestRdAtomic, at(5))
	r.Modified(r.qp, &rxe.QPAttr{SQPSN: sq, MaxRdAtomic: 2}, rxe.QPAttrSQPSN|rxe.QPAttrMaxRdAtomic, at(5))
}

// TestReconnected: two queue pairs are reset and connected again, one after the other. The first
// one posts before the second one is reset. Its packets wait for that, so nothing is wrong yet.
func TestReconnected(t *testing.T) {
	r := newRig(t, psnMismatch)
	var qps [2]*rxe.QP
	for i := range qps {
		qps[i] = new(rxe.QP)
		r.Made(i, Made{Kind: kindQP, Number: uint32(i + 1), QP: &QP{QP: qps[i], Depth: depth}}, at(3))
	}
	connect := func(i int, psn wire.PSN) {
		r.Modified(qps[i], &rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState, at(5))
		r.Modified(qps[i], &rxe.QPAttr{DestQPN: wire.QPN(2 - i), RQPSN: psn}, rxe.QPAttrDestQPN|rxe.QPAttrRQPSN, at(5))
		r.Modified(qps[i], &rxe.QPAttr{SQPSN: psn}, rxe.QPAttrSQPSN, at(5))
	}
	first := *r
	first.qp = qps[0]
	for _, c := range []struct {
		qp   int
		psn  wire.PSN
		want int // findings
	}{{0, 5, 0}, {1, 5, 0}, {0, 9, 0}, {1, 8, 1}} {
		connect(c.qp, c.psn)
		first.post(rxe.WRSend, 64, 8, 0)
		if found := r.found(); len(found) != c.want {
			t.Errorf("queue pair %d connected with PSN %d: found %q", c.qp, c.psn, found)
		}
	}
}

// found returns the names of what was found.
func (r *rig) found() (names []string) {
	for _, f := range r.s.Report().Findings {
		names = append(names, f.Check)
	}
	return names
}

// TestFound: what a program does, and what is found.
func TestFound(t *testing.T) {
	fails := func(f rxe.Failure) func(*rig) {
		return func(r *rig) { r.Failed(r.qp, &f) }
	}
	badKey := func(cause rxe.Cause, why string) func(*rig) {
		return fails(rxe.Failure{Cause: cause, Key: rxe.KeyRefusal{Key: key, Addr: 1 << 20, Length: 8, Why: why, Need: rxe.AccessRemoteWrite}})
	}
	unknown := func(r *rig) {
		r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRemoteKey, Key: rxe.KeyRefusal{Key: key, Length: 8, Why: "no such key"}})
	}
	for _, c := range []struct {
		name string
		do   func(*rig)
		want []string
	}{
		{"nothing", func(*rig) {}, nil},
		{"event", func(r *rig) { r.Unacknowledged("cq", 1, at(9)); r.Unacknowledged("none", 1, at(9)) }, []string{eventsUnacknowledged}},
		{"unchanged", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.memory[72] = 1; r.complete(false) }, nil},
		{"changed", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.memory[71] = 1; r.complete(false) }, []string{sendBufferChanged}},
		{"long, changed at its end", func(r *rig) { r.post(rxe.WRWrite, 0, 1<<20, 0); r.memory[1<<20-1] = 1; r.complete(false) }, []string{sendBufferChanged}},
		{"inline", func(r *rig) { r.post(rxe.WRSend, 64, 8, rxe.SendInline); r.memory[64] = 1; r.complete(false) }, nil},
		{"changed by READ", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.memory[64] = 1; r.complete(false) }, nil},
		{"changed by the device", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.Accessed(r.qp, key, 70, 100, rxe.AccessLocalWrite)
			r.memory[71] = 1
			r.complete(false)
		}, nil},
		{"changed by the device, which began before", func(r *rig) {
			r.Accessed(r.qp, key, 0, 65, rxe.AccessRemoteWrite)
			r.post(rxe.WRSend, 64, 8, 0)
			r.memory[64] = 1
			r.complete(false)
		}, nil},
		{"changed after an error", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.memory[64] = 1
			r.Completed(r.qp, rxe.WC{Status: rxe.WCRetryExcErr}, true)
		}, nil},
		{"receives complete no request", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv}, true)
			r.Ended("qp", at(5))
		}, []string{destroyedWhilePosted}},
		{"changed after an answer of a peer in another run", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv}, true)
			r.memory[64] = 1
			r.complete(false)
		}, nil},
		{"changed before an answer", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.memory[64] = 1
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv}, true)
		}, []string{sendBufferChanged}},
		{"changed after it has arrived", func(r *rig) {
			r.connect(1, 1)
			r.post(rxe.WRWrite, 0, 8, 0)
			r.post(rxe.WRSend, 64, 8, 0)
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv}, true)
			r.memory[0], r.memory[64] = 1, 1
			r.complete(false)
			r.complete(false)
		}, nil},
		{"changed before it has arrived", func(r *rig) {
			r.connect(1, 1)
			for _, va := range []uint64{0, 64} {
				r.post(rxe.WRSend, va, 8, 0)
			}
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv}, true)
			r.memory[64] = 1
			r.complete(false)
			r.complete(false)
		}, []string{sendBufferChanged}},
		{"changed after a message that failed to arrive", func(r *rig) {
			r.connect(1, 1)
			r.post(rxe.WRSend, 64, 8, 0)
			r.Completed(r.qp, rxe.WC{Opcode: rxe.WCRecv, Status: rxe.WCLocLenErr}, true)
			r.memory[64] = 1
			r.complete(false)
		}, []string{sendBufferChanged}},
		{"unsignaled", func(r *rig) {
			for range depth {
				r.post(rxe.WRSend, 64, 8, 0)
				r.complete(false)
			}
		}, nil},
		{"none signaled", func(r *rig) {
			for range depth + 1 {
				r.post(rxe.WRSend, 64, 8, 0)
				r.complete(false)
			}
		}, []string{noSignal}},
		{"one signaled", func(r *rig) {
			for i := range 4 * depth {
				flags := rxe.SendFlags(0)
				if i%depth == 0 {
					flags = rxe.SendSignaled
				}
				r.post(rxe.WRSend, 64, 8, flags)
				r.complete(flags != 0)
			}
		}, nil},
		{"queue full", func(r *rig) { r.waiting = 2; r.post(rxe.WRSend, 64, 8, rxe.SendSignaled) }, nil},
		{"queue too small", func(r *rig) { r.waiting = 3; r.post(rxe.WRSend, 64, 8, rxe.SendSignaled) }, []string{cqTooSmall}},
		{"freed", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.complete(false); r.Ended("mr", at(5)) }, nil},
		{"freed while posted", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.Ended("mr", at(5)) }, []string{freedWhilePosted}},
		{"destroyed", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.complete(false); r.Ended("qp", at(5)) }, nil},
		{"destroyed while posted", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.Ended("qp", at(5)) }, []string{destroyedWhilePosted}},
		{"destroyed after ERR", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.Modified(r.qp, &rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState, at(5))
			r.Ended("qp", at(5))
		}, nil},
		{"sent from the target of a READ", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRSend, 71, 8, 0) }, []string{readEarly}},
		{"sent from beside the target of a READ", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRSend, 72, 8, 0) }, nil},
		{"sent behind a fence", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRSend, 64, 8, rxe.SendFence) }, nil},
		{"sent inline", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRSend, 64, 8, rxe.SendInline) }, nil},
		{"sent after the READ", func(r *rig) {
			r.post(rxe.WRRead, 64, 8, rxe.SendSignaled)
			r.complete(true)
			r.post(rxe.WRSend, 64, 8, 0)
		}, nil},
		{"two READs", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRRead, 64, 8, 0) }, []string{overlappingReads}},
		{"WRITEs of one queue pair", func(r *rig) { r.post(rxe.WRWrite, 64, 8, 0); r.post(rxe.WRWrite, 64, 8, 0) }, nil},
		{"WRITEs of two queue pairs", func(r *rig) { r.post(rxe.WRWrite, 64, 8, 0); r.two().post(rxe.WRWrite, 71, 8, 0) }, []string{raceWrite}},
		{"WRITEs side by side", func(r *rig) { r.post(rxe.WRWrite, 64, 8, 0); r.two().post(rxe.WRWrite, 72, 8, 0) }, nil},
		{"a WRITE after another", func(r *rig) {
			r.post(rxe.WRWrite, 64, 8, rxe.SendSignaled)
			r.complete(true)
			r.two().post(rxe.WRWrite, 64, 8, 0)
		}, nil},
		{"a WRITE after a queue pair", func(r *rig) {
			r.post(rxe.WRWrite, 64, 8, 0)
			r.Modified(r.qp, &rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState, at(5))
			r.two().post(rxe.WRWrite, 64, 8, 0)
		}, nil},
		{"READs of two queue pairs", func(r *rig) { r.post(rxe.WRRead, 64, 8, 0); r.two().post(rxe.WRRead, 64, 8, 0) }, []string{overlappingReads}},
		{"a READ beside a WRITE", func(r *rig) { r.post(rxe.WRWrite, 64, 8, 0); r.two().post(rxe.WRRead, 64, 8, 0) }, []string{raceRead}},
		{"atomics", func(r *rig) {
			r.post(rxe.WRFetchAdd, 64, 8, rxe.SendSignaled)
			r.complete(true)
			r.two().post(rxe.WRFetchAdd, 64, 8, 0)
		}, nil},
		{"an atomic beside a WRITE", func(r *rig) { r.post(rxe.WRWrite, 64, 8, 0); r.two().post(rxe.WRCompareSwap, 64, 8, 0) }, []string{raceAtomic}},
		{"malformed", fails(rxe.Failure{Cause: rxe.CauseMalformed, Status: rxe.WCLocQPOpErr, Malformed: errors.New("no")}), []string{badRequest}},
		{"misaligned", fails(rxe.Failure{Cause: rxe.CauseMisaligned}), []string{badRequest}},
		{"a window", fails(rxe.Failure{Cause: rxe.CauseWindow, Status: rxe.WCMWBindErr}), []string{keyWindow}},
		{"a key that is not a window's", fails(rxe.Failure{Cause: rxe.CauseInvalidate}), []string{keyWindow}},
		{"a stale key of a window", func(r *rig) {
			r.Made("mw", Made{Kind: kindMW, Number: 0x1205}, at(5))
			r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRemoteKey, Key: rxe.KeyRefusal{Key: 0x1206, Length: 8, Why: "stale key"}})
		}, []string{keyWindow}},
		{"outside of a window", func(r *rig) {
			r.Made("mw", Made{Kind: kindMW, Number: 0x1205}, at(5))
			r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRemoteKey, Key: rxe.KeyRefusal{Key: 0x1206, Length: 8, Why: "outside the range"}})
		}, []string{keyWindow}},
		{"PSNs that fit", func(r *rig) { r.connect(5, 5); r.post(rxe.WRWrite, 64, 8, 0) }, nil},
		{"PSNs that do not fit", func(r *rig) { r.connect(5, 6); r.post(rxe.WRWrite, 64, 8, 0); r.post(rxe.WRWrite, 80, 8, 0) }, []string{psnMismatch}},
		{"READs for which the peer has room", func(r *rig) { r.connect(5, 5); r.post(rxe.WRRead, 64, 8, 0) }, nil},
		{"too many READs", func(r *rig) { r.connect(5, 5); r.post(rxe.WRRead, 64, 8, 0); r.post(rxe.WRRead, 80, 8, 0) }, []string{rdAtomic}},
		{"freed after inline", func(r *rig) { r.post(rxe.WRSend, 64, 8, rxe.SendInline); r.Ended("mr", at(5)) }, nil},
		{"freed after ERR", func(r *rig) {
			r.post(rxe.WRSend, 64, 8, 0)
			r.Modified(r.qp, &rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState, at(5))
			r.Ended("mr", at(5))
		}, nil},
		{"freed after the queue pair", func(r *rig) { r.post(rxe.WRSend, 64, 8, 0); r.Ended("qp", at(5)); r.Ended("mr", at(5)) }, []string{destroyedWhilePosted}},
		{"used after dereg", func(r *rig) { r.Ended("mr", at(5)); unknown(r) }, []string{useAfterDereg}},
		{"a key that never was", fails(rxe.Failure{Cause: rxe.CauseKey, Key: rxe.KeyRefusal{Key: 1, Length: 8, Why: "no such key"}}), []string{keyUnknown}},
		{"the rkey of a region without rights", fails(rxe.Failure{Cause: rxe.CauseRemoteKey, Key: rxe.KeyRefusal{Length: 8, Why: "no such key"}}), []string{keyUnknown}},
		{"a key that was a window's", func(r *rig) {
			r.Made("mw", Made{Kind: kindMW, Number: 1}, at(5))
			r.Ended("mw", at(5))
			r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseKey, Key: rxe.KeyRefusal{Key: 1, Length: 8, Why: "no such key"}})
		}, nil},
		{"window not bound", badKey(rxe.CauseRemoteKey, "window not bound"), []string{keyWindow}},
		{"domain", badKey(rxe.CauseRemoteKey, "wrong protection domain"), []string{keyDomain}},
		{"right", badKey(rxe.CauseRemoteKey, "right not granted"), []string{keyRight}},
		{"range", badKey(rxe.CauseKey, "outside the range"), []string{keyRange}},
		{"the peer's host is silent", fails(rxe.Failure{Cause: rxe.CauseTimeout, Status: rxe.WCRetryExcErr}), nil},
		{"on purpose", fails(rxe.Failure{Cause: rxe.CauseRule, Status: rxe.WCLocProtErr}), nil},
		{"settings", func(r *rig) {
			r.Modified(r.qp, &rxe.QPAttr{}, rxe.QPAttrTimeout|rxe.QPAttrRetryCnt|rxe.QPAttrRNRRetry, at(5))
		}, []string{timeoutZero, retryZero, rnrRetryZero}},
		{"the longest RNR timer", func(r *rig) { r.Modified(r.qp, &rxe.QPAttr{}, rxe.QPAttrMinRNRTimer, at(5)) }, []string{rnrTimerZero}},
		{"another RNR timer", func(r *rig) { r.Modified(r.qp, &rxe.QPAttr{MinRNRTimer: 1}, rxe.QPAttrMinRNRTimer, at(5)) }, nil},
		{"the RNR timer of RDMA CM", func(r *rig) {
			r.s.Open(r.pid, "program", CMDevice)
			r.Modified(r.qp, &rxe.QPAttr{}, rxe.QPAttrMinRNRTimer, at(5))
		}, nil},
		{"a path within the link", func(r *rig) {
			r.Modified(r.qp, &rxe.QPAttr{AH: rxe.AHAttr{DGID: wire.GID{0: 0xfe, 1: 0x80, 15: 1}}}, rxe.QPAttrAV, at(5))
		}, []string{gidLinkLocal}},
		{"a path to an IPv4 address", func(r *rig) {
			r.Modified(r.qp, &rxe.QPAttr{AH: rxe.AHAttr{DGID: wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}}}, rxe.QPAttrAV, at(5))
		}, nil},
		{"an event of an SRQ that was not read", func(r *rig) {
			r.Made("srq", Made{Kind: "shared receive queue"}, at(5))
			r.Unread("srq", 1, at(6))
			r.Ended("srq", at(6))
		}, []string{eventIgnored}},
		{"other settings", func(r *rig) { r.Modified(r.qp, &rxe.QPAttr{}, rxe.QPAttrState, at(5)) }, nil},
		{"left", func(r *rig) { r.Ended("qp", at(5)); r.Ended("cq", at(5)); r.Close(false) }, []string{leak}},
		{"all left, as the device is gone", func(r *rig) { r.Close(true) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "all")
			c.do(r)
			if got := r.found(); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			if len(c.want) > 0 {
				off := newRig(t, "-"+strings.Join(c.want, ",-"))
				if c.do(off); len(off.found()) > 0 {
					t.Errorf("found %q, which is off", off.found())
				}
			}
		})
	}
}

// TestReport: a finding as text, with the region drawn.
func TestReport(t *testing.T) {
	r := newRig(t, "all")
	r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRemoteKey, Key: rxe.KeyRefusal{Key: key, Addr: 1<<20 - 5, Length: 8, Why: "outside the range"}})
	var b strings.Builder
	rep := r.s.Report()
	rep.Findings[0].Places[0].Lines = []Frame{{Function: "make", File: "main.c", Line: 88}}
	rep.Write(&b)
	const want = `==7== ERROR: key-range: a request of queue pair 0x0 to queue pair 0x0 names 8 bytes at 0xffffb of key 0x1100, which ends 3 bytes past the end of the region of 1048576 bytes
    in program, device rxe0
    the region was registered
      #0 main.c:88 in make
    region  ===========================================================   0x0 to 0x100000
    access                                                             #  0xffffb to 0x100003
    packet: PSN 0x000000
    see IBA 10.6.3, ibv_reg_mr(3); --sanitize=-key-range switches this check off
gorxe: sanitizer: 1 error, 0 warnings, 0 notes
`
	if b.String() != want {
		t.Errorf("the report is\n%s, want\n%s", b.String(), want)
	}
}

// TestBounds: however much a program does, a session keeps a bounded part of it, and says so.
func TestBounds(t *testing.T) {
	r := newRig(t, "all")
	for i := range 2 * maxObjects {
		r.Made(i, Made{Kind: "address handle"}, at(uint64(i)))
	}
	for range 2 * maxPosts {
		r.post(rxe.WRSend, 64, 8, rxe.SendSignaled)
	}
	if n := len(r.objects); n != maxObjects {
		t.Errorf("%d objects", n)
	}
	r.Close(false)
	rep := r.s.Report()
	if len(rep.Findings) != maxFindings || rep.LeftOut == 0 || rep.Unseen < 2*maxObjects-maxObjects+maxPosts {
		t.Errorf("%d findings, %d left out, %d unseen", len(rep.Findings), rep.LeftOut, rep.Unseen)
	}
	if r.s.objects != 0 || r.s.posts != 0 {
		t.Errorf("%d objects and %d requests are left of a closed device", r.s.objects, r.s.posts)
	}
	const heap, code = "1000-2000 rw-p 0 0:0 0 [heap]\n", "3000-4000 r-xp 0 0:0 0 /bin/x\n"
	for i := range 2 * maxMaps {
		if at := r.s.Maps(strings.Repeat(heap, i) + code); at != 0 || r.s.maps[at] != code {
			t.Fatalf("%d lists, %q", at+1, r.s.maps)
		}
	}
	for i := range 2 * maxMaps {
		r.s.Maps(strings.Repeat(code, i))
	}
	if n := len(r.s.maps); n != maxMaps {
		t.Errorf("%d lists of mappings", n)
	}
}

// TestKilled: a process that a signal ended is forgiven what it left.
func TestKilled(t *testing.T) {
	r := newRig(t, "all")
	r.Close(false)
	rep := r.s.Report()
	if rep.Count(Note) == 0 {
		t.Error("nothing was left")
	}
	if rep.Killed(7); rep.Count(Note) != 0 {
		t.Error("the process is not forgiven")
	}
}

var update = flag.Bool("update", false, "write the table of docs/sanitizer.md")

// TestTable: docs/sanitizer.md has all checks.
func TestTable(t *testing.T) {
	const page, head, foot = "../../../docs/sanitizer.md", "chooses a group:\n", "\nAn error breaks"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	_, after, ok2 := strings.Cut(rest, foot)
	if !ok || !ok2 {
		t.Fatal("the page has no list")
	}
	var b strings.Builder
	b.WriteString(before + head)
	group := ""
	for _, c := range checks {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "\n**%s**\n\n", group)
		}
		level := ""
		switch {
		case c.Off:
			level = " (" + string(c.Level) + ", off)"
		case c.Level != Error:
			level = " (" + string(c.Level) + ")"
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", c.Name, level, c.What)
	}
	b.WriteString(foot + after)
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(text) {
		t.Error("the list differs: go test ./internal/explain/sanitize -run TestTable -update")
	}
}

// TestSelection: the value of --sanitize.
func TestSelection(t *testing.T) {
	every, off := len(checks), 6
	for text, want := range map[string]int{
		"all": every, "": every - off, "default": every - off, "-leak": every - off - 1, "all,-races": every - 3, "races": 3, "all,-keys": every - 7, "leak": 1, "keys,-key-range": 6, "queues,rnr": 8,
	} {
		s, err := ParseSelection(text)
		n := 0
		for _, on := range s {
			if on {
				n++
			}
		}
		if err != nil || n != want {
			t.Errorf("%q: %d checks, %v; want %d", text, n, err, want)
		}
	}
	if _, err := ParseSelection("all,-rases"); err == nil || !strings.Contains(err.Error(), `"rases" is no check`) {
		t.Error(err)
	}
}

// TestSignaledUnseen: a signaled request counts as one, also if there is no room to watch it.
func TestSignaledUnseen(t *testing.T) {
	r := newRig(t, "all")
	for range depth {
		r.post(rxe.WRSend, 64, 8, 0)
	}
	r.s.posts += maxPosts // of others
	r.post(rxe.WRSend, 64, 8, rxe.SendSignaled)
	r.s.posts -= maxPosts
	for range depth {
		r.post(rxe.WRSend, 64, 8, 0)
	}
	if names := r.found(); slices.Contains(names, noSignal) {
		t.Errorf("found %v", names)
	}
}

// TestManyRequests: requests that there is no room to watch take no memory and no time, and those
// behind them are still told apart.
func TestManyRequests(t *testing.T) {
	const many = 8 * maxPosts
	r := newRig(t, "all")
	for range many {
		r.post(rxe.WRSend, 64, 8, rxe.SendSignaled)
	}
	o := r.byQP[r.qp]
	if n := len(o.posts); n != maxPosts+1 || o.underWay() != many {
		t.Fatalf("%d posts stand for %d requests", n, o.underWay())
	}
	for range many {
		r.complete(true)
	}
	if len(o.posts) != 0 || r.s.posts != 0 || r.objects["cq"].signaled != 0 {
		t.Fatalf("%d posts, %d counted, %d signaled are left", len(o.posts), r.s.posts, r.objects["cq"].signaled)
	}
	before := len(r.found())
	r.post(rxe.WRSend, 64, 8, 0)
	r.memory[64]++
	r.complete(false)
	if n := len(r.found()); n != before+1 {
		t.Errorf("%d findings, before %d: %v", n, before, r.found())
	}
	for range maxPosts + 1 {
		r.post(rxe.WRSend, 64, 8, rxe.SendSignaled)
	}
	r.Ended("qp", at(9))
	if names := r.found(); r.s.posts != 0 || !slices.Contains(names, destroyedWhilePosted) {
		t.Errorf("after the end %d are counted: %v", r.s.posts, names)
	}
}

// TestDatagram: a datagram has no peer, and what failed is no request of the send queue, whose
// wr_id may be the same.
func TestDatagram(t *testing.T) {
	for _, recv := range []bool{false, true} {
		r := newRig(t, "unmapped")
		r.post(rxe.WRSend, 0, 8, 0)
		f := rxe.Failure{Cause: rxe.CauseMemory, PeerQPN: 5, Recv: recv} // of nobody
		if recv {
			f.Status = rxe.WCLocProtErr
		}
		r.Failed(r.qp, &f)
		found := r.s.Report().Findings
		if len(found) != 1 || !strings.HasPrefix(found[0].What, "a datagram to queue pair") || len(found[0].Places) != 1 || found[0].Places[0].Stack.PC != at(3).PC {
			t.Errorf("%v: %+v", recv, found)
		}
	}
}

// TestChosenBy: of a process that uses RDMA CM, the finding names the parameter that is wrong.
func TestChosenBy(t *testing.T) {
	for _, cm := range []bool{false, true} {
		r := newRig(t, "rnr-retry-zero")
		if cm {
			r.s.Open(r.pid, "program", CMDevice)
		}
		r.Modified(r.qp, &rxe.QPAttr{}, rxe.QPAttrRNRRetry, at(5))
		found := r.s.Report().Findings
		if len(found) != 1 || strings.Contains(found[0].What, "its peer's rdma_accept") != cm {
			t.Errorf("RDMA CM: %v: %+v", cm, found)
		}
	}
}

// TestKept: what is left because its destruction failed says so, with the call.
func TestKept(t *testing.T) {
	r := newRig(t, "leak")
	r.Kept("cq", at(9))
	r.Kept("none", at(9))
	r.Left("cq")
	r.Left("mr")
	found := r.s.Report().Findings
	if len(found) != 2 || !strings.Contains(found[0].What, "EBUSY") || len(found[0].Places) != 2 || found[0].Places[1].Stack.PC != at(9).PC {
		t.Errorf("%+v", found)
	}
	if len(found) == 2 && (strings.Contains(found[1].What, "EBUSY") || len(found[1].Places) != 1) {
		t.Errorf("%+v", found[1])
	}
}

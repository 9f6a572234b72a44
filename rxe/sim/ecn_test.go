package sim

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestCongestion streams over a network that carries 1 GB/s, and marks a tenth of the packets for
// a while. CNPs go back, the rate falls, and it rises again when the marks end. The virtual clock
// makes that the same in each run.
func TestCongestion(t *testing.T) {
	for _, op := range []rxe.WROpcode{rxe.WRWrite, rxe.WRRead} {
		t.Run(op.String(), func(t *testing.T) {
			s := newStream(t, op, nil)
			before := s.rate(10 * time.Millisecond)
			s.net.SetFaults(simnet.Config{Mark: 0.1})
			s.rate(5 * time.Millisecond)
			during := s.rate(10 * time.Millisecond)
			s.net.SetFaults(simnet.Config{})
			s.rate(80 * time.Millisecond)
			after := s.rate(10 * time.Millisecond)
			marked, sent, handled := s.both("np_ecn_marked_roce_packets"), s.both("np_cnp_sent"), s.both("rp_cnp_handled")
			t.Logf("%d MB/s, then %d with %d marks and %d CNPs, then %d", before/1e6, during/1e6, marked, sent, after/1e6)
			if during > before/3 || during < before/100 {
				t.Errorf("%d bytes a second before, and %d with marks", before, during)
			}
			if after < before*99/100 {
				t.Errorf("%d bytes a second before, and %d after", before, after)
			}
			if sent == 0 || sent > marked || sent > 2*15_000/50+2 {
				t.Errorf("%d CNPs for %d marked packets in 15 ms", sent, marked)
			}
			if handled != sent {
				t.Errorf("of %d CNPs, %d were handled", sent, handled)
			}
			if s.both("duplicate_request") != 0 {
				t.Error("packets were sent again")
			}
		})
	}
}

// With ECN off no packet is ECN-capable, so a switch marks none, and the rate stays.
func TestCongestionOff(t *testing.T) {
	off := rxe.DefaultECN()
	off.Off = true
	s := newStream(t, rxe.WRWrite, &off)
	before := s.rate(10 * time.Millisecond)
	s.net.SetFaults(simnet.Config{Mark: 1})
	if during := s.rate(10 * time.Millisecond); during < before*99/100 {
		t.Errorf("%d bytes a second, and %d with marks", before, during)
	}
	if n := s.both("np_ecn_marked_roce_packets"); n != 0 {
		t.Errorf("%d packets were ECN-capable", n)
	}
}

// stream is a queue pair that always has something to send, or to read.
type stream struct {
	t     *testing.T
	net   *simnet.Network
	devs  [2]*rxe.Device
	cq    *rxe.CQ
	q     *rxe.QP
	wr    rxe.SendWR
	bytes int // completed
}

const streamSize = 64 << 10

func newStream(t *testing.T, op rxe.WROpcode, ecn *rxe.ECN) *stream {
	t.Helper()
	s := &stream{t: t, net: simnet.New(simnet.Config{Seed: 1, Latency: 5 * time.Microsecond, PerByte: 1, MaxBatch: 8})}
	addrs := [2]wire.GID{wire.GIDFromAddr(nearAddr), wire.GIDFromAddr(farAddr)}
	var qps [2]*rxe.QP
	var mrs [2]*rxe.MR
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, gid := range addrs {
		port := s.net.NewPort(gid.Addr())
		dev, err := rxe.New(rxe.Config{Name: "sim", Link: port, Clock: port, Seed: [32]byte{byte(i + 1)}, ECN: ecn})
		ok(err)
		port.Attach(dev)
		ok(dev.SetGIDs([]wire.GID{gid}))
		ok(dev.SetPort(rxe.PortActive, 4096))
		pd, err := dev.AllocPD()
		ok(err)
		cq, err := dev.CreateCQ(rxe.CQInit{Entries: 64})
		ok(err)
		mrs[i], err = pd.RegMR(&simnet.Memory{Base: memBase, Data: make([]byte, streamSize)}, memBase, streamSize, memBase, everyAccess)
		ok(err)
		qps[i], err = pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: cq, RecvCQ: cq, SignalAll: true,
			Cap: rxe.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		ok(err)
		if s.devs[i] = dev; i == 0 {
			s.cq, s.q = cq, qps[i]
		}
	}
	for i, q := range qps {
		connectRC(t, q, rxe.QPAttr{PortNum: 1, Access: everyAccess &^ (rxe.AccessLocalWrite | rxe.AccessMWBind), PathMTU: 1024,
			AH: rxe.AHAttr{DGID: addrs[1-i], PortNum: 1}, DestQPN: qps[1-i].Num(), MaxRdAtomic: 4, MaxDestRdAtomic: 4,
			MinRNRTimer: 1, Timeout: 10, RetryCnt: 7, RNRRetry: 7})
	}
	s.wr = rxe.SendWR{Op: op, SGL: []rxe.SGE{{Addr: memBase, Length: streamSize, LKey: mrs[0].LKey()}},
		RemoteAddr: memBase, RKey: mrs[1].RKey()}
	for range 8 {
		s.post()
	}
	return s
}

func (s *stream) post() {
	if _, err := s.q.PostSend([]rxe.SendWR{s.wr}); err != nil {
		s.t.Fatal(err)
	}
}

// rate runs the stream for a time, and returns the bytes a second that completed.
func (s *stream) rate(d time.Duration) int {
	s.t.Helper()
	from, end := s.bytes, s.net.Now()+rxe.Time(d)
	s.net.At(end, func() {})
	s.net.Run(end, func() bool {
		var wcs [16]rxe.WC
		n, err := s.cq.Poll(wcs[:])
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range wcs[:n] {
			if wcs[i].Status != rxe.WCSuccess {
				s.t.Fatalf("completion %+v", wcs[i])
			}
			s.bytes += streamSize
			s.post()
		}
		return false
	})
	return (s.bytes - from) * int(time.Second/d)
}

// both adds up a counter of both devices.
func (s *stream) both(name string) (sum uint64) {
	for _, dev := range s.devs {
		for _, c := range dev.Counters() {
			if c.Name == name {
				sum += c.Value
			}
		}
	}
	return sum
}

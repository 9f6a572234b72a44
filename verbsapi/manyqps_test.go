package verbsapi

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkManyQPs compares the cost of a message over a thousand queue pairs with
// that over one. Each pattern has devices of its own. Slices of the two alternate,
// so that other load on the machine affects both. In all, depth messages are under
// way; each call posts batch of them. "Idle" connects a thousand and uses one.
//
// ns/op covers both together. "ratio" is the elapsed time of a message over many
// queue pairs, divided by that of one over one. "cpu-ratio" is the same of the CPU
// time. "calls" counts the port's system calls per message, of both sides.
func BenchmarkManyQPs(b *testing.B) {
	for _, l := range []load{
		{idle: true, op: WRWrite, size: 8, batch: 1, depth: 1},
		{idle: true, op: WRWrite, size: 8, batch: 16, depth: 1000},
		{op: WRWrite, size: 8, batch: 1, depth: 1},
		{op: WRWrite, size: 8, batch: 1, depth: 16},
		{op: WRWrite, size: 8, batch: 1, depth: 128},
		{op: WRWrite, size: 8, batch: 1, depth: 1000},
		{op: WRWrite, size: 8, batch: 16, depth: 1000},
		{op: WRSend, size: 8, batch: 1, depth: 1000},
		{op: WRRead, size: 8, batch: 1, depth: 1000},
		{op: WRWrite, size: 4 << 10, batch: 1, depth: 1000},
		{op: WRWrite, size: 64 << 10, batch: 1, depth: 64},
	} {
		b.Run(l.String(), func(b *testing.B) { benchMany(b, l) })
	}
}

// load is a pattern of messages.
type load struct {
	idle               bool
	op                 WROpcode
	size, batch, depth int
}

func (l load) String() string {
	s := fmt.Sprintf("%v/size=%d/batch=%d/depth=%d", l.op, l.size, l.batch, l.depth)
	if l.idle {
		s += "/idle"
	}
	return s
}

func benchMany(b *testing.B, l load) {
	const many, slices = 1000, 20
	used := many
	if l.idle {
		used = 1
	}
	one, all := newFan(b, l, 1, 1), newFan(b, l, many, used)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range slices {
		n := b.N*(i+1)/slices - b.N*i/slices
		one.run(n)
		all.run(n)
	}
	b.StopTimer()
	b.ReportMetric(one.cost.elapsed/float64(b.N), "one-ns")
	b.ReportMetric(all.cost.elapsed/float64(b.N), "many-ns")
	b.ReportMetric(one.cost.calls/float64(b.N), "one-calls")
	b.ReportMetric(all.cost.calls/float64(b.N), "many-calls")
	b.ReportMetric(all.cost.elapsed/one.cost.elapsed, "ratio")
	b.ReportMetric(all.cost.cpu/one.cost.cpu, "cpu-ratio")
}

// fan is queue pairs of one device, connected to as many of another.
type fan struct {
	b     *testing.B
	l     load
	x, y  *Context
	cq    *CQ
	qps   []*QP
	wrs   []SendWR
	order []int // ring of indices of the qps that may post another batch
	head  int   // of order
	free  int   // in order
	wcs   []WC
	cost  cost
}

// cost is what the messages took, in nanoseconds and system calls.
type cost struct{ elapsed, cpu, calls float64 }

// lastOfBatch is set in the ID of a batch's last work request; the bits below it
// are the index of the queue pair.
const lastOfBatch = 1 << 32

func newFan(b *testing.B, l load, connected, used int) *fan {
	x, y := openTest(b, Config{}), openTest(b, Config{})
	px, py := must(x.AllocPD())(b), must(y.AllocPD())(b)
	cx, cy := must(x.CreateCQ(4*l.depth, nil))(b), must(y.CreateCQ(4*l.depth, nil))(b)
	mx := must(px.RegMR(make([]byte, l.size), testAccess))(b)
	my := must(py.RegMR(make([]byte, l.size), testAccess))(b)
	f := &fan{b: b, l: l, x: x, y: y, cq: cx, wcs: make([]WC, 256)}
	conn := ConnectAttr{Timeout: 19} // 2 s, because the machine may be busy with something else
	srq := must(py.CreateSRQ(SRQAttr{MaxWR: uint32(2 * l.depth), MaxSGE: 1}))(b)
	for i := range connected {
		capacity := QPCap{MaxSendWR: uint32(max(1, l.depth/used) + l.batch), MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
		qx := must(px.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cx, RecvCQ: cx, Cap: capacity}))(b)
		qy := must(py.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cy, RecvCQ: cy, SRQ: srq, Cap: capacity}))(b)
		ix, iy := must(qx.Info(1, 0))(b), must(qy.Info(2, 0))(b)
		if err := qx.Connect(ix, iy, conn); err != nil {
			b.Fatal(err)
		}
		if err := qy.Connect(iy, ix, conn); err != nil {
			b.Fatal(err)
		}
		if i < used {
			f.qps = append(f.qps, qx)
		}
	}
	for i := range max(used, l.depth/l.batch) {
		f.order = append(f.order, i%used)
	}
	f.free = len(f.order)
	if l.op == WRSend {
		f.receive(srq, cy, my.SGE(0, l.size))
	}
	for range l.batch {
		f.wrs = append(f.wrs, SendWR{Op: l.op, Flags: SendSignaled, SGL: []SGE{mx.SGE(0, l.size)}, RemoteAddr: my.Addr(), RKey: my.RKey()})
	}
	return f
}

// run does n messages.
func (f *fan) run(n int) {
	calls, cpu, start := f.calls(), cpuTime(f.b), time.Now()
	for posted, done := 0, 0; done < n; {
		for f.free > 0 && posted < n && posted-done <= f.l.depth-f.l.batch {
			posted += f.post(f.order[f.head], min(f.l.batch, n-posted))
			f.head = (f.head + 1) % len(f.order)
			f.free--
		}
		done += f.wait()
	}
	f.cost.elapsed += float64(time.Since(start))
	f.cost.cpu += float64(cpuTime(f.b) - cpu)
	f.cost.calls += float64(f.calls() - calls)
}

// post posts a batch of n on one queue pair.
func (f *fan) post(i, n int) int {
	wrs := f.wrs[:n]
	for j := range wrs {
		wrs[j].ID = uint64(i)
	}
	wrs[n-1].ID |= lastOfBatch
	if _, err := f.qps[i].PostSend(wrs); err != nil {
		f.b.Fatal(err)
	}
	return n
}

// wait takes completions and returns how many.
func (f *fan) wait() int {
	n, err := f.cq.Wait(context.Background(), f.wcs)
	if err != nil {
		f.b.Fatal(err)
	}
	for i := range f.wcs[:n] {
		wc := &f.wcs[i]
		if wc.Status != WCSuccess {
			f.b.Fatal(wc.Status)
		}
		if wc.ID >= lastOfBatch {
			f.order[(f.head+f.free)%len(f.order)] = int(wc.ID - lastOfBatch)
			f.free++
		}
	}
	return n
}

// receive keeps the SRQ filled.
func (f *fan) receive(srq *SRQ, cq *CQ, buf SGE) {
	recvs := make([]RecvWR, 2*f.l.depth)
	for i := range recvs {
		recvs[i].SGL = []SGE{buf}
	}
	if _, err := srq.PostRecv(recvs); err != nil {
		f.b.Fatal(err)
	}
	go func() {
		wcs := make([]WC, 256)
		for {
			n, err := cq.Wait(context.Background(), wcs)
			if err != nil {
				return // the device was closed
			}
			if _, err := srq.PostRecv(recvs[:n]); err != nil {
				return
			}
		}
	}()
}

// calls is how many system calls the two ports made to send and receive.
func (f *fan) calls() (n uint64) {
	for _, c := range []*Context{f.x, f.y} {
		p := c.eng.run.Port().Counters()
		n += p.SendCalls.Load() + p.ReceiveCalls.Load()
	}
	return n
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

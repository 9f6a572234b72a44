package verbsapi

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/gorxe/gorxe/internal/test/udpbaseline"
)

// The benchmarks run two devices over UDP on the loopback interface: real
// sockets, no wire.

const benchDepth = 128

// benchMTUs are the path MTUs. The loopback interface carries all of them.
var benchMTUs = []MTU{256, 512, 1024, 2048, 4096}

func benchSizes(op WROpcode) []int {
	sizes := []int{4 << 10, 64 << 10, 1 << 20}
	if op == WRRead {
		sizes = append(sizes, 8<<20)
	}
	return sizes
}

// BenchmarkBandwidth has plain UDP beside it, in datagrams of the path MTU, with
// the offloads of the kernel.
func BenchmarkBandwidth(b *testing.B) {
	for _, mtu := range benchMTUs {
		b.Run(fmt.Sprintf("UDP/mtu=%d", mtu), func(b *testing.B) {
			b.ReportAllocs()
			udpbaseline.Benchmark(b, int(mtu), 1<<20)
		})
	}
	for _, op := range []WROpcode{WRSend, WRWrite, WRRead} {
		for _, mtu := range benchMTUs {
			for _, size := range benchSizes(op) {
				b.Run(fmt.Sprintf("%v/mtu=%d/size=%d", op, mtu, size), func(b *testing.B) {
					benchBandwidth(b, op, mtu, size)
				})
			}
		}
	}
}

func benchBandwidth(b *testing.B, op WROpcode, mtu MTU, size int) {
	x, y := newPair(b, endConfig{bufSize: size, depth: benchDepth}, ConnectAttr{PathMTU: mtu})
	// enough messages under way to keep both ends busy, and no more than fit a
	// queue
	depth := min(benchDepth, max(4, 4<<20/size))
	wr := []SendWR{{
		Op: op, Flags: SendSignaled, SGL: []SGE{x.mr.SGE(0, size)},
		RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
	}}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	if op == WRSend {
		stop := keepReceiving(b, y, depth, size)
		defer stop()
	}
	b.ResetTimer()
	runDepth(b, x, wr, depth)
	b.StopTimer()
}

// runDepth does b.N of a work request, depth at a time.
func runDepth(b *testing.B, e *end, wr []SendWR, depth int) {
	ctx := context.Background()
	wcs := make([]WC, depth)
	posted, done := 0, 0
	for done < b.N {
		for posted < b.N && posted-done < depth {
			if _, err := e.qp.PostSend(wr); err != nil {
				b.Fatal(err)
			}
			posted++
		}
		n, err := e.cq.Wait(ctx, wcs)
		if err != nil {
			b.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			if wc.Status != WCSuccess {
				b.Fatal(wc.Status)
			}
		}
		done += n
	}
}

// keepReceiving posts receives, and posts one again for each that completes, until
// stop.
func keepReceiving(b *testing.B, e *end, depth, size int) (stop func()) {
	recv := []RecvWR{{SGL: []SGE{e.mr.SGE(0, size)}}}
	for range benchDepth {
		if _, err := e.qp.PostRecv(recv); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		wcs := make([]WC, depth)
		for {
			n, err := e.cq.Wait(ctx, wcs)
			if err != nil {
				return
			}
			for range n {
				if _, err := e.qp.PostRecv(recv); err != nil {
					b.Error(err)
					return
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// BenchmarkLatency sends one message of 2 bytes there and one back; the time is
// that of both. Both ends wait. Two goroutines that spin on Poll would keep two
// CPUs from reading the socket.
func BenchmarkLatency(b *testing.B) {
	x, y := newPair(b, endConfig{depth: benchDepth}, ConnectAttr{})
	b.ReportAllocs()
	done := make(chan error, 1)
	for _, e := range []*end{x, y} {
		e.recv(0, 0, 2)
	}
	b.ResetTimer()
	go func() { done <- pingPong(y, b.N, false) }()
	if err := pingPong(x, b.N, true); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// pingPong exchanges n messages of 2 bytes; sends are inline.
func pingPong(e *end, n int, first bool) error {
	send := []SendWR{{Op: WRSend, Flags: SendSignaled | SendInline, Inline: []byte{1, 2}}}
	recv := []RecvWR{{SGL: []SGE{e.mr.SGE(0, 2)}}}
	wcs := make([]WC, 4)
	if first {
		if _, err := e.qp.PostSend(send); err != nil {
			return err
		}
	}
	sent := 0
	if first {
		sent = 1
	}
	for received := 0; received < n; {
		k, err := e.cq.Wait(context.Background(), wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:k] {
			if wc.Status != WCSuccess {
				return fmt.Errorf("completion: %v", wc.Status)
			}
			if wc.Opcode != WCRecv {
				continue
			}
			received++
			if _, err := e.qp.PostRecv(recv); err != nil {
				return err
			}
			if sent < n {
				sent++
				if _, err := e.qp.PostSend(send); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// BenchmarkIdleQP reports the memory of a connected queue pair that does nothing.
func BenchmarkIdleQP(b *testing.B) {
	c := openTest(b, Config{})
	pd := must(c.AllocPD())(b)
	cq := must(c.CreateCQ(16, nil))(b)
	const count = 1000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		qps := make([]*QP, count)
		for i := range qps {
			qps[i] = must(pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq,
				Cap: QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}))(b)
			self := must(qps[i].Info(0, 0))(b)
			if err := qps[i].Connect(self, self, ConnectAttr{}); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/QP")
		for _, q := range qps {
			if err := q.Destroy(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

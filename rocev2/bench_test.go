package rocev2

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/udpbaseline"
	"github.com/gorxe/gorxe/wire"
)

var benchSizes = []int{272, 1040, 4112}

// meter counts what a port receives and lets a sender wait for it.
type meter struct {
	octets   atomic.Int64
	progress chan struct{}
}

func (m *meter) receive(batch []wire.Datagram) {
	n := 0
	for i := range batch {
		n += len(batch[i].Data) + icrcLen
	}
	m.octets.Add(int64(n))
	select {
	case m.progress <- struct{}{}:
	default:
	}
}

func (m *meter) waitFor(octets int64) {
	for m.octets.Load() < octets {
		<-m.progress
	}
}

// BenchmarkPort sends 1 MiB per iteration from port to port, ICRC and all, with
// a window that keeps the receiver from being overrun.
func BenchmarkPort(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			m := &meter{progress: make(chan struct{}, 1)}
			src, dst := netip.MustParseAddr("127.0.11.1"), netip.MustParseAddr("127.0.11.2")
			rx := open(b, Config{Address: dst, Receiver: m.receive})
			tx := open(b, Config{Address: src, Receiver: discard})
			route := &wire.Route{Src: src, Dst: dst, SrcPort: 0xc001}
			bursts := []wire.Burst{burst(route, min(maxGSOBytes/size, maxSegments), size, 0)}
			window := int64(min(rx.Info().ReceiveBuffer/4, 1<<20))
			octets := int64(len(bursts[0].Buf))
			perOp := max(1, 1<<20/octets)
			b.SetBytes(perOp * octets)
			b.ReportAllocs()
			b.ResetTimer()
			var sent int64
			for range int64(b.N) * perOp {
				m.waitFor(sent + octets - window)
				if err := tx.Send(bursts); err != nil {
					b.Fatal(err)
				}
				sent += octets
			}
			m.waitFor(sent)
		})
	}
}

// BenchmarkPlainUDP is the baseline of BenchmarkPort.
func BenchmarkPlainUDP(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) { udpbaseline.Benchmark(b, size, 1<<20) })
	}
}

// BenchmarkPingPong bounces one packet of 32 bytes between two ports.
func BenchmarkPingPong(b *testing.B) {
	src, dst := netip.MustParseAddr("127.0.12.1"), netip.MustParseAddr("127.0.12.2")
	back := make(chan struct{}, 1)
	var echo atomic.Pointer[Port]
	reply := []wire.Burst{burst(&wire.Route{Src: dst, Dst: src}, 1, 32, 0)}
	rx := open(b, Config{Address: dst, Receiver: func([]wire.Datagram) {
		if err := echo.Load().Send(reply); err != nil {
			b.Error(err)
		}
	}})
	echo.Store(rx)
	tx := open(b, Config{Address: src, Receiver: func([]wire.Datagram) { back <- struct{}{} }})
	out := []wire.Burst{burst(&wire.Route{Src: src, Dst: dst}, 1, 32, 0)}
	b.ReportAllocs()
	for b.Loop() {
		if err := tx.Send(out); err != nil {
			b.Fatal(err)
		}
		<-back
	}
}

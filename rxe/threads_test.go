package rxe

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// swarmLink carries packets to a device that several threads receive for, as a
// receiver and its spares do: batches overtake each other.
type swarmLink struct {
	batches chan []wire.Datagram
}

func (l *swarmLink) Send(bursts []wire.Burst) {
	var batch []wire.Datagram
	for i := range bursts {
		b := &bursts[i]
		for j := range b.N() {
			p := b.Packet(j)
			batch = append(batch, wire.Datagram{Data: append([]byte(nil), p[:len(p)-wire.ICRCLen]...),
				Src: b.Route.Src, Dst: b.Route.Dst, HopLimit: b.Route.HopLimit})
		}
	}
	select {
	case l.batches <- batch:
	default: // lost, as from a full socket buffer
	}
}
func (l *swarmLink) Join(wire.GID) error  { return nil }
func (l *swarmLink) Leave(wire.GID) error { return nil }

// tickClock advances by a microsecond whenever it is read.
type tickClock struct{ now atomic.Int64 }

func (c *tickClock) Now() Time { return Time(c.now.Add(1000)) }
func (c *tickClock) Arm(Time)  {}

// Several threads bring packets and deadlines to both ends of each connection
// while others post: everything completes, and the data is right.
func TestThreads(t *testing.T) {
	const qps, each, size, receivers = 3, 60, 20_000, 3
	p := newPair(t, qps, 1<<20, 1024)
	clock := &tickClock{}
	links := map[*pairEnd]*swarmLink{}
	for _, e := range []*pairEnd{p.a, p.b} {
		links[e] = &swarmLink{make(chan []wire.Datagram, 64)}
		e.dev.cfg.Link, e.dev.cfg.Clock = links[e], clock
	}
	fill(p.a.mem.b)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for from, to := range map[*pairEnd]*pairEnd{p.a: p.b, p.b: p.a} {
		for range receivers {
			wg.Go(func() {
				for {
					select {
					case batch := <-links[from].batches:
						to.dev.Receive(batch)
					case <-stop:
						return
					}
				}
			})
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					to.dev.Expire()
					runtime.Gosched()
				}
			}
		})
	}
	done := 0
	posted := make([]int, qps)
	wcs := make([]WC, 16)
	for done < qps*each {
		for i, q := range p.a.qps {
			if posted[i] == each {
				continue
			}
			at := uint64(i * size)
			wr := SendWR{Op: WRWrite, Flags: SendSignaled, RKey: p.b.mr.RKey(), RemoteAddr: at,
				SGL: []SGE{{Addr: at, Length: size, LKey: p.a.mr.LKey()}}}
			if posted[i]%4 == 3 { // back again, next to it
				wr.Op, wr.SGL[0].Addr = WRRead, 1<<19+at
			}
			if n, _ := q.PostSend([]SendWR{wr}); n == 1 {
				posted[i]++
			}
		}
		n, err := p.a.cq.Poll(wcs)
		must.OK(t, err)
		for _, wc := range wcs[:n] {
			if wc.Status != WCSuccess {
				t.Fatalf("completion %+v", wc)
			}
		}
		done += n
		runtime.Gosched()
	}
	close(stop)
	wg.Wait()
	equal(t, "WRITE", p.b.mem.b[:qps*size], p.a.mem.b[:qps*size])
	equal(t, "READ", p.a.mem.b[1<<19:][:qps*size], p.a.mem.b[:qps*size])
}

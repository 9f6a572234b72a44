package sim

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
)

// FuzzSim lets the fuzzer choose the seed and, byte by byte, what drawParams
// would draw.
func FuzzSim(f *testing.F) {
	f.Add(uint64(1), []byte(nil))
	f.Add(uint64(2), []byte{50, 50, 50, 10, 1, 2, 3, 0, 1, 0, 30, 30})
	f.Add(uint64(3), []byte{0, 255, 255, 0, 0, 0, 255, 1, 2, 4, 30, 0, 1, 1, 0, 0, 1, 8, 255, 255})
	f.Add(uint64(1<<63|4), []byte{0, 0, 0, 0, 8, 5, 5, 0, 1, 1, 1, 3, 2, 0, 30, 30, 12, 3})
	f.Fuzz(func(t *testing.T, seed uint64, choice []byte) {
		p := drawParams(seed, scale(seed>>63)) // no seed of the corpus has that bit
		p.choose(choice)
		if _, _, err := runParams(p); err != nil {
			t.Fatalf("seed %d, choice %v: %v\n%+v", seed, choice, err, p)
		}
	})
}

// choose overrides what was drawn, as far as there are bytes.
func (p *params) choose(b []byte) {
	next := func(n int) int { // 0 to n-1
		if len(b) == 0 {
			return 0
		}
		v := int(b[0]) % n
		b = b[1:]
		return v
	}
	for _, f := range []*float64{&p.net.Loss, &p.net.Duplicate, &p.net.Reorder, &p.net.Corrupt} {
		if len(b) > 0 {
			*f = float64(next(52)) / 256 // up to 20 percent
		}
	}
	p.net.Corrupt = min(p.net.Corrupt, max(0, 0.22-p.net.Loss))
	if len(b) > 0 {
		p.net.MaxBatch = 1 + next(64)
		p.net.Latency = time.Duration(next(256)) * time.Microsecond
		p.net.ReorderBy = time.Duration(next(256)) * 2 * time.Microsecond
		p.oneCQ, p.srq = next(2) == 0, next(2) == 1
		p.thinkTime = time.Duration(next(256)) * time.Microsecond
		p.recvDelay = time.Duration(next(256)) * 4 * time.Microsecond
	}
	for i := range p.pairs {
		if len(b) > 0 {
			p.pairs[i].choose(next)
		}
	}
	// Long messages and hard faults together end in RETRY_EXC at times. That is not a
	// finding and proves nothing, so the test keeps them apart.
	for i := range p.pairs {
		pp := &p.pairs[i]
		if p.net.Loss+p.net.Corrupt > 0.05 {
			pp.maxSize = min(pp.maxSize, 24*int(pp.mtu))
		}
		pp.target = max(2*pp.maxSize, 256)
	}
}

func (p *pairParams) choose(next func(int) int) {
	p.typ = [...]rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD, rxe.QPRC}[next(4)]
	p.mtu = 256 << next(5)
	p.hosts = [...][2]int{{0, 1}, {1, 0}, {0, 0}, {1, 1}}[next(4)]
	p.ops = [2]int{1 + next(32), next(32)}
	if p.xrc = p.xrc && p.typ == rxe.QPRC; p.xrc {
		p.ops[1] = 0
	}
	p.depth, p.recvDepth = 1+next(16), 1+next(4)
	p.signaled, p.signalAll = next(101), next(2) == 0
	p.rdAtomic = uint8(1 + next(16))
	p.rnrTimer, p.timeout = uint8(1+next(14)), uint8(8+next(5))
	p.maxSize = min(p.maxSize, next(256)*next(256))
	if p.typ == rxe.QPUD {
		p.maxSize = min(p.maxSize, int(p.mtu))
	}
}

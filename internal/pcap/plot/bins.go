package plot

import (
	"math/bits"
	"time"
)

// maxBins is how many bins a series over time has at most. A page is some 1,000 pixels wide.
const maxBins = 256

// bin is what happened within one step of time.
type bin struct {
	n, sum, most uint64
}

// bins is a series over time, from its first value on. Its steps become longer as it does.
type bins struct {
	start time.Duration
	width time.Duration
	list  []bin
}

// firstWidth is the shortest step.
const firstWidth = time.Microsecond

// at returns the bin of a time since the start.
func (b *bins) at(t time.Duration) *bin {
	if b.width == 0 {
		b.start, b.width = max(t, 0), firstWidth
	}
	t = max(t-b.start, 0)
	for t/b.width >= maxBins {
		b.double()
	}
	i := int(t / b.width)
	for len(b.list) <= i {
		b.list = append(b.list, bin{})
	}
	return &b.list[i]
}

// double joins each pair of bins.
func (b *bins) double() {
	b.width *= 2
	for i := range b.list {
		x := b.list[i]
		if i%2 == 0 {
			b.list[i/2] = x
			continue
		}
		y := &b.list[i/2]
		y.n, y.sum, y.most = y.n+x.n, y.sum+x.sum, max(y.most, x.most)
	}
	b.list = b.list[:(len(b.list)+1)/2]
}

func (b *bins) add(t time.Duration, value uint64) {
	x := b.at(t)
	x.n, x.sum, x.most = x.n+1, x.sum+value, max(x.most, value)
}

// steps is how many buckets of a histogram are between a number and its double.
const steps = 8

// histogram counts values. A bucket is an eighth of its value wide at most.
type histogram struct {
	n, most uint64
	counts  [62 * steps]uint64
}

// bucket returns the index of a value.
func bucket(v uint64) int {
	if v < steps {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - 3 // 3 bits below the highest one
	return (shift+1)*steps + int(v>>shift) - steps
}

// lower is the least value of a bucket.
func lower(i int) uint64 {
	if i < steps {
		return uint64(i)
	}
	return uint64(i%steps+steps) << (i/steps - 1)
}

func (h *histogram) add(v uint64) {
	h.n++
	h.most = max(h.most, v)
	h.counts[bucket(v)]++
}

// percentile returns a value that p in 100 do not exceed, to an eighth of it.
func (h *histogram) percentile(p uint64) uint64 {
	if h.n == 0 {
		return 0
	}
	want := (h.n*p + 99) / 100
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen >= want && n > 0 {
			return min(lower(i+1)-1, h.most)
		}
	}
	return h.most
}

package plot

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Kind says what a point of a chart is.
type Kind uint8

// The kinds, in the order in which they are drawn.
const (
	Sent     Kind = iota // a request
	Ack                  // an ACK
	Response             // of a READ or an atomic
	Again                // a request that was sent before
	RNR                  // an RNR NAK
	NAK
	CNP
	Hit  // a packet that a fault rule delayed or changed
	Lost // a packet that a fault rule lost
	kinds
)

var kindNames = [kinds]string{"sent", "ack", "response", "again", "rnr", "nak", "cnp", "hit", "lost"}

func (k Kind) String() string { return kindNames[k] }

// ordinary kinds are thinned first.
func (k Kind) ordinary() bool { return k <= Response }

// point is one packet.
type point struct {
	at     time.Duration // since the start
	psn    int64         // since the first of its track
	number int           // of the packet
}

// list is the points of one kind.
type list struct {
	points []point
	seen   uint64 // all of them
	stride uint64 // one of so many is kept; 0 is 1
}

func (l *list) add(p point) bool {
	l.seen++
	if l.stride > 1 && (l.seen-1)%l.stride != 0 {
		return false
	}
	l.points = append(l.points, p)
	return true
}

// thin keeps every second point.
func (l *list) thin() (dropped int) {
	kept := l.points[:0]
	for i, p := range l.points {
		if i%2 == 0 {
			kept = append(kept, p)
		}
	}
	dropped = len(l.points) - len(kept)
	l.points, l.stride = kept, max(l.stride, 1)*2
	return dropped
}

// track counts PSNs without their end at 24 bits.
type track struct {
	begun  bool
	first  wire.PSN // counts as 0
	last   wire.PSN
	offset int64 // of last
}

func (t *track) place(p wire.PSN) int64 {
	if !t.begun {
		t.begun, t.first, t.last = true, p, p
		return 0
	}
	t.offset += int64(p.Diff(t.last))
	t.last = p
	return t.offset
}

const (
	// group is how many points of one level of detail are one mark of the next.
	group = 16
	// enough marks fill a chart: a coarser level shows no more.
	enough = 1024
)

// packed is the points of one kind, as the page has them: numbers of variable length in base64.
type packed struct {
	Kind   string   `json:"kind"`
	Seen   uint64   `json:"seen"`
	Count  int      `json:"count"` // of the points below
	Points string   `json:"points"`
	Levels []packed `json:"levels,omitempty"` // the finest first
}

// mark is a span of points.
type mark struct {
	point // the first one in time, and the least PSN
	until time.Duration
	most  int64
}

// pack orders the points by time, and makes the levels of detail. shift is added to each PSN.
func (l *list) pack(k Kind, shift int64) packed {
	slices.SortStableFunc(l.points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	marks := make([]mark, len(l.points))
	for i, p := range l.points {
		p.psn += shift
		marks[i] = mark{p, p.at, p.psn}
	}
	out := packed{Kind: k.String(), Seen: l.seen, Count: len(marks), Points: encode(marks, false)}
	for len(marks) > enough {
		marks = coarser(marks)
		out.Levels = append(out.Levels, packed{Count: len(marks), Points: encode(marks, true)})
	}
	return out
}

// coarser joins neighbors in time.
func coarser(marks []mark) (out []mark) {
	for some := range slices.Chunk(marks, group) {
		m := some[0]
		for _, x := range some[1:] {
			m.until, m.psn, m.most = max(m.until, x.until), min(m.psn, x.psn), max(m.most, x.most)
		}
		out = append(out, m)
	}
	return out
}

// encode writes differences: of times in nanoseconds, of PSNs and of numbers of packets. Marks have
// the length of their span, and how many PSNs it has, too.
func encode(marks []mark, spans bool) string {
	var b []byte
	var last point
	for _, m := range marks {
		b = binary.AppendVarint(b, int64(m.at-last.at))
		b = binary.AppendVarint(b, m.psn-last.psn)
		b = binary.AppendVarint(b, int64(m.number-last.number))
		if spans {
			b = binary.AppendUvarint(b, uint64(m.until-m.at))
			b = binary.AppendUvarint(b, uint64(m.most-m.psn))
		}
		last = m.point
	}
	return base64.StdEncoding.EncodeToString(b)
}

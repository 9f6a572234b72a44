package segment

import (
	"slices"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// Sender takes frames away from here: to a network, or to the segment of another process.
type Sender interface {
	// Send sends frames in order, and returns how many were taken; the others are lost. It must not
	// block. The frames are the caller's again when it returns.
	Send(frames [][]byte) (taken int)
}

// Trunk joins a segment to that of another process. Of several processes each is joined to each
// other, so a frame from one trunk never goes to another.
type Trunk struct {
	segment *Segment
	to      Sender
	as      sending // frames that come from it
}

// Connect makes a trunk.
func (s *Segment) Connect(to Sender) *Trunk {
	t := &Trunk{segment: s, to: to}
	t.as.from = t
	s.change(func(m *members) { m.trunks = append(m.trunks, t) })
	return t
}

// Leave ends the trunk.
func (t *Trunk) Leave() {
	t.segment.change(func(m *members) {
		m.trunks = slices.DeleteFunc(m.trunks, func(o *Trunk) bool { return o == t })
	})
	t.segment.forget(t)
}

// Arrive takes a frame of the other segment. It reports false if that is none.
func (t *Trunk) Arrive(frame []byte) bool {
	if len(frame) < ether.HeaderSize || len(frame) > rxe.MaxFrame {
		return false
	}
	f := ether.Parse(frame)
	dst, src := places(&f)
	t.segment.learn(src, t)
	t.segment.capture(&f)
	t.segment.bring(&f, dst, &t.as)
	return true
}

func (t *Trunk) take(f *ether.Frame, as *sending) {
	if as.out != nil {
		as.out.add(t.to, f.Data)
	}
}

// outbox collects frames that leave this process.
type outbox struct {
	ways []way
	n    int // of ways that are in use
}

// way has the frames for one Sender.
type way struct {
	to     Sender
	frames [][]byte
}

func (o *outbox) add(to Sender, frame []byte) {
	for i := range o.ways[:o.n] {
		if w := &o.ways[i]; w.to == to {
			w.frames = append(w.frames, frame)
			return
		}
	}
	if o.n == len(o.ways) {
		o.ways = append(o.ways, way{})
	}
	w := &o.ways[o.n]
	o.n++
	w.to, w.frames = to, append(w.frames[:0], frame)
}

// flush sends what was collected, and counts what was not taken.
func (o *outbox) flush(c *Counters) {
	for i := range o.ways[:o.n] {
		w := &o.ways[i]
		if lost := len(w.frames) - w.to.Send(w.frames); lost > 0 {
			c.NotTaken.Add(uint64(lost))
		}
		clear(w.frames)
		w.to = nil
	}
	o.n = 0
}

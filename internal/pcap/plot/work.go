package plot

import "time"

// Work is what a queue pair did with its work requests, as the page draws it.
type Work struct {
	Requests []Request `json:"requests"`
	Stride   uint64    `json:"stride"` // of those that succeeded, one in so many is there
	LeftOut  uint64    `json:"-"`      // of those that failed
	Depth    Depth     `json:"-"`      // how many were under way
}

// Request is a work request. Times count as those of the packets.
type Request struct {
	ID      string        `json:"id"` // hexadecimal: scripts have no numbers of 64 bits
	Op      string        `json:"op"`
	Status  string        `json:"status,omitempty"` // empty: it did not complete
	Failed  bool          `json:"failed,omitempty"`
	Receive bool          `json:"receive,omitempty"`
	Bytes   uint32        `json:"bytes,omitempty"`
	Posted  time.Duration `json:"posted"`         // of a receive: as Done
	Done    time.Duration `json:"done"`           // if it completed
	PSNs    []uint32      `json:"psns,omitempty"` // the first and the last one, if it has some
}

// Depth is a number over time, in steps from the start on. Start may be negative.
type Depth struct {
	Start, Width time.Duration
	Most         []uint64 // in each step
}

// data returns the steps that are not 0.
func (d *Depth) data() seriesData {
	s := seriesData{Width: d.Width, Start: d.Start, Bins: [][4]uint64{}}
	for i, n := range d.Most {
		if n > 0 {
			s.Bins = append(s.Bins, [4]uint64{uint64(i), 1, n, n})
		}
	}
	return s
}

// last is the time of the last completion.
func (w *Work) last() (at time.Duration) {
	for i := range w.Requests {
		at = max(at, w.Requests[i].Posted, w.Requests[i].Done)
	}
	return at
}

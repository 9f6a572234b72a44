package doorbell

import (
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
)

// A Pace says how soon a thread that takes doorbells should look for the next ones. It tells two
// kinds of programs apart by what each look has found (kernel.Doorbells):
//
//   - A program that waits for each of its requests wants a look at once.
//   - A program that posts many requests without waiting, a stream, is better served by fewer looks,
//     which find more. Each look costs system calls and a wake-up. If all processors are busy, the
//     scheduler may also end the turn of the program that is about to post more.
//
// The zero value is ready. One thread uses it.
type Pace struct {
	score int // rises with looks at a stream, falls with awaited requests
	found int // requests at the last look
	tries int // looks until the next try
}

// Note notes what a look has found.
func (p *Pace) Note(d kernel.Doorbells) {
	if d.Requests == 0 {
		return
	}
	p.found = max(d.Requests, p.found*foundKept/foundOf)
	if 2*d.Awaited >= d.Requests {
		p.score = max(p.score-1, -maxScore)
	} else {
		p.score = min(p.score+1, maxScore)
	}
}

// Pause returns how long the thread should pause, from the beginning of its last look on, before
// it looks again.
func (p *Pace) Pause() time.Duration {
	switch {
	case !p.Streams():
		return 0
	case p.Pauses():
		p.tries = 0
		return min(time.Duration(p.found)*pauseEach, maxPause)
	}
	if p.tries--; p.tries > 0 {
		return 0
	}
	p.tries = tryEvery
	return tryPause
}

// Pauses reports whether looks find so many requests that a pause follows each of them.
func (p *Pace) Pauses() bool { return p.Streams() && time.Duration(p.found)*pauseEach >= minPause }

// Streams reports whether the program posts without waiting.
func (p *Pace) Streams() bool { return p.score >= sureScore }

// Awaited reports whether the program waits for each of its requests.
func (p *Pace) Awaited() bool { return p.score <= -sureScore }

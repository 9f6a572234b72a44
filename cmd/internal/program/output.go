package program

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// output is what passes on what a program writes.
type output []*stream

// stream is a pipe that a program writes to, and what reads it.
type stream struct {
	r, w  *os.File
	to    io.Writer
	label *labeler      // nil: none
	limit atomic.Int64  // of the reads, in Unix nanoseconds; 0: the program has not ended
	done  chan struct{} // closed when there is nothing more to read; nil before begin
}

// When a program has ended, processes that it has left may keep its output open. What is in the
// pipe then is passed on, however slowly it is taken, and what comes within drainLimit.
const (
	drainLimit = time.Second
	readLimit  = 100 * time.Millisecond // after drainLimit
	inPipe     = 64 << 10               // pipe(7)
)

func newStream(to io.Writer) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &stream{r: r, w: w, to: to}, nil
}

// begin is called when the program has the pipes.
func (o output) begin() {
	for _, s := range o {
		s.w.Close() //nolint:errcheck // the program has it
		s.done = make(chan struct{})
		go s.pass()
	}
}

// end is called when the program has ended, or could not be started. It returns when its output has
// been passed on.
func (o output) end() {
	limit := time.Now().Add(drainLimit)
	for _, s := range o {
		s.limit.Store(limit.UnixNano())
		s.r.SetReadDeadline(limit) //nolint:errcheck // a pipe has deadlines
	}
	for _, s := range o {
		if s.done == nil {
			s.w.Close() //nolint:errcheck // nobody writes to it
		} else {
			<-s.done
		}
		s.r.Close() //nolint:errcheck // it is only read
	}
}

// pass passes on what the program writes.
func (s *stream) pass() {
	defer close(s.done)
	buf := make([]byte, 32<<10)
	for rest := inPipe; rest > 0; {
		limit, now := s.limit.Load(), time.Now()
		over := limit != 0 && now.UnixNano() > limit
		if over {
			s.r.SetReadDeadline(now.Add(readLimit)) //nolint:errcheck // a pipe has deadlines
		}
		n, err := s.r.Read(buf)
		if over {
			rest -= n
		}
		s.to.Write(buf[:n]) //nolint:errcheck // nobody reads what is lost: the program goes on
		if err != nil && (over || !errors.Is(err, os.ErrDeadlineExceeded)) {
			break
		}
	}
	if s.label != nil {
		s.label.flush()
	}
}

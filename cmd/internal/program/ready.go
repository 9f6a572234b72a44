package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Ready says when a program is ready.
type Ready struct {
	Timeout time.Duration
	// a line of its output that says so; nil: the program is ready when it listens
	When *regexp.Regexp
	Key  string // what the user writes to set When: "--ready-when"
	// CM returns the processes that listen by RDMA CM with the daemons at these sockets. It may be
	// nil.
	CM      func(sockets []string) []int
	Sockets []string // where its daemon may be
	// Otherwise is what happens if the program is not ready in time: "the client was not started".
	Otherwise string
	// Hint returns what may help if the program ended, with ". " before it, after what the program
	// has written. It may be nil.
	Hint func(Wrote) string
}

// Wrote is what a program has written of ports.
type Wrote struct {
	Taken    bool // another program has its port
	Unmet    bool // it connects, and nobody listens there
	Rejected bool // it connects by RDMA CM, and nobody listens there
}

// What servers write if another program has their port, and clients if nobody listens at it.
var (
	portTaken = regexp.MustCompile(`(?i)address already in use|couldn't listen`)
	unmet     = regexp.MustCompile(`(?i)connection refused|(couldn't|could not|cannot|can't|failed to|unable to) connect to`)
	rejected  = regexp.MustCompile(`(?i)RDMA_CM_EVENT_(REJECTED|UNREACHABLE)|unexpected cm event|rdma_connect`)
)

const (
	lookInterval = 10 * time.Millisecond
	lookRDMACM   = 5 // lookIntervals
)

// UntilReady returns when the program is ready, or an error that says why it is not.
func (p *Program) UntilReady(ctx context.Context) error {
	r := &p.config.Ready
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	late := time.After(r.Timeout)
	for n := 0; p.lines != nil || !p.listens(n%lookRDMACM == 0); n++ {
		select {
		case <-p.lines.ready():
			return nil
		case <-p.done:
			hint := ""
			if r.Hint != nil {
				hint = r.Hint(p.Wrote())
			}
			return fmt.Errorf("%s ended, with exit code %d, before %s: %s%s", p.config.Title, p.Code(), r.sign(), r.Otherwise, hint)
		case <-late:
			return fmt.Errorf("after %v %s: %s%s", r.Timeout, r.missing(p.config.Title), r.Otherwise, r.remedy())
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}

// listens reports whether the program, or one below it, listens. The daemons know which processes
// listen by RDMA CM, and are asked if that is wanted.
func (p *Program) listens(ask bool) bool {
	r := &p.config.Ready
	pids := Family(p.cmd.Process.Pid)
	if len(listeners(pids, r.Sockets)) > 0 {
		return true
	}
	if !ask || r.CM == nil {
		return false
	}
	p.byCM = slices.ContainsFunc(r.CM(r.Sockets), func(pid int) bool { return slices.Contains(pids, pid) })
	return p.byCM
}

// sign says what the program does when it is ready.
func (r *Ready) sign() string {
	if r.When != nil {
		return fmt.Sprintf("a line of its output matched %s %q", r.Key, r.When)
	}
	return "it listened on a TCP port, on a Unix socket or by RDMA CM"
}

// missing says what the program has not done.
func (r *Ready) missing(title string) string {
	if r.When != nil {
		return fmt.Sprintf("no line of %s's output matches %s %q", title, r.Key, r.When)
	}
	return title + " listens neither on a TCP port, nor on a Unix socket, nor by RDMA CM (rdma_listen)"
}

// remedy says what the user can do.
func (r *Ready) remedy() string {
	if r.When != nil {
		return ". Give it more time with --timeout. If its output is buffered, flush it"
	}
	return ". Give it more time with --timeout, or tell with " + r.Key + " which line of its output says that it is ready"
}

// lines looks for a line that matches in what a program writes. It may be nil.
type lines struct {
	is    *regexp.Regexp
	found chan struct{} // closed by the first match

	mu   sync.Mutex // below
	done bool
}

// newLines returns nil if there is nothing to look for.
func newLines(is *regexp.Regexp) *lines {
	if is == nil {
		return nil
	}
	return &lines{is: is, found: make(chan struct{})}
}

// ready is closed when a line has matched.
func (l *lines) ready() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.found
}

// seen reports whether a line has matched.
func (l *lines) seen() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// beside returns where a program writes to, so that its output goes to out.
func (l *lines) beside(out io.Writer) io.Writer {
	if l == nil {
		return out
	}
	return &lineReader{lines: l, out: out}
}

// lineReader passes one stream on.
type lineReader struct {
	*lines
	out  io.Writer
	line []byte
}

// Write implements io.Writer.
func (r *lineReader) Write(p []byte) (int, error) {
	n, err := r.out.Write(p)
	for line := range bytes.Lines(p) {
		r.line = append(r.line, line[:min(len(line), maxLine-len(r.line))]...)
		if r.match(bytes.TrimRight(r.line, "\r\n")) {
			return n, err
		}
		if line[len(line)-1] == '\n' {
			r.line = r.line[:0]
		}
	}
	return n, err
}

// match reports whether there is nothing to look for any more.
func (l *lines) match(line []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done && l.is.Match(line) {
		l.done = true
		close(l.found)
	}
	return l.done
}

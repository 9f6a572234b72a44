package pair

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// untilReady returns when the server is ready for its client.
func (c *Config) untilReady(ctx context.Context, e *end, daemons []string, out *lines) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	late := time.After(c.Timeout)
	for n := 0; out != nil || !c.listens(e.cmd.Process.Pid, daemons, n%lookRDMACM == 0); n++ {
		select {
		case <-out.ready():
			return nil
		case <-e.done:
			return fmt.Errorf("the server ended, with exit code %d, before %s: the client was not started%s", e.code(), c.sign(), c.busyPort(e.taken))
		case <-late:
			return fmt.Errorf("after %v %s: the client was not started%s", c.Timeout, c.missing(), c.remedy())
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}

// What servers write if another program has their port, and clients if nobody listens at it.
var (
	portTaken = regexp.MustCompile(`(?i)address already in use|couldn't listen`)
	unmet     = regexp.MustCompile(`(?i)connection refused|(couldn't|could not|cannot|can't|failed to|unable to) connect to`)
)

// busyPort says what to do if another program has the server's port, as the server has written.
// Most servers listen at every address.
func (c *Config) busyPort(taken *lines) string {
	switch {
	case !taken.seen() || c.Hosts:
		return ""
	case c.Alone:
		return ". Its TCP port is taken: --hosts gives this pair ports of its own, and --private does not"
	}
	return ". Its TCP port is taken: --hosts gives this pair ports of its own"
}

// elsewhere says where the server listened, if the client has written that nobody listens where it
// has tried.
func elsewhere(unmet *lines, ports []string) error {
	ports = slices.DeleteFunc(ports, func(p string) bool { return p == "" })
	if !unmet.seen() || len(ports) == 0 {
		return nil
	}
	return fmt.Errorf("the client did not reach the server, which listened on TCP port %s", strings.Join(ports, ", "))
}

// listens reports whether the process, or one below it, listens. The daemons know which processes
// listen by RDMA CM, and are asked if that is wanted.
func (c *Config) listens(root int, daemons []string, ask bool) bool {
	pids := family(root)
	if len(listeners(pids, daemons)) > 0 {
		return true
	}
	if !ask || c.CM == nil {
		return false
	}
	return slices.ContainsFunc(c.CM(daemons), func(pid int) bool { return slices.Contains(pids, pid) })
}

// sign says what the server does when it is ready.
func (c *Config) sign() string {
	if c.ReadyWhen != nil {
		return fmt.Sprintf("a line of its output matched --ready-when %q", c.ReadyWhen)
	}
	return "it listened on a TCP port, on a Unix socket or by RDMA CM"
}

// missing says what the server has not done.
func (c *Config) missing() string {
	if c.ReadyWhen != nil {
		return fmt.Sprintf("no line of the server's output matches --ready-when %q", c.ReadyWhen)
	}
	return "the server listens neither on a TCP port, nor on a Unix socket, nor by RDMA CM (rdma_listen)"
}

// remedy says what the user can do.
func (c *Config) remedy() string {
	if c.ReadyWhen != nil {
		return ". Give it more time with --timeout. If its output is buffered, flush it"
	}
	return ". Give it more time with --timeout, or tell with --ready-when which line of its output says that it is ready"
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

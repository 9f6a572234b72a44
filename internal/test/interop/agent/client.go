package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Client starts programs through a Serve at the other end of a stream.
type Client struct {
	mu    sync.Mutex
	last  int
	procs map[int]*Proc
	err   error // why the stream ended

	outMu sync.Mutex
	out   *json.Encoder
}

// NewClient starts to read replies.
func NewClient(stream io.ReadWriter) *Client {
	c := &Client{procs: map[int]*Proc{}, out: json.NewEncoder(stream)}
	go c.receive(json.NewDecoder(bufio.NewReader(stream)))
	return c
}

// Proc is a program that was started.
type Proc struct {
	Argv   []string
	client *Client
	id     int
	done   chan struct{}

	mu    sync.Mutex
	more  *sync.Cond
	out   bytes.Buffer
	read  int // of out, by ReadLine
	exit  int
	ended bool
	err   error
}

func (c *Client) receive(in *json.Decoder) {
	for {
		var r reply
		if err := in.Decode(&r); err != nil {
			c.fail(fmt.Errorf("the machine has gone: %w", err))
			return
		}
		c.mu.Lock()
		p := c.procs[r.ID]
		if r.Done {
			delete(c.procs, r.ID)
		}
		c.mu.Unlock()
		if p != nil {
			p.apply(&r)
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	c.err = err
	procs := c.procs
	c.procs = map[int]*Proc{}
	c.mu.Unlock()
	for _, p := range procs {
		p.apply(&reply{Done: true, Exit: 127, Err: err.Error()})
	}
}

func (p *Proc) apply(r *reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(r.Out)
	if r.Done {
		p.exit, p.ended = r.Exit, true
		if r.Err != "" {
			p.err = errors.New(r.Err)
		}
		close(p.done)
	}
	p.more.Broadcast()
}

func (c *Client) request(r request) *Proc {
	p := &Proc{Argv: r.Argv, client: c, done: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	c.mu.Lock()
	c.last++
	p.id, r.ID = c.last, c.last
	err := c.err
	if err == nil {
		c.procs[p.id] = p
	}
	c.mu.Unlock()
	if err == nil {
		err = c.send(r)
	}
	if err != nil {
		p.apply(&reply{Done: true, Exit: 127, Err: err.Error()})
	}
	return p
}

func (c *Client) send(r request) error {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	return c.out.Encode(r)
}

// Start starts a program.
func (c *Client) Start(argv ...string) *Proc { return c.request(request{Op: opStart, Argv: argv}) }

// Listening waits until something on the machine listens on the TCP port.
func (c *Client) Listening(port int) error {
	p := c.request(request{Op: opListen, Port: port})
	<-p.done
	return p.err
}

// Write writes to the program's standard input.
func (p *Proc) Write(data []byte) (int, error) {
	return len(data), p.client.send(request{ID: p.id, Op: opInput, Data: data})
}

// Kill kills the program and its process group.
func (p *Proc) Kill() {
	p.client.send(request{ID: p.id, Op: opKill}) //nolint:errcheck // then the machine has gone, and the program too
}

// Output is what the program has written so far.
func (p *Proc) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Ended tells whether it has.
func (p *Proc) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits for the end of the program and returns its exit status, or minus
// the signal that ended it. A program that takes longer is killed.
func (p *Proc) Wait(limit time.Duration) (int, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.exit, p.err
	case <-timer.C:
		p.Kill()
		return -9, fmt.Errorf("%s: does not end within %v", strings.Join(p.Argv, " "), limit)
	}
}

// ReadLine returns the next line that the program writes, without its end.
func (p *Proc) ReadLine(limit time.Duration) (string, error) {
	late := false
	timer := time.AfterFunc(limit, func() {
		p.mu.Lock()
		late = true
		p.mu.Unlock()
		p.more.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		rest := p.out.Bytes()[p.read:]
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			p.read += n + 1
			return string(rest[:n]), nil
		}
		switch {
		case p.ended:
			return "", fmt.Errorf("%s: ended with status %d", strings.Join(p.Argv, " "), p.exit)
		case late:
			return "", fmt.Errorf("%s: says nothing for %v", strings.Join(p.Argv, " "), limit)
		}
		p.more.Wait()
	}
}

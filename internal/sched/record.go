package sched

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// RecordTo makes each Taker that begins from now on write its looks to a file of its own: path, a
// dot and a number. It is for the recordings that the tests of Policy use. An empty path ends that.
func RecordTo(path string) { recordTo.Store(&path) }

var (
	recordTo  atomic.Pointer[string]
	recorders atomic.Int32
)

// recorded is one line of a recording: a look, the answers that the policy asked for, and what it
// decided.
type recorded struct {
	Look
	// of Machine; nil: not asked, or not known
	Ready     *int           `json:"ready,omitempty"`
	Waited    *time.Duration `json:"waited,omitempty"`    // the same
	Processor *int           `json:"processor,omitempty"` // the same
	State     string         `json:"state"`
}

// recorder writes the looks of a Taker. A nil recorder only passes them on.
type recorder struct {
	file *os.File
	out  *bufio.Writer
	left int // lines
}

func newRecorder() *recorder {
	path := recordTo.Load()
	if path == nil || *path == "" {
		return nil
	}
	f, err := os.Create(*path + "." + strconv.Itoa(int(recorders.Add(1))))
	if err != nil {
		return nil // a recording is no reason to end
	}
	return &recorder{file: f, out: bufio.NewWriter(f), left: mostRecorded}
}

// observe is Policy.Observe.
func (r *recorder) observe(p *Policy, l Look, m Machine) Decision {
	if r == nil || r.left == 0 {
		return p.Observe(l, m)
	}
	listener := &listener{Machine: m, line: recorded{Look: l}}
	d := p.Observe(l, listener)
	listener.line.State = d.State.String()
	if line, err := json.Marshal(&listener.line); err == nil {
		r.out.Write(append(line, '\n')) //nolint:errcheck // the recording is incomplete then
	}
	r.left--
	return d
}

func (r *recorder) close() {
	if r != nil {
		r.out.Flush() //nolint:errcheck // as above
		r.file.Close()
	}
}

// listener is a Machine that notes the answers.
type listener struct {
	Machine
	line recorded
}

func (n *listener) Ready() (int, bool) {
	v, ok := n.Machine.Ready()
	if ok {
		n.line.Ready = &v
	}
	return v, ok
}

func (n *listener) Waited() (time.Duration, bool) {
	v, ok := n.Machine.Waited()
	if ok {
		n.line.Waited = &v
	}
	return v, ok
}

func (n *listener) Processor(program int) (int, bool) {
	v, ok := n.Machine.Processor(program)
	if ok {
		n.line.Processor = &v
	}
	return v, ok
}

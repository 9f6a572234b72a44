package script

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// Script is a script as far as it has been played. The zero value is ready.
type Script struct {
	net      *simnet.Network
	hosts    []*host // a, b
	p        parameters
	flights  []*flight    // oldest first
	gathered []*flight    // to arrive together with those of a later command
	sent     []sentPacket // all packets, for the ladder
	out      strings.Builder
	clocked  bool // lines begin with the time

	conceded string // why completions, messages and memory are not compared any more
	ending   bool   // finish is under way
	strange  bool   // the rules of protocol do not hold any more
	problems []*Problem
}

// Problem is something that the devices did and must not do.
type Problem struct {
	Kind string // one word: protocol, data, order, status, event, hang, endless, panic
	Text string
}

func (p *Problem) Error() string { return p.Kind + ": " + p.Text }

// Outcome is what came of a script.
type Outcome struct {
	Problem *Problem // the first; nil: none
	Invalid error    // why a command could not be executed; nil: all were
	At      int      // the line of Problem or Invalid, from 0
	Output  string
	Script  *Script
}

// Play plays commands, one a line, until there is a problem or a command is invalid.
func Play(lines []string) Outcome { return play(lines, false) }

// play may leave out commands that are invalid.
func play(lines []string, lax bool) (o Outcome) {
	s := &Script{}
	o.Script = s
	defer func() {
		if r := recover(); r != nil {
			o.Problem = &Problem{"panic", fmt.Sprintf("%v\n%s", r, debug.Stack())}
		}
	}()
	var text strings.Builder
	defer func() { o.Output = text.String() }()
	for i, line := range lines {
		o.At = i
		cmd, list, err := datadriven.ParseLine(line)
		if err == nil && cmd != "" && !strings.HasPrefix(cmd, "#") {
			var out string
			out, err = s.do(cmd, list)
			fmt.Fprintf(&text, "%s\n%s", line, out)
		}
		if err != nil && !lax {
			o.Invalid = fmt.Errorf("%s: %w", line, err)
			return o
		}
		if len(s.problems) > 0 {
			o.Problem = s.problems[0]
			return o
		}
	}
	return o
}

// Do executes one command of a file of package datadriven and returns what happened.
func (s *Script) Do(d *datadriven.TestData) string {
	out, err := s.do(d.Cmd, d.CmdArgs)
	if err != nil {
		out += fmt.Sprintf("error: %v\n", err)
	}
	return out
}

// commands are all but connect, which is the first one.
var commands = map[string]func(s *Script, a *args) error{
	"post": (*Script).post, "recv": (*Script).recv, "deliver": (*Script).deliver, "drop": (*Script).drop,
	"dup": (*Script).dup, "delay": (*Script).delay, "alter": (*Script).alter, "wait": (*Script).wait,
	"modify": (*Script).modify, "reconnect": (*Script).reconnect, "limit": (*Script).limit,
	"dereg": (*Script).dereg, "finish": (*Script).finish,
}

func (s *Script) do(cmd string, list []datadriven.CmdArg) (string, error) {
	s.out.Reset()
	a, err := readArgs(list)
	if err != nil {
		return "", err
	}
	switch f := commands[cmd]; {
	case cmd == "connect" && s.hosts == nil:
		err = s.connect(a)
	case f == nil:
		err = fmt.Errorf("there is no command %s here", cmd)
	case len(s.hosts) < 2:
		err = errors.New("connect comes first")
	default:
		err = f(s, a)
		s.poll()
	}
	return s.out.String(), err
}

func (s *Script) printf(format string, args ...any) {
	if s.clocked {
		fmt.Fprintf(&s.out, "%v: ", s.elapsed())
	}
	fmt.Fprintf(&s.out, format+"\n", args...)
}

// problem notes a fault of the devices.
func (s *Script) problem(kind, format string, args ...any) {
	p := &Problem{kind, fmt.Sprintf(format, args...)}
	s.problems = append(s.problems, p)
	s.printf("PROBLEM %v", p)
}

// concede says why nothing is compared with the model from now on.
func (s *Script) concede(why string) {
	if s.conceded == "" {
		s.conceded = why
	}
}

func (s *Script) connect(a *args) error {
	p, err := readParameters(a)
	if err == nil {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	s.p = p
	s.net = simnet.New(simnet.Config{})
	s.net.Filter = s.catch
	for _, name := range []string{"a", "b"} {
		h, err := s.open(name, &p)
		if err != nil {
			return err
		}
		h.port.Attach(h.dev)
		s.hosts = append(s.hosts, h)
	}
	s.out.Reset()
	if p.reads == 0 || p.timeout == 0 || p.timeout > 20 {
		s.concede("there are no READs, or retries come too late")
	}
	if p.access != everyAccess {
		s.concede("the queue pairs do not permit everything")
	}
	s.hosts[0].peer, s.hosts[1].peer = s.hosts[1], s.hosts[0]
	for i, h := range s.hosts {
		h.watch()
		if err := h.connect(&p, i); err != nil {
			return err
		}
	}
	return nil
}

// host takes the name of a host from the arguments.
func (s *Script) host(a *args, otherwise string) *host {
	if a.word(otherwise, "a", "b") == "a" {
		return s.hosts[0]
	}
	return s.hosts[1]
}

func (s *Script) elapsed() any { return timeOf(s.net.Now()) }

var states = map[string]rxe.QPState{"reset": rxe.QPReset, "rts": rxe.QPRTS, "sqd": rxe.QPSQD, "err": rxe.QPErr}

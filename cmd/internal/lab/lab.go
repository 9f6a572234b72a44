// Package lab runs the programs of a lab, each on its host, and joins what is known of them.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/hosts"
	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/cmd/internal/program"
)

// Config says what to run. This process must be in namespaces of its own (hosts.Enter).
type Config struct {
	Lab     *labfile.Lab
	Flags   []string      // of gorxe run, for all hosts
	Timeout time.Duration // for a program to be ready, if another one waits for it
	Labels  bool          // each line of output begins with the name of the host
	// CM returns the processes that listen by RDMA CM with the daemons at these sockets.
	CM func(sockets []string) []int
	// Capture is where each host shall capture its packets; empty: none does. CaptureMax bounds the
	// bytes of each.
	Capture    string
	CaptureMax uint64
}

// End is how the program of a host ended.
type End struct {
	Host    *labfile.Host
	Command []string
	Code    int    // as a shell shows it
	Stopped bool   // by the lab
	Asked   bool   // it is a command of gorxe rsh: the exit code was for another program
	Capture string // the file of its packets; empty: there is none
	Saved   string // the file of what gorxe run knows of it; empty: there is none
	files   []*os.File
}

// Code returns the worst exit code of programs that ended by themselves.
func Code(ends []End) (code int) {
	for _, e := range ends {
		if !e.Stopped && !e.Asked {
			code = max(code, e.Code)
		}
	}
	return code
}

// Assign gives the command to the hosts with these names, or to all that the file gives none, if
// there are no names. An error says what the user can do.
func Assign(lab *labfile.Lab, command, on []string) error {
	for _, name := range on {
		if lab.Host(name) == nil {
			return fmt.Errorf("--on %s: the lab has no such host", name)
		}
	}
	if len(command) > 0 {
		give(lab, command, on)
	}
	if err := checkWaits(lab); err != nil {
		return err
	}
	if !slices.ContainsFunc(lab.Hosts, func(h labfile.Host) bool { return h.Command != nil && !h.Background }) {
		return errors.New("no host has a program that the lab could wait for: give one after --, or cmd in the file")
	}
	for i := range lab.Hosts {
		if h := &lab.Hosts[i]; h.Command == nil {
			// so that it has its devices
			h.Command, h.Background = idle, true
		}
	}
	return nil
}

// give sets the command of the hosts named in on. If on is empty, it sets that of each host without
// a command.
func give(lab *labfile.Lab, command, on []string) {
	for i := range lab.Hosts {
		h := &lab.Hosts[i]
		if slices.Contains(on, h.Name) || len(on) == 0 && h.Command == nil {
			h.Command = command
		}
	}
}

// checkWaits refuses a program that waits for one which there is not.
func checkWaits(lab *labfile.Lab) error {
	for i := range lab.Hosts {
		h := &lab.Hosts[i]
		if h.Command == nil {
			continue
		}
		for _, name := range h.WaitFor {
			if lab.Host(name).Command == nil {
				return fmt.Errorf("%s waits for %s, which has no program", h.Name, name)
			}
		}
	}
	return nil
}

// idle is the program of a host that has none. No fault rule is for it.
var idle = []string{"sleep", "infinity"}

// run is a lab that runs.
type run struct {
	Config
	network *hosts.Network
	dir     string // for sockets
	// closed when the program of a host, and so its daemon, has begun
	begun map[string]chan struct{}
	ready map[string]chan struct{} // closed when that program is ready
	// lasting are the programs that are not in the background.
	lasting sync.WaitGroup

	listener *net.UnixListener // of gorxe rsh
	socket   string
	asked    sync.WaitGroup // commands of gorxe rsh
	mu       sync.Mutex     // below
	more     []End          // of these commands
	started  int            // programs
	// running are the hosts whose program runs, and so their daemon.
	running map[string]bool
}

// Run runs the programs, and returns when all have ended. The ends are in the order of the lab, of
// the hosts that have programs. If a program fails, Run ends the others.
func Run(ctx context.Context, c Config) (ends []End, err error) {
	r := &run{Config: c, begun: make(map[string]chan struct{}), ready: make(map[string]chan struct{}), running: make(map[string]bool)}
	if r.dir, err = os.MkdirTemp("", "gorxe-lab-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.dir) //nolint:errcheck // a directory in /tmp
	known := filepath.Join(r.dir, "hosts")
	if err := os.WriteFile(known, []byte(names(c.Lab)), 0o644); err != nil {
		return nil, err
	}
	if err := os.Chmod(r.dir, 0o711); err != nil { // programs of other users read the names
		return nil, err
	}
	if err := Adopt(); err != nil {
		return nil, err
	}
	if r.network, err = hosts.New(c.Lab, known); err != nil {
		return nil, err
	}
	defer ClearUp()
	defer r.network.Close()
	if err := r.listen(); err != nil {
		return nil, err
	}
	defer r.listener.Close() //nolint:errcheck // it is closed already
	return r.programs(ctx)
}

// programs runs the programs.
func (r *run) programs(ctx context.Context) ([]End, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	behind, end := context.WithCancel(ctx) // of programs in the background
	defer end()
	var ends []End
	for i := range r.Lab.Hosts {
		h := &r.Lab.Hosts[i]
		r.begun[h.Name], r.ready[h.Name] = make(chan struct{}), make(chan struct{})
		if h.Command != nil {
			ends = append(ends, End{Host: h, Command: h.Command, Code: program.Failed})
		}
	}
	errs := make([]error, len(ends))
	var all sync.WaitGroup
	for i := range ends {
		e, until := &ends[i], ctx
		if e.Host.Background {
			until = behind
		} else {
			r.lasting.Add(1)
		}
		all.Go(func() {
			if !e.Host.Background {
				defer r.lasting.Done()
			}
			if errs[i] = r.play(until, e); errs[i] != nil || e.Code != 0 && !e.Stopped {
				fail(errFailed)
			}
		})
	}
	all.Go(func() { r.serve(ctx) })
	r.lasting.Wait()
	end()
	r.listener.Close() //nolint:errcheck // nobody is answered any more
	fail(errEnded)
	all.Wait()
	r.asked.Wait()
	ends = append(ends, r.more...)
	err := errors.Join(errs...)
	if cause := context.Cause(ctx); err == nil && cause != errEnded && cause != errFailed {
		err = cause // a signal
	}
	return ends, err
}

// What ends the programs of a lab.
var (
	errFailed = errors.New("a program failed")
	errEnded  = errors.New("all programs have ended that are not in the background")
)

// play runs the program of one host. An error says why it was not started, or not ready in time.
func (r *run) play(ctx context.Context, e *End) error {
	h := e.Host
	for _, name := range h.WaitFor {
		select {
		case <-r.ready[name]:
		case <-ctx.Done():
			e.Stopped = true
			return nil
		}
	}
	p, err := r.start(e)
	if err != nil {
		return err
	}
	r.runs(h.Name, true)
	defer r.runs(h.Name, false)
	close(r.begun[h.Name])
	defer p.Stop()
	if waiting := r.waiting(h.Name); len(waiting) > 0 {
		if err := p.UntilReady(ctx); ctx.Err() == nil && err != nil {
			ended := p.Ended()
			p.Stop()
			e.Code = unreadyCode(ended, p.Code())
			return err
		}
	}
	close(r.ready[h.Name])
	select {
	case <-p.Done():
	case <-ctx.Done():
		e.Stopped = !p.Ended()
		p.Stop()
	}
	e.Code = p.Code()
	return nil
}

// unreadyCode is the exit code of a program that was not ready in time. Its own counts only if it
// ended by itself: the lab has ended it otherwise.
func unreadyCode(ended bool, code int) int {
	if !ended {
		return program.Failed
	}
	return max(code, program.Failed)
}

// runs notes whether the program of a host runs.
func (r *run) runs(name string, does bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[name] = does
}

// waiting returns the hosts that wait for one.
func (r *run) waiting(name string) (list []string) {
	for i := range r.Lab.Hosts {
		if h := &r.Lab.Hosts[i]; h.Command != nil && slices.Contains(h.WaitFor, name) {
			list = append(list, h.Name)
		}
	}
	return list
}

// start starts the program of a host, under a gorxe run with a daemon of its own.
func (r *run) start(e *End) (*program.Program, error) {
	h := e.Host
	socket := filepath.Join(r.dir, strconv.Itoa(r.rank(h))+".sock") // a name may be too long
	flags := []string{"--socket", socket}
	for _, p := range h.Ports {
		flags = append(flags, "--device", p.Device+"="+p.Interface)
		for _, rule := range linkRules(r.Lab, h, p) {
			flags = append(flags, "--link", rule)
		}
	}
	flags = append(flags, r.Flags...)
	more, err := r.captures(e)
	if err != nil {
		return nil, err
	}
	flags = append(flags, more...)
	c := program.Config{
		Title: "the program of " + h.Name, Flags: flags, Env: r.environment(e),
		Start: func(cmd *exec.Cmd) error { return r.network.Start(h.Name, cmd) }, Files: e.files, Group: e.Asked,
	}
	if e.files == nil {
		c.Ready = program.Ready{
			Timeout: r.Timeout, When: h.ReadyWhen, Key: "ready-when", CM: r.CM, Sockets: []string{socket},
			Otherwise: strings.Join(r.waiting(h.Name), ", ") + " waited for it",
		}
	}
	for _, word := range e.Command {
		c.Program = append(c.Program, r.Lab.FillIn(word))
	}
	if r.Labels && e.files == nil {
		c.Label = h.Name
	}
	return program.Start(c)
}

// captures returns the flags for what the end leaves for the verdict. The first program of a host
// starts the daemon, and chooses the capture, to which a command of gorxe rsh adds. A command that
// comes after that program is not captured.
func (r *run) captures(e *End) (flags []string, err error) {
	if r.Capture == "" {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	e.Saved = filepath.Join(r.Capture, strconv.Itoa(r.started)+".json")
	flags = []string{"--save-to", e.Saved}
	if e.files != nil && !r.running[e.Host.Name] {
		return flags, nil
	}
	e.Capture = filepath.Join(r.Capture, strconv.Itoa(r.rank(e.Host))+".pcapng")
	flags = append(flags, "--pcap", e.Capture)
	if r.CaptureMax == 0 {
		return flags, nil
	}
	if e.files == nil {
		err = os.WriteFile(e.Capture, nil, 0o600)
	}
	return append(flags, "--pcap-max", strconv.FormatUint(r.CaptureMax, 10)), err
}

// environment tells a program where it is, and who else is there.
func (r *run) environment(e *End) (env []string) {
	var all []string
	for i := range r.Lab.Hosts {
		all = append(all, r.Lab.Hosts[i].Name)
	}
	h := e.Host
	env = []string{"GORXE_HOST=" + h.Name, "GORXE_HOSTS=" + strings.Join(all, ","), "GORXE_RANK=" + strconv.Itoa(r.rank(h)), envSocket + "=" + r.socket}
	if slices.Equal(e.Command, idle) {
		env = append(env, "GORXE_FAULTS=", "GORXE_CHAOS=")
	}
	for _, v := range h.Env {
		env = append(env, r.Lab.FillIn(v))
	}
	return env
}

// rank returns the place of a host in the file, from 0.
func (r *run) rank(h *labfile.Host) int {
	return slices.IndexFunc(r.Lab.Hosts, func(o labfile.Host) bool { return o.Name == h.Name })
}

// linkRules returns the fault rules that are the model of the link at a port. A link between two
// hosts has its model at the first of them.
func linkRules(lab *labfile.Lab, h *labfile.Host, p labfile.Port) (rules []string) {
	l := &lab.Links[p.Link]
	if l.Shape == "" || l.Ends[1].Node == h.Name && l.Ends[0].Interface != "" {
		return nil
	}
	for _, way := range []string{"out", "in"} {
		rules = append(rules, fmt.Sprintf("packet shape,%s,direction=%s,scope=device,device=%s,name=%s-%s-%s", l.Shape, way, p.Device, h.Name, p.Interface, way))
	}
	return rules
}

package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// Config says what to run and with which devices.
type Config struct {
	Program []string // empty: the user's shell
	Socket  string   // of --socket
	Private bool     // a daemon of this run's own, at a socket of its own
	// The settings of a private daemon, if none is reachable. A reachable daemon must
	// already have the devices that are named here.
	Devices     []string
	DeviceFlags []string // that chose them, for the command line of a private daemon
	Capture     string
	CaptureMax  uint64 // bytes; 0: without limit
	LogLevel    string
	Speed       proto.Speed // 0: what the interfaces say
	Like        proto.Like  // empty: none is chosen

	ECN       proto.ECN       // of the devices; empty: not said
	Segment   string          // directory of the segment that the daemon joins; empty: not said
	Doorbells proto.Doorbells // of this program
	Faults    []string        // fault rules of this program
	Report    bool            // Outcome shall have a report
	Chaos     uint64          // its seed for this program; 0: none
	Sanitize  string          // checks of this program's sanitizer; empty: none
	// SanitizeAbort has a process end at the first error that the sanitizer finds.
	SanitizeAbort bool
	Label         string   // of this program, for status and fault rules
	Container     bool     // no daemon replaces one that the container runtime has started
	FillIn        bool     // the address for addressWord in Program
	Role          string   // of this program in a run around this one, for reports
	Shown         []string // the command line that the status shows; nil: Program
	// Before, if not nil, is called before anything is started. This process may execute itself
	// before that, so what its caller did earlier may be done twice.
	Before func() error
}

// Outcome is how the program ended.
type Outcome struct {
	status unix.WaitStatus
	// Faults is what the fault rules of Config did. FaultsErr is why that is not known.
	Faults    []fault.Status
	FaultsErr error
	// Errors is how many errors of the program the daemon recorded; 0 if processes of it still run.
	Errors uint64
	// Devices has the names of the program's devices.
	Devices []string
	// Report is what is known of the session, if Config.Report asks for it. ReportErr is why it is
	// not known.
	Report    *proto.Report
	ReportErr error
}

// Status returns the program's exit status, or the signal that ended it.
func (o Outcome) Status() (code int, signal unix.Signal) {
	if o.status.Signaled() {
		return 0, o.status.Signal()
	}
	return o.status.ExitStatus(), 0
}

// Failed says how the program failed, as "exited with status 1"; empty if it succeeded.
func (o Outcome) Failed() string {
	switch {
	case o.status.Signaled():
		return "was killed by " + unix.SignalName(o.status.Signal())
	case o.status.ExitStatus() != 0:
		return fmt.Sprint("exited with status ", o.status.ExitStatus())
	default:
		return ""
	}
}

// Exit ends this process in the same way.
func (o Outcome) Exit() {
	if o.status.Signaled() {
		die(o.status.Signal())
	}
	os.Exit(o.status.ExitStatus())
}

// ExitError is an error with an exit code.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Run runs the program. An error is an *ExitError: the program was not started.
func Run(cfg Config) (Outcome, error) {
	argv := cfg.Program
	if len(argv) == 0 {
		argv = []string{shell()}
	}
	file, err := lookPath(argv[0])
	if err != nil && len(cfg.Program) == 0 {
		err = fmt.Errorf("no shell to run: the environment variable SHELL is %q: %w", os.Getenv("SHELL"), err)
	}
	if err != nil {
		return Outcome{}, &ExitError{Code: exitCode(err), Err: err}
	}
	if Nested() {
		return Outcome{}, cfg.runNested(file, argv)
	}
	outcome, err := cfg.run(file, argv)
	if err != nil {
		return Outcome{}, &ExitError{Code: ExitFailed, Err: err}
	}
	return outcome, nil
}

// runNested executes the program in place of this process, under the gorxe run around it: the
// kernel allows one listener, and the outer one answers already.
func (cfg Config) runNested(file string, argv []string) *ExitError {
	if err := cfg.refuseNested(); err != nil {
		return &ExitError{Code: ExitFailed, Err: err}
	}
	if len(cfg.Devices) > 0 || cfg.Private || cfg.Socket != "" || cfg.Capture != "" || cfg.Speed != 0 || cfg.Like != "" || cfg.ECN != "" || cfg.Segment != "" {
		fmt.Fprintln(os.Stderr, "gorxe: the devices are those of the gorxe run around this one: --private, --device, --devices, --speed, --like, --ecn, --segment, --socket and --pcap have no effect")
	}
	if cfg.Role != "" {
		TellRole(proto.Role{Name: cfg.Role})
	}
	err := execProgram(file, cfg.arguments(argv), os.Environ())
	return &ExitError{Code: exitCode(err), Err: err}
}

// refuseNested refuses what only the outer gorxe run can do.
func (cfg Config) refuseNested() error {
	switch {
	case len(cfg.Faults) > 0:
		return errors.New("fault rules have no effect in a gorxe run within another: give them to the outer one")
	case cfg.Chaos != 0:
		return errors.New("chaos has no effect in a gorxe run within another: give --chaos to the outer one")
	case cfg.Sanitize != "":
		return errors.New("the sanitizer does not work in a gorxe run within another: give --sanitize to the outer one")
	}
	return nil
}

// run runs the program as a job of this process.
func (cfg Config) run(file string, argv []string) (Outcome, error) {
	mask, err := born()
	if err != nil {
		return Outcome{}, err
	}
	if cfg.Before != nil {
		if err := cfg.Before(); err != nil {
			return Outcome{}, err
		}
	}
	if cfg.Private {
		if cfg.Socket, err = proto.PrivateSocket(); err != nil {
			return Outcome{}, err
		}
	}
	f := &front{mask: mask}
	if err := f.start(cfg, file, argv); err != nil {
		return Outcome{}, err
	}
	status, err := f.follow()
	if err != nil {
		return Outcome{}, err
	}
	return f.outcome(status), nil
}

// outcome asks the daemon how the program, which has ended, did.
func (f *front) outcome(status unix.WaitStatus) Outcome {
	o := Outcome{status: status, Errors: f.errors, Devices: f.devices}
	if f.faults != nil {
		o.Faults, o.FaultsErr = f.faults.List()
		f.faults.Close()
	}
	if f.reports != nil {
		o.Report, o.ReportErr = f.reports.Ask()
		f.reports.Close()
	}
	return o
}

// shell returns the user's shell.
func shell() string {
	if sh := os.Getenv("SHELL"); sh != "" {
		return sh
	}
	return "/bin/sh"
}

// Nested reports whether this process runs under a gorxe run. The variable alone proves
// nothing, because a program may have passed it on.
func Nested() bool {
	if os.Getenv(envSession) == "" {
		return false
	}
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n")
}

// front is the process that the user started.
type front struct {
	mask    unix.Sigset_t // as the user started it, and for the program
	in      *inbox
	conn    *proto.Conn    // to the keeper
	faults  *proto.Faults  // nil: there are no fault rules
	reports *proto.Reports // nil: not wanted
	keeper  int            // process
	program int            // process, as the keeper said
	told    int            // notices sent to the keeper
	errors  uint64         // of the program, as the keeper said
	heard   int            // notices that the keeper has handled
	devices []string       // their names
}

// start connects to a daemon and starts the keeper.
func (f *front) start(cfg Config, file string, argv []string) error {
	passed, err := inherited()
	if err != nil {
		return err
	}
	var client *proto.Client
	var hello proto.Hello
	// Until there is a program, signals are for this process.
	err = withMask(f.mask, func() (err error) {
		// A daemon started here must not inherit the program's descriptors.
		setCloseOnExec(passed, true)
		defer setCloseOnExec(passed, false)
		shown := cfg.Shown
		if shown == nil {
			shown = argv
		}
		if client, hello, err = attach(cfg, shown); err == nil && len(cfg.Faults) > 0 {
			err = f.setFaults(client, hello, cfg.Faults)
		}
		if err == nil && cfg.Report {
			f.reports, err = proto.DialReports([]string{client.Socket()}, hello.Session)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer client.Close()
	for _, d := range hello.Devices {
		f.devices = append(f.devices, d.Name)
	}
	// The keeper must not miss signals to the group while it starts.
	if f.in, err = newInbox(); err != nil {
		return err
	}
	tell(client.Socket(), hello)
	p := plan{parent: os.Getpid(), mask: f.mask, file: file, argv: cfg.arguments(argv)}
	if hello.Private {
		p.tracer = hello.PID // of the same user, and of this PID namespace
	}
	if err := f.spawn(client, p); err != nil {
		return err
	}
	// If the keeper is killed, the program becomes this process's child.
	if err := adoptOrphans(); err != nil {
		return err
	}
	return letGo(passed, 0, 1)
}

// setFaults sets the fault rules of the program, which does not run yet.
func (f *front) setFaults(client *proto.Client, hello proto.Hello, rules []string) (err error) {
	if f.faults, err = proto.DialFaults([]string{client.Socket()}, hello.Session); err != nil {
		return err
	}
	_, err = f.faults.Add(rules)
	return err
}

func (f *front) spawn(client *proto.Client, p plan) error {
	ours, theirs, err := proto.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if f.conn, err = proto.NewConn(ours); err != nil {
		return err
	}
	sock, err := client.File()
	if err != nil {
		return err
	}
	defer sock.Close()
	if p.front, err = passOn(theirs); err != nil {
		return err
	}
	defer unix.Close(p.front)
	if p.daemon, err = passOn(sock); err != nil {
		return err
	}
	defer unix.Close(p.daemon)
	return withBlocked(func() error {
		f.keeper, err = syscall.ForkExec(self, p.keeperArgs(), &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2},
		})
		if err != nil {
			return fmt.Errorf("starting the keeper: %w", err)
		}
		return nil
	})
}

// errKeeperDied: no process knows the state of the program.
var errKeeperDied = errors.New("the keeper of the program died")

// follow passes signals on until the program has ended, and stops when the program stops.
func (f *front) follow() (unix.WaitStatus, error) {
	wake, reports := make(chan struct{}), make(chan report)
	go f.in.watch(wake)
	go f.listen(reports)
	for {
		// If the socket were full in both directions, neither end would read.
		quiet, loud := wake, f.in.loud
		if f.told-f.heard >= maxUnheard {
			quiet, loud = nil, nil
		}
		select {
		case <-quiet:
			f.tell(nil)
		case s := <-loud:
			f.tell([]arrival{{Signal: s.(unix.Signal)}})
		case r, ok := <-reports:
			switch {
			case !ok:
				return f.orphaned(wake)
			case r.Ended:
				f.errors = r.Errors
				return unix.WaitStatus(r.Status), nil
			case r.Error != "":
				return 0, errors.New(r.Error)
			case r.Say != "":
				complain("%s", r.Say)
			case r.Started != 0:
				f.program = r.Started
			case r.Heard != 0:
				if r.Settle {
					f.in.settle()
				}
				f.tell(nil) // with what it had heard before: see canary
				f.heard = r.Heard
			case r.Stopped != 0:
				f.stop(unix.Signal(r.Stopped), r.Stop)
			}
		}
	}
}

// listen receives the keeper's reports until it ends.
func (f *front) listen(reports chan<- report) {
	defer close(reports)
	for {
		var r report
		if err := f.conn.RecvOnly(&r); err != nil {
			return
		}
		reports <- r
	}
}

// maxTold bounds the signals in a notice. Real-time signals may queue by the
// thousand.
const maxTold = 64

// maxUnheard bounds the notices that the keeper has not handled.
const maxUnheard = 16

// tell sends a notice of these signals and of those in the inbox, if there are any.
func (f *front) tell(signals []arrival) {
	for list := range slices.Chunk(append(signals, f.in.drain()...), maxTold) {
		f.send(notice{Signals: list})
	}
}

func (f *front) send(n notice) {
	f.told++
	n.Number, n.Heard = f.told, f.heard
	f.conn.Send(n) //nolint:errcheck // the keeper's end is noticed by listen
}

// stop stops this process, as the program has stopped, until it is continued. See
// job.
func (f *front) stop(s unix.Signal, number int) {
	f.tell(nil) // before a SIGCONT cancels the signal that stopped the program
	if isStopped(f.program) {
		raise(s)
	}
	list := f.in.drain()
	now := min(len(list), maxTold)
	f.send(notice{Resumed: number, Signals: list[:now]})
	f.tell(list[now:])
}

// orphaned follows the program without a keeper: it is this process's child now.
func (f *front) orphaned(wake <-chan struct{}) (unix.WaitStatus, error) {
	if f.program == 0 {
		for _, a := range f.in.drain() {
			if f.in.isLoud(a.Signal) {
				die(a.Signal) // the keeper got it before it could catch it
			}
		}
		return 0, errKeeperDied
	}
	// The program's end comes before its children get another parent.
	for {
		if _, err := unix.Wait4(f.keeper, nil, 0, nil); err != unix.EINTR {
			break
		}
	}
	complain("%v; the program goes on", errKeeperDied)
	go f.forward(wake)
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(f.program, &ws, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, errKeeperDied
		case pid == f.program && ws.Stopped():
			raise(ws.StopSignal())
		case pid == f.program:
			return ws, nil
		}
	}
}

// forward passes signals on when there is no keeper to say whether the program has them. The
// program has signals that the kernel sent, because these come from a terminal and go to the
// group.
func (f *front) forward(wake <-chan struct{}) {
	const siKernel = 0x80 // si_code (sigaction(2))
	for {
		var list []arrival
		select {
		case <-wake:
			list = f.in.drain()
		case s := <-f.in.loud:
			list = []arrival{{Signal: s.(unix.Signal)}}
		}
		for _, a := range list {
			if a.Code != siKernel {
				_ = unix.Kill(f.program, a.Signal) // it is not reaped before this process ends
			}
		}
	}
}

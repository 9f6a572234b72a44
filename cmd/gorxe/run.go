package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/verdict"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// deviceFlags are those of run and daemon.
type deviceFlags struct {
	selection `embed:""`
	Socket    string          `placeholder:"PATH" predictor:"file" help:"Socket of the daemon (default: $$GORXE_SOCKET; else /run/gorxe.sock for root; else gorxe.sock in $$XDG_RUNTIME_DIR, /run/user/UID or /tmp/gorxe-UID, then /run/gorxe.sock)."`
	PCAP      string          `name:"pcap" placeholder:"FILE" predictor:"file" help:"Capture every packet of the devices to this pcapng file, including packets that reach no network."`
	Doorbells proto.Doorbells `name:"doorbells" placeholder:"WHICH" predictor:"doorbells" help:"How post_send notifies the device: trapped (returns errors as rdma_rxe does), direct (more messages a second), or auto (the default: direct, but trapped on a machine with one processor). See gorxe help doorbells."`
	ECN       proto.ECN       `name:"ecn" placeholder:"WHAT" predictor:"ecn" help:"How the devices answer congestion: on (the default), off, or parameters of DCQCN with commas between them. Their names are mlx5's, and their defaults min_time_between_cnps=50 (µs), cnp_dscp=48, dce_tcp_rtt=55 (µs), dce_tcp_g=1020 (of 1024), rpg_time_reset=55 (µs), rpg_byte_reset=10000000, rpg_threshold=5, rpg_ai_rate=40 (Mb/s), rpg_hai_rate=400 (Mb/s), rpg_min_rate=100 (Mb/s). See gorxe help ecn."`
	Segment   string          `placeholder:"DIR" predictor:"file" help:"Join the virtual Ethernet segment of the user's raw packets to those of all daemons of this user that have this directory. It is made if there is none. See gorxe help connectx."`
	LogLevel  string          `name:"log-level" enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" predictor:"level" help:"debug, info, warn or error."`
}

// privateFlag is the flag --private, which run and pair have.
type privateFlag struct {
	Private bool `help:"A daemon and a socket of its own, and free loopback addresses for the devices unless --device says where they are. So runs of several users, and parallel jobs, do not meet. The programs find the address of the first device in $$GORXE_ADDRESS."`
}

// alone makes the flags those of a run that meets no other.
func (f *privateFlag) alone(d *deviceFlags) error {
	if !f.Private {
		return nil
	}
	if d.Socket != "" {
		return usageError{errors.New("--private has a socket of its own: leave --socket out")}
	}
	d.Devices, d.Device = proto.FreePlaces(d.devices(), d.Device, d.Like)
	d.Rails = 0
	return nil
}

// trialFlags choose what goes wrong in a run, and whether it says why something failed.
type trialFlags struct {
	Fault         []string  `placeholder:"RULE" sep:"none" predictor:"fault" help:"What goes wrong, as 'packet drop,opcode=RC_SEND_ONLY,first=1' (repeatable; more rules in $$GORXE_FAULTS, with semicolons between them). A rule that never fires fails the run: exit code 3. See gorxe help faults."`
	Faults        []string  `placeholder:"FILE" sep:"none" predictor:"file" help:"A YAML file with rules for what goes wrong (repeatable). See gorxe help faults."`
	FaultsMayMiss bool      `name:"faults-may-miss" help:"Fault rules need not fire."`
	FaultReport   string    `name:"fault-report" placeholder:"FILE" predictor:"file" help:"Write what the fault rules did to this file, as JSON."`
	Explain       bool      `help:"At the end, print why verbs were refused and why work requests failed."`
	Chaos         chaosSeed `placeholder:"SEED" predictor:"seed" help:"Delay and reorder all that the specification lets a device delay and reorder. The seed, a number from 1 on, decides what happens. With random, gorxe chooses the seed. $$GORXE_CHAOS has it if the flag is missing. See gorxe help chaos."`

	sanitizeFlags `embed:""`
}

// wanted reports whether one of them is given.
func (f *trialFlags) wanted() bool {
	return len(f.Fault) > 0 || len(f.Faults) > 0 || f.FaultReport != "" || f.Explain || f.Chaos != 0 || f.Sanitize != ""
}

type runCmd struct {
	deviceFlags  `embed:""`
	privateFlag  `embed:""`
	trialFlags   `embed:""`
	Label        string `placeholder:"NAME" help:"A name for the program, which gorxe status shows. Fault rules may name it (label=NAME), and gorxe fault --label chooses it."`
	verdictFlags `embed:""`
	ExplainTo    string `name:"explain-to" env:"GORXE_EXPLAIN_TO" placeholder:"FILE" predictor:"file" help:"At the end, append that to this file, if there is something to say. $$GORXE_EXPLAIN_TO has the file if the flag is missing, for each run that a script or a test starts."`
	Container    bool   `hidden:"" help:"The container runtime has made the socket."`
	labFlags     `embed:""`
	FillIn       bool     `name:"fill-in" hidden:"" help:"Put the address for the word {address} of the program's arguments."`
	Role         string   `name:"role" hidden:"" help:"What the program is in the gorxe run around this one."`
	Program      []string `arg:"" optional:"" passthrough:"" predictor:"program" help:"The program and its arguments; the user's shell if there is none."`

	shown []string // what the user typed, if that is gorxe pair; else nil
}

// Help is the part of `gorxe run --help` above the flags.
func (runCmd) Help() string {
	return `The program finds an RDMA device, rxe0, as if the kernel had one. Stock libibverbs and its rxe provider work unmodified. This needs no root, no kernel module and no RDMA hardware. The program's children have the device too.

If a daemon is reachable at the socket, the program attaches to it. Otherwise gorxe run starts one that serves the socket. Runs that overlap in time share its devices, and it ends with the last program. A run after that has nothing of the runs before it, and --pcap begins a new file. With --private a run shares nothing but the TCP ports of the machine.

The program finds the IP address of its first device in $GORXE_ADDRESS.

The exit code is the program's. A signal that ends the program ends this command too. Other exit codes are 125: gorxe failed and did not start the program; 126: the program cannot be executed; 127: there is no such program; 2: the command line is wrong. An interface or an address that this host does not have is 125. 3: a fault rule never fired, whatever the program's exit code is. 4: --sanitize has found an error, whatever that is. This command returns when the program ends. Processes that the program left in the background keep their devices.

Examples:
  gorxe run ibv_devinfo -v
  gorxe run -- ibv_rc_pingpong -d rxe0 -g 1
  gorxe run --private --pcap test.pcapng -- sh -c 'exec ./my-test --address $GORXE_ADDRESS'
  gorxe run --devices 8 ibv_devices
  gorxe run --fault 'packet drop,p=1%,seed=7' ./my-test
  gorxe run --explain ./my-test
  gorxe run --chaos 7 ./my-test   # or --chaos random
  gorxe run --sanitize ./my-test
  gorxe run --verdict-on-failure verdict ./my-test
  gorxe run                       # a shell`
}

// selection chooses devices.
type selection struct {
	Device  []string    `placeholder:"NAME=WHERE" predictor:"device" sep:"none" help:"A device on an interface or an address, or NAME=free for a free loopback address (repeatable; default: rxe0 on the interface of the default route, or lo). One named mlx5_0, mlx5_1 and so on is like a ConnectX: see --like."`
	Devices string      `xor:"devices" placeholder:"N|INTERFACE" predictor:"interface" help:"N devices, rxe0 and so on, on 127.0.0.1 and the addresses after it, or one on each address of INTERFACE. --device adds further devices."`
	Rails   int         `xor:"devices" placeholder:"N" help:"N devices as the rails of a machine: one on each of N interfaces with addresses, or all on 127.0.0.1 and the addresses after it. They go round the NUMA nodes, and have short tables of GIDs. Instead of --devices."`
	Speed   proto.Speed `placeholder:"GBPS" help:"Speed of the ports in Gb/s, as programs see it (default: the interface's, and 40 for lo and veth; or the adapter's, with --like). It limits nothing. For one device: NAME=WHERE,speed=GBPS."`
	Like    proto.Like  `placeholder:"ADAPTER" predictor:"like" help:"Devices that look like this adapter, as connectx6 (the default for devices of these names) or connectx7-400g: mlx5_0, mlx5_1 and so on, which libmlx5 drives. For one device: NAME=WHERE,like=ADAPTER. gorxe help connectx has the list."`
}

// devices is the value of --devices. Other commands, and the daemon, know rails by it.
func (f *selection) devices() string {
	if f.Rails != 0 {
		return proto.Rails(f.Rails)
	}
	return f.Devices
}

// specs returns the devices that the flags name. An ErrSpec is a usage error.
func (f *selection) specs() ([]proto.Spec, error) {
	specs, err := proto.ParseSpecs(f.devices(), f.Device, f.Like)
	if err == nil {
		err = proto.Agree(specs, f.Speed, f.Like)
	}
	if errors.Is(err, proto.ErrSpec) {
		err = usageError{f.meant(err)}
	}
	return specs, err
}

// meant says how a device is named, if a flag has only where it is.
func (f *selection) meant(err error) error {
	for _, text := range f.Device {
		_, notAddress := netip.ParseAddr(text)
		if _, notInterface := net.InterfaceByName(text); notAddress == nil || notInterface == nil {
			return fmt.Errorf("%w: did you mean --device rxe0=%s?", err, text)
		}
	}
	return err
}

// flags returns the flags that chose the devices, for another command.
func (f *selection) flags() (list []string) {
	if f.devices() != "" {
		list = append(list, "--devices", f.devices())
	}
	for _, text := range f.Device {
		list = append(list, "--device", text)
	}
	return list
}

// named puts the flag that chose a device in front of the device's error.
func (f *selection) named(err error) error {
	var device *proto.DeviceError
	if !errors.As(err, &device) {
		return err
	}
	for _, text := range f.Device {
		if s, err := proto.ParseSpec(text); err == nil && s.Name == device.Device.Name {
			return fmt.Errorf("--device %s: %w", text, device.Err)
		}
	}
	switch {
	case f.Rails != 0:
		return fmt.Errorf("--rails %d: %w", f.Rails, err)
	case f.Devices != "":
		return fmt.Errorf("--devices %s: %w", f.Devices, err)
	}
	return err
}

func texts(specs []proto.Spec) (list []string) {
	for _, s := range specs {
		list = append(list, s.String())
	}
	return list
}

// Run runs the program. It returns only if it could not start the program.
func (c runCmd) Run(std streams) error {
	if err := c.alone(&c.deviceFlags); err != nil {
		return err
	}
	if err := misplaced("run", c.Program, taken(c.deviceFlags.taking(), c.verdictFlags.taking(), c.trialFlags.taking())); err != nil {
		return err
	}
	if err := unquoted(c.Fault, c.Program); err != nil {
		return err
	}
	specs, err := c.specs()
	if err != nil {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
	}
	program := c.Program
	if len(program) > 0 && program[0] == "--" { // the parser passes it through with the program
		program = program[1:]
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	if err := c.chooseChecks(); err != nil {
		return err
	}
	seed, err := c.seed()
	if err != nil {
		return err
	}
	if c.Label != "" {
		if err := fault.CheckLabel(c.Label); err != nil {
			return usageError{err}
		}
	}
	capture, err := c.capture(c.PCAP)
	if err != nil {
		return err
	}
	if err := enoughSpace(); err != nil {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
	}
	ran := &verdict.Run{Command: program, Role: c.Role, Pair: c.shown != nil, Chaos: uint64(seed), Started: time.Now()}
	if c.shown != nil {
		ran.Command = c.shown
	}
	outcome, err := keeper.Run(keeper.Config{
		Program: program, Socket: c.Socket, Private: c.Private, Container: c.Container, FillIn: c.FillIn, Role: c.Role, Shown: c.shown,
		Devices: texts(specs), DeviceFlags: c.flags(), Speed: c.Speed, Like: c.Like, ECN: c.ECN, Segment: c.Segment, Doorbells: c.Doorbells, Capture: cmp.Or(capture, c.PCAP), LogLevel: c.LogLevel,
		Faults: slices.Concat(c.Link, rules), Chaos: uint64(seed), Label: c.Label, Report: c.Explain || c.ExplainTo != "" || capture != "" || c.SaveTo != "" || len(rules) > 0 || c.Sanitize != "", Sanitize: string(c.Sanitize), SanitizeAbort: c.SanitizeAbort, CaptureMax: cmp.Or(c.captureMax(), c.PCAPMax), Before: c.prepare,
	})
	if err != nil {
		return c.failed(withPackage(err, program))
	}
	if outcome.Report != nil {
		ended(outcome.Report.Errors.Errors, outcome.Faults)
	}
	links := c.takeLinks(&outcome)
	c.name(&outcome)
	if c.Explain {
		explainRun(outcome, std.err)
	}
	if c.ExplainTo != "" {
		if err := explainTo(c.ExplainTo, outcome); err != nil {
			complain(std, err)
		}
	}
	how := outcome.Failed()
	for _, hint := range c.hints(&outcome, program) {
		fmt.Fprintf(std.err, "gorxe: %s\n", hint)
	}
	if how != "" && seed != 0 {
		fmt.Fprintf(std.err, "gorxe: chaos: the program %s; to repeat it: gorxe run --chaos %d\n", how, seed)
	}
	missed := c.faultsFired(outcome, rules, std)
	if capture != "" {
		ran.Missed = missed != nil
		c.write(ran, &outcome, std)
	}
	c.save(ran, &outcome, missed != nil, links, std)
	if err := c.sanitized(&outcome, std); err != nil {
		return err
	}
	if missed != nil {
		return missed
	}
	outcome.Exit()
	return nil // not reached
}

// hints says what gorxe knows of a run that has ended, beside its errors.
func (c *runCmd) hints(outcome *keeper.Outcome, program []string) (hints []string) {
	add := func(hint string) {
		if hint != "" {
			hints = append(hints, hint)
		}
	}
	unexplained := ""
	add(late(program)) // the user expects what the flag does
	if outcome.Failed() != "" {
		add(absent(program, outcome.Devices))
		unexplained = c.unexplained(outcome.Errors, outcome.Faults)
	}
	// Else a run that succeeds prints nothing of its own: scripts compare what its program says. A
	// pair has labels, and says which rules fired. Rules that did not have a table.
	quiet := outcome.Failed() == "" && c.shown == nil
	if unexplained == "" && !quiet && len(fault.Missed(outcome.Faults)) == 0 {
		unexplained = fired(outcome.Faults)
	}
	add(unexplained)
	return hints
}

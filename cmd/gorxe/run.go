package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/daemon"
	"github.com/gorxe/gorxe/internal/keeper"
)

// deviceFlags are those of run and daemon.
type deviceFlags struct {
	Device    []string         `placeholder:"NAME=WHERE" sep:"none" help:"A device on an interface or an address (repeatable; default: rxe0 on the interface of the default route, or lo)."`
	Socket    string           `placeholder:"PATH" help:"Socket of the daemon (default: $$GORXE_SOCKET; else root's is /run/gorxe.sock, and a user's $$XDG_RUNTIME_DIR/gorxe.sock, then /run/gorxe.sock)."`
	PCAP      string           `name:"pcap" placeholder:"FILE" help:"Capture every packet of the devices, also those that reach no network, to this pcapng file."`
	Doorbells daemon.Doorbells `name:"doorbells" placeholder:"WHICH" help:"Which doorbells (the system call of post_send) are trapped: trapped (all: errors as rdma_rxe's), direct (none: more messages), auto (the default: trapped unless that is slow here). See docs/compatibility.md."`
	LogLevel  string           `name:"log-level" enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" help:"debug, info, warn or error."`
}

type runCmd struct {
	deviceFlags `embed:""`
	Program     []string `arg:"" optional:"" passthrough:"" help:"The program and its arguments; the user's shell if there is none."`
}

// Help is the part of `gorxe run --help` above the flags.
func (runCmd) Help() string {
	return `The program finds an RDMA device, rxe0, as if the kernel had one: stock libibverbs and its rxe provider work unmodified. It needs no root, no kernel module and no RDMA hardware. The program's children have the device too.

If a daemon is reachable at the socket, the program attaches to it. Otherwise one is started that serves the socket, so that further runs share its devices, and that ends with the last of them.

The exit code is the program's; a signal that ends the program ends this command too. 125: gorxe failed, and the program was not started; 126: it cannot be executed; 127: there is none of that name; 2: the command line is wrong. When the program ends this command returns; what the program left running in the background keeps its devices.

Examples:
  gorxe run ibv_devinfo -v
  gorxe run -- ibv_rc_pingpong -d rxe0 -g 1
  gorxe run --device rxe0=127.0.0.1 --pcap ping.pcapng -- bash -c 'ibv_rc_pingpong -g 0 & sleep 1; ibv_rc_pingpong -g 0 localhost'
  gorxe run                       # a shell`
}

// Run runs the program. It returns only if that was not possible.
func (c runCmd) Run() error {
	if _, err := daemon.ParseSpecs(c.Device); errors.Is(err, daemon.ErrSpec) {
		return usageError{err}
	}
	program := c.Program
	if len(program) > 0 && strings.HasPrefix(program[0], "-") { // the parser passes these through with the rest
		if program[0] != "--" {
			return usageError{fmt.Errorf("unknown flag %s: see gorxe run --help; a program of that name goes after --", program[0])}
		}
		program = program[1:]
	}
	outcome, err := keeper.Run(keeper.Config{
		Program: program, Socket: c.Socket,
		Devices: c.Device, Doorbells: c.Doorbells, Capture: c.PCAP, LogLevel: c.LogLevel,
	})
	if err != nil {
		return err
	}
	outcome.Exit()
	return nil // not reached
}

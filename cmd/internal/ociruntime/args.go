package ociruntime

import (
	"fmt"
	"slices"
	"strings"
)

// Flags of this runtime. An engine passes them in front of the command: dockerd from
// runtimeArgs in daemon.json, podman from --runtime-flag.
const (
	flagSocket  = "--gorxe-socket"  // a daemon of the host, for all containers
	flagRuntime = "--gorxe-runtime" // the runtime that does the work
)

// globalValues are runc's and crun's global flags with a value in the next argument.
var globalValues = []string{"--log", "--log-format", "--log-level", "--root", "--criu", "--rootless", "--cgroup-manager"}

// execValues are those of the command exec.
var execValues = []string{"--console-socket", "--cwd", "--env", "-e", "--user", "-u", "--additional-gids", "-g",
	"--process", "-p", "--pid-file", "--process-label", "--apparmor", "--cap", "-c", "--preserve-fds", "--cgroup"}

// createValues are those of the commands create, run and restore.
var createValues = []string{"--bundle", "-b", "--console-socket", "--pid-file", "--preserve-fds", "--image-path",
	"--work-path", "--parent-path", "--manage-cgroups-mode", "--lsm-profile", "--lsm-mount-context", "--status-fd",
	"--page-server", "--empty-ns", "--file", "-f", "--config"}

// invocation is the command line of the engine.
type invocation struct {
	socket, runtime string   // this runtime's flags
	log             string   // --log, where engines look for errors
	args            []string // the rest: the command line of the other runtime
	command         string   // create, exec and so on; empty if there is none
	at              int      // where the command is in args
	id              string   // of exec's container
	bundle          string   // of create, run and restore
	process         string   // the file of exec's process; empty if its words are in args
	words           int      // where these begin in args; 0 if there are none
}

// parse reads a command line as runc does.
func parse(args []string) (*invocation, error) {
	inv := &invocation{bundle: "."}
	for i := 0; i < len(args); i++ {
		name, value, valued := strings.Cut(args[i], "=")
		own := map[string]*string{flagSocket: &inv.socket, flagRuntime: &inv.runtime}[name]
		switch {
		case own != nil && valued:
			*own = value
		case own != nil && i+1 < len(args):
			i++
			*own = args[i]
		case own != nil:
			return nil, fmt.Errorf("%s needs a value", name)
		case !strings.HasPrefix(name, "-"):
			inv.command = args[i]
			inv.at = len(inv.args)
			inv.args = append(inv.args, args[i:]...)
			inv.parseCommand(inv.at + 1)
			return inv, nil
		default:
			inv.args = append(inv.args, args[i])
			if !valued && slices.Contains(globalValues, name) && i+1 < len(args) {
				i++
				value = args[i]
				inv.args = append(inv.args, value)
			}
			if name == "--log" {
				inv.log = value
			}
		}
	}
	return inv, nil
}

// parseCommand looks at the flags of the command, which begin at args[at].
func (inv *invocation) parseCommand(at int) {
	values := createValues
	if inv.command == "exec" {
		values = execValues
	}
	for i := at; i < len(inv.args); i++ {
		name, value, valued := strings.Cut(inv.args[i], "=")
		if !strings.HasPrefix(name, "-") || name == "-" {
			if inv.command != "exec" {
				return
			}
			if inv.id = inv.args[i]; i+1 < len(inv.args) {
				inv.words = i + 1
			}
			return
		}
		if !valued && slices.Contains(values, name) && i+1 < len(inv.args) {
			i++
			value = inv.args[i]
		}
		switch name {
		case "--bundle", "-b":
			inv.bundle = value
		case "--process", "-p":
			inv.process = value
		}
	}
}

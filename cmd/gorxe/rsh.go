package main

import (
	"strings"

	"github.com/gorxe/gorxe/cmd/internal/lab"
)

type rshCmd struct {
	Host    string   `arg:"" help:"The host."`
	Command []string `arg:"" passthrough:"" predictor:"program" help:"The command: words of a line for the shell."`
}

// Help is the part of `gorxe rsh --help` above the flags.
func (rshCmd) Help() string {
	return `A program of a lab (gorxe lab) runs a command on another host of it, as with ssh or rsh. The words of the command, with spaces between them, are a line for the shell there. The command has the devices of that host, and the standard input, output and errors of this one. The exit code is the command's, and 125 if it was not started. The command ends if this one does.

Examples:
  gorxe rsh h2 hostname
  mpirun --mca plm_rsh_agent 'gorxe rsh' --host h1,h2 ./my-test`
}

// Run runs the command.
func (c rshCmd) Run() error {
	code, err := lab.Rsh(c.Host, strings.Join(c.Command, " "))
	if err == nil && code != 0 {
		err = errSaid // by the command
	}
	return exitCode(code, err)
}

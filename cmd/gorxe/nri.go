package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/gorxe/gorxe/cmd/internal/nri"
)

type nriCmd struct {
	Socket    string `default:"/var/run/nri/nri.sock" placeholder:"PATH" help:"Where containerd or CRI-O takes plugins (default: /var/run/nri/nri.sock)."`
	Binary    string `placeholder:"PATH" help:"The gorxe that containers get, as the host names it (default: this one)."`
	Directory string `default:"/run" placeholder:"DIR" help:"Where the daemons of containers have their sockets, as the host names it (default: /run)."`
}

// Help is the part of `gorxe nri --help` above the flags.
func (nriCmd) Help() string {
	return `Gives RDMA devices to the containers of pods with the annotation ` + nri.Annotation + `: "yes", or the names of containers with commas between them. It is a plugin of NRI, the Node Resource Interface of containerd 2.2, CRI-O 1.34 and newer ones, and changes nothing in their configuration. GORXE_DEVICES in a container's environment chooses devices, as with gorxe-runtime (see https://github.com/gorxe/gorxe/blob/main/docs/containers.md). NRI sees no process that exec adds: start it with /.gorxe/gorxe run.

It runs as root until SIGTERM or SIGINT, and waits for an engine that starts again. The exit code is 0 after such an end, 1 if there is no engine that it suits, 2 if the command line is wrong.

Examples:
  gorxe nri
  gorxe nri --binary /opt/gorxe/bin/gorxe`
}

// Run serves until a signal.
func (c nriCmd) Run(ctx context.Context, std streams) error {
	if c.Binary == "" {
		var err error
		if c.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if info, err := os.Stat(c.Binary); err != nil {
		return fmt.Errorf("--binary: %w", err)
	} else if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("--binary: %s is no program", c.Binary)
	}
	p := nri.Plugin{Socket: c.Socket, Binary: c.Binary, Sockets: c.Directory, Log: slog.New(slog.NewTextHandler(std.err, nil))}
	return p.Run(ctx)
}

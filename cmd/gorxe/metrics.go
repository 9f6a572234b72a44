package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/gorxe/gorxe/internal/service/metrics"
	"github.com/gorxe/gorxe/internal/service/pod"
	"github.com/gorxe/gorxe/internal/service/proto"
)

type metricsCmd struct {
	Address   string `arg:"" optional:"" name:"HOST:PORT" default:"127.0.0.1:9879" help:"Where to serve (default: 127.0.0.1:9879, for this host only)."`
	Directory string `placeholder:"DIR" help:"Where the daemons of containers have their sockets (default: /run for root)."`
}

// Help is the part of `gorxe metrics --help` above the flags.
func (metricsCmd) Help() string {
	return `Serves metrics for Prometheus of the devices of all containers of this host, at http://HOST:PORT/metrics: what gorxe daemon --metrics has, with the labels namespace, pod and container. It has those of Kubernetes, and the ids of other engines' containers. It runs as the user of gorxe-runtime, which is root as a rule, until SIGTERM or SIGINT. No password protects the metrics.

The exit code is 0 after such an end, 1 if it could not serve, 2 if the command line is wrong.

Examples:
  gorxe metrics
  gorxe metrics :9879 --directory /host/run`
}

// Run serves until a signal.
func (c metricsCmd) Run(ctx context.Context, std streams) error {
	dir := c.Directory
	if dir == "" {
		var err error
		if dir, err = pod.Directory(); err != nil {
			return err
		}
	}
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("--directory: %w", err)
	}
	ln, err := metrics.Listen(c.Address)
	if err != nil {
		return err
	}
	server := metrics.ServeContainers(ln, func() ([]proto.PodStatus, []error) { return pod.Statuses(dir) },
		slog.New(slog.NewTextHandler(std.err, nil)))
	defer server.Close()
	fmt.Fprintf(std.err, "gorxe: metrics of containers are served at http://%v/metrics\n", ln.Addr())
	<-ctx.Done()
	return nil
}

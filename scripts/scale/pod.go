package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// pod is a running `gorxe run`.
type pod struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

// startPod returns when the program of the pod starts: the device is ready then.
func startPod(ctx context.Context, gorxe string, program []string) (*pod, error) {
	const script = `ip link set lo up && exec "$0" run --private -- sh -c 'echo ready; exec "$@" > /dev/null' sh "$@"`
	p := &pod{cmd: exec.CommandContext(ctx, "sh", append([]string{"-c", script, gorxe}, program...)...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		p.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		p.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		p.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("a pod in a network namespace: %w", err)
	}
	if line, err := bufio.NewReader(p.out).ReadString('\n'); line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("a pod began with %q: %w", line, err), p.stop())
	}
	return p, nil
}

// stop ends the pod by SIGTERM, which gorxe run passes to its program.
func (p *pod) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, _ = io.Copy(io.Discard, p.out) // until all processes have closed it
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

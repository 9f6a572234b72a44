package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// docker is a dockerd with its containerd, of this test only.
type docker struct {
	t   *testing.T
	dir string
}

// newDocker starts dockerd with gorxe as a runtime, and makes the image.
func newDocker(t *testing.T) *docker {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for dockerd")
	}
	d := &docker{t, t.TempDir()}
	in := func(name string) string { return filepath.Join(d.dir, name) }
	config, err := json.Marshal(map[string]any{
		"data-root": in("data"), "exec-root": in("exec"), "pidfile": in("pid"), "hosts": []string{"unix://" + in("socket")},
		"bridge": "none", "iptables": false, "ip-forward": false, "exec-opts": []string{"native.cgroupdriver=cgroupfs"},
		"runtimes": map[string]any{"gorxe": map[string]string{"path": buildRuntime(t)}},
	})
	if err == nil {
		err = os.WriteFile(in("daemon.json"), config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(in("log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "dockerd", "--config-file", in("daemon.json"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait() //nolint:errcheck // it was told to end
		if t.Failed() {
			text, _ := os.ReadFile(in("log"))
			t.Logf("dockerd:\n%s", text)
		}
	})
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("unix", in("socket"))
		if err == nil {
			c.Close()
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal(err)
		}
	}
	if err := makeRoot(); err != nil {
		t.Fatal(err)
	}
	if text, code := d.docker("import", "../../bin/root-bookworm.tar", "debian-rdma"); code != 0 {
		t.Fatalf("docker import: %s", text)
	}
	return d
}

// docker returns what a command says, and its exit code.
func (d *docker) docker(words ...string) (string, int) {
	d.t.Helper()
	cmd := exec.Command("docker", append([]string{"--host", "unix://" + filepath.Join(d.dir, "socket")}, words...)...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// TestDocker: containers of Docker and its containerd, with Docker's seccomp profile.
func TestDocker(t *testing.T) {
	t.Parallel()
	d := newDocker(t)
	run := []string{"run", "--rm", "--runtime=gorxe", "--network", "none"}
	for name, c := range map[string]struct {
		words []string
		says  string
		code  int
	}{
		"exit code":       {[]string{"debian-rdma", "sh", "-c", "ibv_devices; exit 4"}, "rxe0", 4},
		"ordinary user":   {[]string{"--user", "1234", "debian-rdma", "sh", "-c", "ibv_devices; id -u"}, "1234", 0},
		"no capabilities": {[]string{"--cap-drop", "all", "--read-only", "debian-rdma", "ibv_devices"}, "rxe0", 0},
		"drops root":      {[]string{"debian-rdma", "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "ibv_devices"}, "rxe0", 0},
		"Docker's init":   {[]string{"--init", "debian-rdma", "sh", "-c", "ibv_devices; exit 5"}, "rxe0", 5},
		"a terminal":      {[]string{"--tty", "debian-rdma", "sh", "-c", "ibv_devices; tty"}, "/dev/pts/0", 0},
		"a pair": {[]string{"debian-rdma", "bash", "-c", `ibv_rc_pingpong -g 1 >/dev/null & until grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; do :; done
			ibv_rc_pingpong -g 1 127.0.0.1 && wait $!`}, "8192000 bytes", 0},
	} {
		if text, code := d.docker(append(run[:len(run):len(run)], c.words...)...); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", name, code, c.code, c.says, text)
		}
	}
	if text, code := d.docker("run", "--detach", "--name", "long", "--runtime=gorxe", "--network", "none", "debian-rdma", "sh", "-c", "trap 'exit 6' TERM; echo ready; while :; do sleep 0.1; done"); code != 0 {
		t.Fatalf("%s", text)
	}
	if text, code := d.docker("exec", "long", "sh", "-c", "ibv_devices; exit 9"); code != 9 || !strings.Contains(text, "rxe0") {
		t.Errorf("exec: exit code %d\n%s", code, text)
	}
	if text, code := d.docker("run", "--rm", "--runtime=gorxe", "--network", "container:long", "debian-rdma", "sh", "-c", "ibv_devices; exit 7"); code != 7 || !strings.Contains(text, "rxe0") {
		t.Errorf("a container of the same network: exit code %d\n%s", code, text)
	}
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if text, _ := d.docker("logs", "long"); strings.Contains(text, "ready") {
			break // the shell has its trap
		}
		if time.Since(start) > time.Minute {
			t.Fatal("the container does not start")
		}
	}
	if text, code := d.docker("stop", "long"); code != 0 {
		t.Errorf("stop: %s", text)
	}
	if text, _ := d.docker("wait", "long"); strings.TrimSpace(text) != "6" {
		t.Errorf("a stopped container ends with %s", text)
	}
	d.docker("rm", "long")
	nothingLeft(t, filepath.Join(d.dir, "data"))
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// podman runs containers of an image that has nothing of gorxe, with gorxe as the runtime.
type podman struct {
	t     *testing.T
	dir   string
	flags []string
	env   []string // nil: that of the test
}

const testImage = "localhost/debian-rdma"

// podmanTurn is held by a test that runs podman as root: the locks of all its storages are in one
// file of /dev/shm, and a new storage frees them.
var podmanTurn sync.Mutex

// newPodman makes the image from the Debian of the package's test.
func newPodman(t *testing.T) *podman {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: podman's storage and network namespaces")
	}
	podmanTurn.Lock()
	t.Cleanup(podmanTurn.Unlock)
	p := &podman{t: t, dir: t.TempDir()}
	p.flags = []string{"--root", filepath.Join(p.dir, "root"), "--runroot", filepath.Join(p.dir, "run"), "--cgroup-manager", "cgroupfs", "--runtime", buildRuntime(t)}
	if err := makeRoot(); err != nil {
		t.Fatal(err)
	}
	p.ok("import", "-q", "../../bin/root-bookworm.tar", testImage)
	t.Cleanup(func() {
		p.podman("rm", "--all", "--force", "--time", "0")
		p.podman("rmi", "--all", "--force")
		p.podman("unmount", "--all")
		exec.Command("umount", filepath.Join(p.dir, "root", "overlay")).Run() //nolint:errcheck // it may not be mounted
	})
	return p
}

var buildOnce = sync.OnceValues(func() (string, error) {
	built := filepath.Join(scratch, "gorxe-built")
	build := exec.Command("go", "build", "-trimpath", "-o", built, "./cmd/gorxe")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, text)
	}
	return built, nil
})

// buildRuntime builds gorxe-runtime. It is in a directory of the test, so that nothingLeft sees
// processes of this test only.
func buildRuntime(t *testing.T) string {
	t.Helper()
	built, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(t.TempDir(), "gorxe-runtime")
	if text, err := exec.Command("cp", built, runtime).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, text)
	}
	return runtime
}

// podman returns what a command says, and its exit code.
func (p *podman) podman(words ...string) (string, int) {
	p.t.Helper()
	// A file, and no pipe: what podman leaves behind for a container would hold that open.
	out, err := os.CreateTemp(p.dir, "output")
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("podman", append(p.flags[:len(p.flags):len(p.flags)], words...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, p.env
	err = cmd.Run()
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		p.t.Fatal(readErr)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return string(text), 0
	case errors.As(err, &exit):
		return string(text), exit.ExitCode()
	}
	p.t.Fatalf("podman: %v", err)
	return "", 0
}

func (p *podman) ok(words ...string) string {
	p.t.Helper()
	text, code := p.podman(words...)
	if code != 0 {
		p.t.Fatalf("podman %v: exit code %d\n%s", words, code, text)
	}
	return text
}

// limits are those that an engine without rights over them can set.
var limits = []string{"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=2000:2000"}

// run is podman run with further flags, and a shell command for the image.
func (p *podman) run(script string, flags ...string) (string, int) {
	p.t.Helper()
	words := append([]string{"run", "--rm", "--network", "none"}, limits...)
	return p.podman(append(append(words, flags...), testImage, "sh", "-c", script)...)
}

// TestRuntime: every process of an unmodified image has the device, and the rest is as it is
// without gorxe.
func TestRuntime(t *testing.T) {
	t.Parallel()
	p := newPodman(t)
	const find = "ibv_devices | grep rxe0 && "
	for name, c := range map[string]struct {
		script string
		flags  []string
		says   string
		code   int
	}{
		"exit code":        {find + "exit 4", nil, "rxe0", 4},
		"killed":           {find + "kill -9 $$", nil, "rxe0", 137},
		"ordinary user":    {find + "id -u", []string{"--user", "1234"}, "1234", 0},
		"drops root":       {"setpriv --reuid 1000 --regid 1000 --clear-groups ibv_devices", nil, "rxe0", 0},
		"becomes a user":   {"perl -MPOSIX -e 'setgid(1000); setuid(1000); $< == 1000 or die; open(F, \"+<\", \"/dev/infiniband/uverbs0\") or die \"$!\"; print \"opened\\n\"'", nil, "opened", 0},
		"read-only root":   {find + "! touch /x && echo no writing", []string{"--read-only"}, "no writing", 0},
		"no capabilities":  {find + "grep CapEff /proc/self/status", []string{"--cap-drop", "all"}, "CapEff:\t0000000000000000", 0},
		"seccomp profile":  {find + "grep Seccomp: /proc/self/status", nil, "Seccomp:\t2", 0},
		"a terminal":       {find + "tty", []string{"--tty"}, "/dev/pts/0", 0},
		"the directory":    {find + "pwd", []string{"--workdir", "/usr/bin"}, "/usr/bin", 0},
		"two devices":      {"ibv_devices", []string{"--env", "GORXE_DEVICES=2"}, "rxe1", 0},
		"orphans":          {find + "{ sleep 0.1 & echo $! >/tmp/orphan; } | cat; timeout 60 sh -c 'while test -e /proc/$(cat /tmp/orphan); do :; done' && echo reaped", nil, "reaped", 0},
		"a wrong device":   {"true", []string{"--env", "GORXE_DEVICES=rxe0=no-such-interface"}, "no-such-interface", 2},
		"a path as device": {"true", []string{"--env", "GORXE_DEVICES=/etc/shadow"}, "/etc/shadow", 125},
	} {
		if text, code := p.run(c.script, c.flags...); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", name, code, c.code, c.says, text)
		}
	}

	p.ok(append(append([]string{"run", "--detach", "--name", "long", "--network", "none"}, limits...), testImage, "sh", "-c", "trap 'exit 6' TERM; echo ready; while :; do sleep 0.1; done")...)
	for !strings.Contains(p.ok("logs", "long"), "ready") { // until the shell has its trap
		time.Sleep(50 * time.Millisecond)
	}
	if text := p.ok("exec", "long", "ibv_devices"); !strings.Contains(text, "rxe0") {
		t.Errorf("exec: %s", text)
	}
	if text, code := p.podman("exec", "long", "sh", "-c", "exit 9"); code != 9 {
		t.Errorf("exec: exit code %d\n%s", code, text)
	}
	if text, code := p.podman("exec", "--user", "1000", "long", "ibv_devices"); code != 0 || !strings.Contains(text, "rxe0") {
		t.Errorf("exec as another user: exit code %d\n%s", code, text)
	}
	p.ok("stop", "--time", "20", "long")
	if text := p.ok("wait", "long"); strings.TrimSpace(text) != "6" {
		t.Errorf("a stopped container ends with %s", text)
	}
	p.execAsRoot()
}

// execAsRoot: a process that exec adds as root has the device in a container of an ordinary user.
// That user cannot put another daemon at the socket.
func (p *podman) execAsRoot() {
	p.t.Helper()
	p.ok(append(append([]string{"run", "--detach", "--name", "user", "--user", "1234", "--network", "none"}, limits...), testImage, "sh", "-c", "echo ready; while :; do sleep 0.1; done")...)
	for !strings.Contains(p.ok("logs", "user"), "ready") {
		time.Sleep(50 * time.Millisecond)
	}
	if text, code := p.podman("exec", "user", "sh", "-c", "id -u; rm /.gorxe/run/socket; mv /.gorxe/run/socket /.gorxe/run/x"); code != 1 || !strings.Contains(text, "1234") || strings.Count(text, "ermi") != 2 {
		p.t.Errorf("the user takes the socket: exit code %d\n%s", code, text)
	}
	for _, user := range []string{"0", "1234"} {
		if text := p.ok("exec", "--user", user, "user", "ibv_devices"); !strings.Contains(text, "rxe0") {
			p.t.Errorf("exec as %s: %s", user, text)
		}
	}
}

// TestTwoContainers: two containers in network namespaces with a link between them.
func TestTwoContainers(t *testing.T) {
	t.Parallel()
	p := newPodman(t)
	name := func(i int) string { return fmt.Sprintf("gorxe-%d-%d", os.Getpid(), i) }
	ip := func(line string) {
		t.Helper()
		if text, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, text)
		}
	}
	for i := range 2 {
		ip("netns add " + name(i))
		t.Cleanup(func() { ip("netns delete " + name(i)) })
	}
	ip("link add eth0 netns " + name(0) + " type veth peer name eth0 netns " + name(1))
	for i := range 2 {
		ip(fmt.Sprintf("-n %s address add 192.0.2.%d/24 dev eth0", name(i), i+1))
		ip("-n " + name(i) + " link set lo up")
		ip("-n " + name(i) + " link set eth0 up")
	}
	words := func(i int, more ...string) []string {
		return append(append([]string{"run", "--network", "ns:/run/netns/" + name(i), "--env", "GORXE_DEVICES=rxe0=eth0"}, limits...), more...)
	}
	test := []string{testImage, "ib_write_bw", "-F", "-x", "1", "-n", "100", "-u", "20"}
	p.ok(words(0, append([]string{"--detach", "--name", "server"}, test...)...)...)
	client := strings.Join(append(test[1:], "192.0.2.1"), " ")
	text := p.ok(words(1, "--rm", testImage, "bash", "-c", "until (</dev/tcp/192.0.2.1/1) 2>&1 | grep -q refused; do sleep 0.1; done; until "+client+"; do sleep 0.2; done")...)
	if !strings.Contains(text, "BW average") {
		t.Errorf("client:\n%s", text)
	}
	if code := strings.TrimSpace(p.ok("wait", "server")); code != "0" {
		t.Errorf("the server ends with %s:\n%s", code, p.ok("logs", "server"))
	}
}

// TestSharedDaemon: two containers use the devices of a daemon of the host.
func TestSharedDaemon(t *testing.T) {
	p := newPodman(t)
	runtime := p.flags[len(p.flags)-1]
	socket := filepath.Join(p.dir, "daemon.sock")
	daemon := exec.Command(runtime, "daemon", "--socket", socket, "--device", "rxe5=127.0.0.91")
	daemon.Args[0] = "gorxe"
	log, err := os.Create(filepath.Join(p.dir, "daemon.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	var end error
	ended := make(chan struct{})
	go func() {
		end = daemon.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		daemon.Process.Signal(os.Interrupt) //nolint:errcheck // Wait says how it ended
		if <-ended; end != nil {
			t.Errorf("the daemon: %v", end)
		}
	})
	status := func() (string, error) {
		ask := exec.Command(runtime, "status", "--socket", socket)
		ask.Args[0] = "gorxe"
		text, err := ask.CombinedOutput()
		return string(text), err
	}
	for {
		if _, err := status(); err == nil {
			break
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the daemon has ended:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}

	p.flags = append(p.flags, "--runtime-flag", "gorxe-socket="+socket)
	words := func(more ...string) []string {
		return append(append([]string{"run", "--network", "host"}, limits...), more...)
	}
	test := []string{testImage, "ib_write_bw", "-F", "-d", "rxe5", "-x", "1", "-n", "100", "-p", "18599"}
	p.ok(words(append([]string{"--detach", "--name", "server"}, test...)...)...)
	client := strings.Join(append(test[1:], "127.0.0.1"), " ")
	text := p.ok(words("--rm", testImage, "bash", "-c", "until grep -q ':48A7 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "+client)...)
	if !strings.Contains(text, "BW average") {
		t.Errorf("client:\n%s", text)
	}
	if code := strings.TrimSpace(p.ok("wait", "server")); code != "0" {
		t.Errorf("the server ends with %s:\n%s", code, p.ok("logs", "server"))
	}
	// An image cannot choose a socket of the host, and a container of another user is refused.
	if text, code := p.run("ibv_devices", "--env", "GORXE_SOCKET=/nonexistent"); code != 0 || !strings.Contains(text, "rxe5") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	if text, code := p.run("ibv_devices", "--user", "1234"); code != 125 || !strings.Contains(text, "ermission denied") {
		t.Errorf("another user: exit code %d\n%s", code, text)
	}
	for { // the daemon notices the end of the last container
		text, err := status()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !strings.Contains(text, "SESSION") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestRuntimeLeavesNothing: containers that are killed leave no process, mount or socket.
func TestRuntimeLeavesNothing(t *testing.T) {
	p := newPodman(t)
	for i := range 100 {
		name := fmt.Sprint("c", i)
		p.ok(append(append([]string{"run", "--detach", "--name", name, "--network", "none"}, limits...), testImage, "sh", "-c", "ibv_devices; exec sleep 1000")...)
		p.ok("kill", name)
		p.ok("wait", name)
		p.ok("rm", name)
	}
	// podman mounts the directory of its images onto itself, and leaves it so.
	nothingLeft(t, p.dir, filepath.Join(p.dir, "root/overlay"))
	nothingLeft(t, filepath.Dir(p.flags[len(p.flags)-1]))
	if left := p.ok("ps", "--all", "--quiet"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
}

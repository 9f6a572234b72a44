package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pods are pods of podman, whose containers run gorxe-runtime.
type pods struct{ *podman }

const infraImage = "localhost/infra"

// newPods makes an image for the container that holds a pod's namespaces. Podman's own is made of
// catatonit, which Debian's podman only recommends.
func newPods(t *testing.T) pods {
	t.Helper()
	p := pods{newPodman(t)}
	config := filepath.Join(p.dir, "containers.conf")
	if err := os.WriteFile(config, []byte("[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=2000:2000\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "CONTAINERS_CONF="+config)
	p.ok("run", "--name", "make", "--network", "none", testImage, "sh", "-c", "printf '#!/bin/sh\nexec sleep infinity\n' >/catatonit && chmod +x /catatonit")
	p.ok("commit", "-q", "make", infraImage)
	p.ok("rm", "make")
	t.Cleanup(func() { p.podman.podman("pod", "rm", "--all", "--force", "--time", "0") })
	return p
}

// pod makes a pod whose sandbox runs.
func (p pods) pod(name string) {
	p.t.Helper()
	p.ok("pod", "create", "--name", name, "--network", "none", "--infra-name", name+"-infra", "--infra-image", infraImage, "--infra-command", "/catatonit -P")
	p.ok("pod", "start", name)
}

// start starts a container that finds its device and waits.
func (p pods) start(name string, flags ...string) {
	p.t.Helper()
	words := append([]string{"run", "--detach", "--name", name}, flags...)
	p.ok(append(words, testImage, "sh", "-c", "ibv_devices && exec sleep 1000")...)
}

// kill ends a container, and waits for that.
func (p pods) kill(name string) {
	p.t.Helper()
	p.ok("kill", name)
	p.ok("wait", name)
	p.ok("rm", name)
}

// daemons returns the processes of daemons that this test's runtime has started.
func (p pods) daemons() (list []int) {
	p.t.Helper()
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, exe := range exes {
		to, err := os.Readlink(exe)
		line, lineErr := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
		if err != nil || lineErr != nil || to != p.flags[len(p.flags)-1] || !strings.HasPrefix(string(line), "gorxe\x00_pod\x00") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(exe, "/proc/%d/exe", &pid); err != nil {
			p.t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

// await waits until there are n daemons.
func (p pods) await(n int) []int {
	p.t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		list := p.daemons()
		if len(list) == n {
			return list
		}
		if time.Since(start) > time.Minute {
			p.t.Fatalf("the daemons are %v, want %d", list, n)
		}
	}
}

// sockets are those of the daemons of network namespaces.
func (p pods) sockets() []string {
	p.t.Helper()
	list, err := filepath.Glob("/run/gorxe-containers-*")
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// TestPod: the containers of a pod share a device, and so do those of --network container:NAME. Its
// sandbox has none.
func TestPod(t *testing.T) {
	t.Parallel()
	p := newPods(t)
	p.pod("p")
	p.await(0) // the sandbox alone
	if text, code := p.podman.podman("exec", "p-infra", "sh", "-c", "grep -c gorxe /proc/mounts; exit 3"); code != 3 || strings.TrimSpace(text) != "0" {
		t.Errorf("in the sandbox: exit code %d\n%s", code, text)
	}
	test := []string{"ib_write_bw", "-F", "-x", "1", "-n", "100"}
	p.ok(append([]string{"run", "--detach", "--pod", "p", "--name", "server", testImage}, test...)...)
	daemon := p.await(1)
	client := "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; id -u; " + strings.Join(test, " ") + " 127.0.0.1"
	text := p.ok("run", "--rm", "--pod", "p", "--user", "1234", testImage, "bash", "-c", client)
	if !strings.Contains(text, "1234") || !strings.Contains(text, "BW average") {
		t.Errorf("client:\n%s", text)
	}
	if code := strings.TrimSpace(p.ok("wait", "server")); code != "0" {
		t.Errorf("the server ends with %s:\n%s", code, p.ok("logs", "server"))
	}
	p.await(0) // the sandbox goes on

	p.start("a", "--pod", "p")
	if next := p.await(1); slices.Equal(next, daemon) {
		t.Error("a daemon has outlived its containers")
	}
	for _, c := range []struct {
		flags []string
		says  string
		code  int
	}{
		{[]string{"--user", "1234", "--read-only", "--cap-drop", "all"}, "rxe0", 0},
		{[]string{"--env", "GORXE_DEVICES=rxe7=lo"}, "GORXE_DEVICES", 125},
	} {
		words := append([]string{"run", "--rm", "--pod", "p"}, c.flags...)
		if text, code := p.podman.podman(append(words, testImage, "ibv_devices")...); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s", c.flags, code, c.code, c.says, text)
		}
	}
	p.ok("pod", "rm", "--force", "--time", "0", "p")
	p.await(0)

	taken, err := net.ListenPacket("udp", "127.0.0.94:4791")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	text, code := p.podman.podman("run", "--rm", "--network", "host", "--env", "GORXE_DEVICES=rxe0=127.0.0.94", testImage, "true")
	if code != 125 || !strings.Contains(text, "--gorxe-socket") {
		t.Errorf("a port that is taken: exit code %d\n%s", code, text)
	}
	env := "GORXE_DEVICES=rxe0=127.0.0.93" // another program of the host may have lo
	p.start("first", "--network", "host", "--env", env)
	p.start("second", "--network", "container:first", "--env", env)
	p.await(1)
	if text := p.ok("exec", "--user", "1234", "second", "ibv_devices"); !strings.Contains(text, "rxe0") {
		t.Error(text)
	}
	p.ok("kill", "first") // podman keeps it for the second
	p.ok("wait", "first")
	p.killed(p.await(1)[0], env)
	p.await(0)
}

// killed: a daemon that was killed takes the devices of its containers with it. They go on, and the
// next one has a daemon.
func (p pods) killed(daemon int, env string) {
	p.t.Helper()
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	p.await(0)
	if text, code := p.podman.podman("exec", "second", "ibv_devices"); code != 125 || !strings.Contains(text, "restart the container") {
		p.t.Errorf("exit code %d\n%s", code, text)
	}
	p.start("third", "--network", "host", "--env", env)
	if text := p.ok("exec", "third", "ibv_devices"); !strings.Contains(text, "rxe0") {
		p.t.Error(text)
	}
	p.kill("second")
	p.await(1)
	p.kill("third")
}

// TestPodsKilled: containers of two pods start, and they, their daemons and the pods are killed, in
// a random order. Nothing is left.
func TestPodsKilled(t *testing.T) {
	p := newPods(t)
	before := p.sockets()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test repeats with its seed
	live := make(map[string]bool)       // pods and containers
	for range 60 {
		pod := fmt.Sprint("p", r.IntN(2))
		name := fmt.Sprint(pod, "-c", r.IntN(4))
		switch what := r.IntN(20); {
		case !live[pod]:
			p.pod(pod)
			live[pod] = true
		case what == 0:
			p.ok("pod", "rm", "--force", "--time", "0", pod)
			for one := range live {
				if strings.HasPrefix(one, pod) {
					delete(live, one)
				}
			}
		case what == 1:
			for _, pid := range p.daemons() {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("daemon %d: %v", pid, err)
				}
			}
			p.await(0)
		case live[name]:
			p.ok("rm", "--force", "--time", "0", name) // it may have ended without its daemon
			delete(live, name)
		default:
			p.start(name, "--pod", pod)
			live[name] = true
		}
	}
	p.ok("pod", "rm", "--all", "--force", "--time", "0")
	p.start("last", "--network", "none") // its daemon removes what killed ones have left
	p.kill("last")
	p.await(0)
	nothingLeft(t, p.dir, filepath.Join(p.dir, "root/overlay"))
	nothingLeft(t, filepath.Dir(p.flags[len(p.flags)-1]))
	if after := p.sockets(); !slices.Equal(before, after) {
		t.Errorf("sockets are left: %v, before %v", after, before)
	}
}

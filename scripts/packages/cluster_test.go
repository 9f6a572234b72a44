package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// controlPlane has Kubernetes' programs. The Makefile has the same version, and compiles them.
const controlPlane = "../../bin/kubernetes-v1.34.1"

// cluster is a control plane of Kubernetes and one node. Its containerd and its kubelet are of this
// test only.
type cluster struct {
	t   *testing.T
	dir string
	pid int // it is in the namespaces of the node
}

// newCluster starts the programs, and waits until the node is ready.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	programs := called[string](t)(filepath.Abs(controlPlane))
	if _, err := os.Stat(programs); err != nil {
		t.Fatalf("%v: make test-kubernetes compiles it", err)
	}
	p := newPodman(t)
	c := &cluster{t: t, dir: t.TempDir()}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	p.ok("import", "-q", "--change", `CMD ["/bin/sleep", "infinity"]`, labImage(t, "../../bin/root-bookworm.tar"), "docker.io/library/gorxe:latest")
	p.ok("save", "-q", "--output", in("image.tar"), "docker.io/library/gorxe:latest")
	fill := strings.NewReplacer("DIR", c.dir, "PLUGINS", "/usr/lib/cni", "localhost/debian-rdma", "docker.io/library/gorxe")
	err := os.Mkdir(in("cni"), 0o755)
	for name, text := range map[string]string{"config.toml": criConfig, "cni/pods.conflist": criNetwork} {
		err = errors.Join(err, os.WriteFile(in(name), []byte(fill.Replace(text)), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", "testdata/node.sh", c.dir, programs)
	log := called[*os.File](t)(os.Create(in("node.log")))
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.pid = cmd.Process.Pid
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // Wait returns when it has ended
		cmd.Wait()         //nolint:errcheck // it was killed
		c.ended()
	})
	c.eventually("the node is ready", func() bool {
		text, err := c.kubectl("get", "nodes")
		return err == nil && strings.Contains(text, " Ready ")
	})
	if text, err := c.inside("ctr", "--address", in("socket"), "--namespace", "k8s.io", "images", "import", in("image.tar")); err != nil {
		t.Fatalf("ctr: %v\n%s", err, text)
	}
	c.names()
	return c
}

// ended shows the logs after a failure, and removes the control groups.
func (c *cluster) ended() {
	c.t.Helper()
	if c.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log")) //nolint:errcheck // the pattern is right
		for _, name := range logs {
			text, _ := os.ReadFile(name)
			c.t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-3000):])
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(filepath.Dir(c.dir))) //nolint:errcheck // the pattern is right
	for _, group := range groups {
		c.eventually(group+" is empty", func() bool {
			exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run() //nolint:errcheck // a process may still end
			_, err := os.Stat(group)
			return os.IsNotExist(err)
		})
	}
}

// inside runs a program of the node.
func (c *cluster) inside(words ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", fmt.Sprint(c.pid), "--mount", "--net"}, words...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func (c *cluster) kubectl(words ...string) (string, error) {
	program, err := filepath.Abs(filepath.Join(controlPlane, "kubectl"))
	if err != nil {
		return "", err
	}
	return c.inside(append([]string{program, "--kubeconfig", "/run/kube/config"}, words...)...)
}

func (c *cluster) ok(words ...string) string {
	c.t.Helper()
	text, err := c.kubectl(words...)
	if err != nil {
		events, _ := c.kubectl("get", "pods,events", "--all-namespaces", "--output", "wide")
		c.t.Fatalf("kubectl %q: %v\n%s\n%s", words, err, text, events)
	}
	return text
}

func (c *cluster) eventually(what string, is func() bool) {
	c.t.Helper()
	for start := time.Now(); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Since(start) > 4*time.Minute {
			c.t.Fatal("not so: " + what)
		}
	}
}

// names tells the name server of the pods' names, until the test ends.
func (c *cluster) names() {
	const format = `jsonpath={range .items[*]}{.status.podIP} {.spec.hostname}.{.spec.subdomain}.{.metadata.namespace}.svc.cluster.local{"\n"}{end}`
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			text, err := c.kubectl("get", "pods", "--all-namespaces", "--output", format)
			var hosts strings.Builder
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, " ") && !strings.Contains(line, " .") {
					hosts.WriteString(line)
				}
			}
			if err == nil {
				os.WriteFile(filepath.Join(c.dir, "hosts/pods"), []byte(hosts.String()), 0o644) //nolint:errcheck // the job fails
			}
			select {
			case <-end:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	c.t.Cleanup(func() { close(end); <-ended })
}

// exec runs a shell's command in a pod.
func (c *cluster) exec(pod, script string) string {
	c.t.Helper()
	return c.ok("exec", pod, "--", "sh", "-c", script)
}

// running waits until a pod is ready.
func (c *cluster) running(pods ...string) {
	c.t.Helper()
	for _, pod := range pods {
		c.ok("wait", "--for=condition=Ready", "--timeout=4m", pod)
	}
}

// TestCluster: dist/kubernetes on a control plane of Kubernetes, with kubectl as docs/containers.md
// has it.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	dist := called[string](t)(filepath.Abs("../../dist/kubernetes"))
	pods := called[string](t)(filepath.Abs("testdata/cluster.yaml"))
	// The pods need no privileges.
	c.ok("label", "namespace", "default", "pod-security.kubernetes.io/enforce=baseline")
	c.ok("apply", "--kustomize", dist)
	c.eventually("the installer's set is known", func() bool {
		return c.ok("--namespace", "gorxe", "get", "daemonset", "gorxe-installer", "--output", "jsonpath={.status.observedGeneration}") != ""
	})
	if text := c.ok("get", "pods", "--all-namespaces", "--output", "name"); text != "" {
		t.Errorf("a node without the label has\n%s", text)
	}
	c.ok("label", "node", "node", "gorxe=yes")
	c.installed()
	c.ok("apply", "--filename", dist+"/example.yaml")
	c.ok("wait", "--for=condition=complete", "--timeout=4m", "job/rdma-pair")
	said := c.ok("logs", "--selector", "job-name=rdma-pair,batch.kubernetes.io/job-completion-index=1", "--tail=-1")
	if average(said) == "" {
		t.Errorf("the job says\n%s", said)
	}
	t.Log("a job of two pods, ib_write_bw between them:", average(said))

	// a pod has the node's network
	c.ok("label", "--overwrite", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged")
	c.ok("apply", "--filename", pods)
	c.ok("wait", "--for=condition=complete", "--timeout=4m", "job/ring")
	t.Log("a job of four pods: each writes to the next one")
	c.running("pod/plain", "pod/eight", "pod/host")
	if text, err := c.kubectl("exec", "plain", "--", "ls", "/.gorxe"); err == nil {
		t.Errorf("without the runtime class: %s", text)
	}
	if n := strings.Count(c.exec("eight", "ibv_devices"), " rxe"); n != 8 {
		t.Errorf("the pod has %d devices", n)
	}
	if text := c.exec("host", "ibv_devinfo | grep -w PORT_ACTIVE"); !strings.Contains(text, "PORT_ACTIVE") {
		t.Errorf("with the node's network: %s", text)
	}
	t.Log("exec: eight devices in a pod, the node's network in another, no device without the runtime class")
	c.eventually("the probe has failed, and the container started again", func() bool {
		return strings.TrimSpace(c.ok("get", "pod", "probed", "--output", "jsonpath={.status.containerStatuses[0].restartCount}")) > "0"
	})
	c.exec("probed", "ibv_devices | grep rxe0")
	t.Log("probes: a container whose probe fails starts again, with a device")
	c.metrics("eight")
	c.evicted()
	c.upgraded()
	c.removed(dist)
}

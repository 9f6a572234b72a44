package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kubelet makes pods with a containerd of this test only, through the interface that Kubernetes'
// kubelet uses.
type kubelet struct {
	t   *testing.T
	dir string
	cri.RuntimeServiceClient
	pods pods   // for the daemons
	run  string // where they have their sockets
	// programs is the directory of containerd and ctr; empty: the system's.
	programs    string
	annotations map[string]string // of the pods to come
}

// criConfig is what a node has before the installer of dist/kubernetes. Its sandboxes run the
// test's image, so only their annotation says what they are.
const criConfig = `version = 2
root = "DIR/data"
state = "DIR/state"
[grpc]
  address = "DIR/socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/debian-rdma:latest"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGINS"
    conf_dir = "DIR/cni"
`

// criNetwork is a bridge in the network namespace of containerd.
const criNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true,
	"ipam": {"type": "host-local", "dataDir": "DIR/addresses", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := newNode(t, criConfig)
	k.install()
	k.serve("")
	return k
}

// newNode makes the files of a node, and gorxe's program.
func newNode(t *testing.T, config string) *kubelet {
	t.Helper()
	p := newPodman(t) // makes the image
	k := &kubelet{t: t, dir: t.TempDir(), pods: pods{p}}
	in := func(name string) string { return filepath.Join(k.dir, name) }
	plugins := "/usr/lib/cni" // Debian's
	if _, err := os.Stat(plugins); err != nil {
		plugins = "/usr/libexec/cni" // Fedora's
	}
	fill := strings.NewReplacer("DIR", k.dir, "PLUGINS", plugins)
	p.ok("import", "-q", "--change", `CMD ["/bin/sleep", "infinity"]`, "../../bin/root-bookworm.tar", testImage)
	p.ok("save", "-q", "--output", in("image.tar"), testImage)
	for name, text := range map[string]string{"etc/containerd/config.toml": config, "cni/pods.conflist": criNetwork} {
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), []byte(fill.Replace(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	built := k.gorxe()
	k.setGorxe(filepath.Join(filepath.Dir(built), "gorxe"))
	if err := os.Rename(built, k.gorxe()); err != nil {
		t.Fatal(err)
	}
	return k
}

// gorxe is the program that daemons run.
func (k *kubelet) gorxe() string { return k.pods.flags[len(k.pods.flags)-1] }

func (k *kubelet) setGorxe(path string) { k.pods.flags[len(k.pods.flags)-1] = path }

// install runs the installer on the node's files.
func (k *kubelet) install() {
	k.t.Helper()
	if said, err := install(k.t, k.dir, k.gorxe()); err != nil {
		k.t.Fatalf("%v\n%s", err, said)
	}
	// A node has this in its own /opt.
	file := filepath.Join(k.dir, "etc/containerd/config.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(string(text), `"/opt/gorxe`, `"`+k.dir+"/opt/gorxe")), 0o644)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.setGorxe(filepath.Join(k.dir, "opt/gorxe/bin/gorxe"))
}

// ctr is containerd's own client.
func (k *kubelet) ctr(words ...string) (string, error) {
	cmd := exec.Command(filepath.Join(k.programs, "ctr"), append([]string{"--address", filepath.Join(k.dir, "socket")}, words...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// serve starts the containerd of a directory, waits until it serves pods, and gives it the image.
func (k *kubelet) serve(programs string) {
	k.t.Helper()
	k.programs = programs
	log, err := os.Create(filepath.Join(k.dir, "log"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { log.Close() })
	cmd := exec.Command("unshare", "--mount", "--net", "sh", "-c", "ip link set lo up; mount -t tmpfs tmpfs /run; exec \"$1\" --config \"$0\"",
		filepath.Join(k.dir, "etc/containerd/config.toml"), filepath.Join(programs, "containerd"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.run = fmt.Sprintf("/proc/%d/root/run", cmd.Process.Pid)
	k.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait returns when it has ended
		cmd.Wait()                          //nolint:errcheck // it was told to end
		if k.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			k.t.Logf("containerd:\n%s", text)
			k.said()
		}
	})
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		text, err := k.ctr("plugins", "list")
		if err == nil && strings.Contains(text, "io.containerd.grpc.v1") && strings.Contains(text, "cri ") {
			break
		}
		if time.Since(start) > 2*time.Minute {
			k.t.Fatalf("containerd: %v\n%s", err, text)
		}
	}
	if text, err := k.ctr("--namespace", "k8s.io", "images", "import", filepath.Join(k.dir, "image.tar")); err != nil {
		k.t.Fatalf("ctr: %v\n%s", err, text)
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, "socket"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	k.RuntimeServiceClient = cri.NewRuntimeServiceClient(conn)
	k.t.Cleanup(k.removeAll)
}

// said shows what the containers have said.
func (k *kubelet) said() {
	names, _ := filepath.Glob(filepath.Join(k.dir, "logs/*/*")) //nolint:errcheck // the pattern is right
	for _, name := range names {
		text, _ := os.ReadFile(name)
		k.t.Logf("%s:\n%s", strings.TrimPrefix(name, k.dir), text)
	}
}

// called returns what a call returns, or ends the test.
func called[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// pod runs a pod without containers. mode is that of its network namespace.
func (k *kubelet) pod(name, handler string, mode cri.NamespaceMode) (id string, config *cri.PodSandboxConfig) {
	k.t.Helper()
	config = &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"},
		LogDirectory: filepath.Join(k.dir, "logs", name), Annotations: k.annotations,
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: mode, Pid: cri.NamespaceMode_CONTAINER},
			Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
		}},
	}
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		k.t.Fatal(err)
	}
	made := called[*cri.RunPodSandboxResponse](k.t)(k.RunPodSandbox(k.t.Context(), &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: handler}))
	return made.PodSandboxId, config
}

// start starts a container in a pod, as an ordinary user without capabilities.
func (k *kubelet) start(pod string, config *cri.PodSandboxConfig, name, script string) (id string) {
	k.t.Helper()
	id, err := k.create(pod, config, name, script)
	if err != nil {
		k.t.Fatal(err)
	}
	called[*cri.StartContainerResponse](k.t)(k.StartContainer(k.t.Context(), &cri.StartContainerRequest{ContainerId: id}))
	return id
}

// create makes a container that does not run yet.
func (k *kubelet) create(pod string, config *cri.PodSandboxConfig, name, script string) (id string, err error) {
	made, err := k.CreateContainer(k.t.Context(), &cri.CreateContainerRequest{
		PodSandboxId: pod, SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "localhost/debian-rdma:latest"},
			Command: []string{"sh", "-c", script}, LogPath: name,
			Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
				RunAsUser: &cri.Int64Value{Value: 1234}, NoNewPrivs: true,
				Capabilities:     &cri.Capability{DropCapabilities: []string{"ALL"}},
				NamespaceOptions: config.Linux.SecurityContext.NamespaceOptions,
				Seccomp:          config.Linux.SecurityContext.Seccomp,
			}},
		},
	})
	return made.GetContainerId(), err
}

// exec is what kubectl exec and probes do.
func (k *kubelet) exec(container, script string) (string, int) {
	k.t.Helper()
	r := called[*cri.ExecSyncResponse](k.t)(k.ExecSync(k.t.Context(), &cri.ExecSyncRequest{ContainerId: container, Cmd: []string{"sh", "-c", script}}))
	return string(r.Stdout) + string(r.Stderr), int(r.ExitCode)
}

// stop stops a container, and kills it.
func (k *kubelet) stop(container string) {
	k.t.Helper()
	called[*cri.StopContainerResponse](k.t)(k.StopContainer(k.t.Context(), &cri.StopContainerRequest{ContainerId: container}))
}

// metrics returns what gorxe metrics serves, as the installer starts it.
func (k *kubelet) metrics() string {
	k.t.Helper()
	cmd := exec.Command(k.gorxe(), "metrics", "127.0.0.1:0", "--directory", k.run)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	defer cmd.Wait()                          //nolint:errcheck // it was told to end
	defer cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait returns when it has ended
	line, err := bufio.NewReader(said).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !found {
		k.t.Fatalf("%v: %q", err, line)
	}
	answer := called[*http.Response](k.t)(http.Get(url))
	defer answer.Body.Close()
	return string(called[[]byte](k.t)(io.ReadAll(answer.Body)))
}

// removeAll removes what is left.
func (k *kubelet) removeAll() {
	ctx := context.Background()
	list, err := k.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	for _, pod := range list.GetItems() {
		if err == nil {
			_, err = k.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.Id})
		}
		if err == nil {
			_, err = k.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.Id})
		}
	}
	if err != nil {
		k.t.Error(err)
	}
}

// average is the line of numbers of ib_write_bw: bytes, iterations, peak and average in MB/s, and
// millions of messages.
func average(text string) string {
	_, below, _ := strings.Cut(text, "BW average")
	_, below, _ = strings.Cut(below, "\n")
	line, _, _ := strings.Cut(below, "\n")
	return strings.TrimSpace(line)
}

// TestCRI: pods as a node of Kubernetes makes them, with containerd.
func TestCRI(t *testing.T) {
	k := newKubelet(t)
	const wait = "exec sleep 1000"
	first, firstConfig := k.pod("first", "gorxe", cri.NamespaceMode_POD)
	second, secondConfig := k.pod("second", "gorxe", cri.NamespaceMode_POD)
	k.pods.await(0) // the sandboxes alone

	server := k.start(first, firstConfig, "server", "ib_write_bw -F -d rxe0 -x 1 -n 100 && "+wait)
	client := k.start(second, secondConfig, "client", wait)
	text, code := k.exec(client, fmt.Sprintf("until ib_write_bw -F -d rxe0 -x 1 -n 100 %s; do sleep 0.2; done", k.address(first)))
	if code != 0 || !strings.Contains(text, "BW average") {
		t.Errorf("between pods: exit code %d\n%s", code, text)
	}
	daemons := k.pods.await(2)
	t.Log("two pods, ib_write_bw between them:", average(text))

	// A second container of the first pod has the same device; another runtime class has none.
	beside := k.start(first, firstConfig, "beside", wait)
	guid := func(container string) string {
		text, code := k.exec(container, "ibv_devices | grep rxe0")
		if code != 0 {
			t.Errorf("exit code %d\n%s", code, text)
		}
		return strings.Join(strings.Fields(text), " ")
	}
	if one, other := guid(server), guid(beside); one != other {
		t.Errorf("the device is %s and %s", one, other)
	}
	k.pods.await(2)
	scraped := k.metrics()
	for _, series := range []string{
		`gorxe_qp_packets_total{device="rxe0",direction="received",namespace="default",opcode="RC_RDMA_WRITE_FIRST",pod="first"}`,
		`gorxe_qp_packets_total{device="rxe0",direction="sent",namespace="default",opcode="RC_RDMA_WRITE_FIRST",pod="second"}`,
		`gorxe_container_info{container="beside",namespace="default",pod="first"} 1`,
		`gorxe_sessions{container="server",namespace="default",pod="first"} 1`,
		`gorxe_daemons{state="silent"} 0`,
	} {
		if !strings.Contains(scraped, series) {
			t.Errorf("gorxe metrics does not serve %s:\n%s", series, scraped)
		}
	}
	plain, plainConfig := k.pod("plain", "", cri.NamespaceMode_POD)
	if text, code := k.exec(k.start(plain, plainConfig, "plain", wait), "ls /.gorxe /sys/class/infiniband; exit 3"); code != 3 || strings.Contains(text, "rxe0") {
		t.Errorf("without the runtime class: exit code %d\n%s", code, text)
	}

	// The daemon of the first pod goes on without the container that started it, and ends with the
	// last one. The pod's next container has another.
	k.stop(server)
	guid(beside)
	k.pods.await(2)
	k.stop(beside)
	k.pods.await(1)
	again := k.start(first, firstConfig, "again", wait)
	guid(again)
	for _, pid := range k.pods.await(2) {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Error(err)
		}
	}
	if now := k.pods.daemons(); len(now) == 2 && now[0] == daemons[0] && now[1] == daemons[1] {
		t.Error("a daemon has outlived its containers")
	}

	node, nodeConfig := k.pod("node", "gorxe", cri.NamespaceMode_NODE)
	guid(k.start(node, nodeConfig, "a", wait))
	guid(k.start(node, nodeConfig, "b", wait))
	k.pods.await(3)

	t.Log("containers of a pod share a device, those without the runtime class have none")
	k.job()
	k.pods.await(3)
	k.restarted(first, firstConfig)
	k.evicted(client)
	k.upgraded(guid, first, firstConfig, again)
	k.removeAll()
	k.pods.await(0)
	k.killed(100)
	k.removed()
}

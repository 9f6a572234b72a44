package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerd2 has NRI 0.11. The Makefile has the same version, and compiles it.
const containerd2 = "../../bin/containerd-v2.2.9"

// nriConfig names nothing of gorxe.
const nriConfig = `version = 3
root = "DIR/data"
state = "DIR/state"
[grpc]
  address = "DIR/socket"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/debian-rdma:latest"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["PLUGINS"]
    conf_dir = "DIR/cni"
`

// plugin starts gorxe nri, waits until containerd has it, and returns its process and its log.
func (k *kubelet) plugin() (cmd *exec.Cmd, log func() string) {
	k.t.Helper()
	file := called[*os.File](k.t)(os.Create(filepath.Join(k.dir, "plugin")))
	k.t.Cleanup(func() { file.Close() })
	log = func() string { return string(called[[]byte](k.t)(os.ReadFile(file.Name()))) }
	cmd = exec.Command(k.gorxe(), "nri", "--socket", k.run+"/nri/nri.sock")
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill() //nolint:errcheck // Wait returns when it has ended
			cmd.Wait()         //nolint:errcheck // it was killed
		}
	})
	for start := time.Now(); !strings.Contains(log(), "msg=ready"); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			k.t.Fatal(log())
		}
	}
	return cmd, log
}

// TestNRI: containers of pods that ask by an annotation have a device, with a containerd that knows
// nothing of gorxe, and that runs when the plugin comes.
func TestNRI(t *testing.T) {
	programs := called[string](t)(filepath.Abs(containerd2))
	if _, err := os.Stat(programs); err != nil {
		t.Fatalf("%v: make test-kubernetes compiles it", err)
	}
	k := newNode(t, nriConfig)
	k.serve(programs)
	const wait = "exec sleep 1000"
	k.annotations = map[string]string{"gorxe": "server, client"}
	first, firstConfig := k.pod("first", "", cri.NamespaceMode_POD)
	early := k.start(first, firstConfig, "server", wait)
	plugin, log := k.plugin()
	if said := log(); !strings.Contains(said, "start it again") || !strings.Contains(said, "namespace=default pod=first container=server") {
		t.Errorf("the plugin says of a container that runs already:\n%s", said)
	}
	k.stop(early)
	called[*cri.RemoveContainerResponse](t)(k.RemoveContainer(t.Context(), &cri.RemoveContainerRequest{ContainerId: early}))
	k.pods.await(0)

	second, secondConfig := k.pod("second", "", cri.NamespaceMode_POD)
	server := k.start(first, firstConfig, "server", "ib_write_bw -F -d rxe0 -x 1 -n 100 && "+wait)
	client := k.start(second, secondConfig, "client", wait)
	text, code := k.exec(client, "until /.gorxe/gorxe run ib_write_bw -F -d rxe0 -x 1 -n 100 "+k.address(first)+"; do sleep 0.2; done")
	if code != 0 || !strings.Contains(text, "BW average") {
		t.Errorf("between pods: exit code %d\n%s", code, text)
	}
	k.pods.await(2)
	t.Log("two pods that ask by an annotation, ib_write_bw between them:", average(text))
	if served := k.metrics(); !strings.Contains(served, `gorxe_container_info{container="client",namespace="default",pod="second"} 1`) {
		t.Errorf("gorxe metrics serves\n%s", served)
	}
	if text, code := k.exec(server, "ls /dev/infiniband; ibv_devices | grep rxe0"); code == 0 {
		t.Errorf("NRI reaches what exec adds now: docs/containers.md says that it does not\n%s", text)
	}
	// Others have nothing of gorxe: a container that is not named, and a pod that does not ask.
	beside := k.start(second, secondConfig, "beside", wait)
	k.annotations = nil
	plain, plainConfig := k.pod("plain", "", cri.NamespaceMode_POD)
	for _, container := range []string{beside, k.start(plain, plainConfig, "server", wait)} {
		if text, code := k.exec(container, "ls /.gorxe"); code == 0 {
			t.Errorf("a container that did not ask has\n%s", text)
		}
	}
	k.annotations = map[string]string{"gorxe": "true"}
	wrong, wrongConfig := k.pod("wrong", "", cri.NamespaceMode_POD)
	if _, err := k.create(wrong, wrongConfig, "server", wait); err == nil || !strings.Contains(err.Error(), `the annotation gorxe of pod wrong is "true"`) {
		t.Errorf("a wrong annotation: %v", err)
	}

	if err := plugin.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := plugin.Wait(); err != nil {
		t.Errorf("the plugin ends with %v\n%s", err, log())
	}
	// What it has made goes on without it.
	if text, code := k.exec(client, "/.gorxe/gorxe run ibv_devices"); code != 0 || !strings.Contains(text, "rxe0") {
		t.Errorf("without the plugin: exit code %d\n%s", code, text)
	}
	k.removeAll()
	k.pods.await(0)
	k.nothing()
}

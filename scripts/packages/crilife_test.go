package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// address is that of a pod in the network of pods.
func (k *kubelet) address(pod string) string {
	k.t.Helper()
	status := called[*cri.PodSandboxStatusResponse](k.t)(k.PodSandboxStatus(k.t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: pod}))
	return status.Status.Network.Ip
}

// exitCode waits for the end of a container.
func (k *kubelet) exitCode(container string) int32 {
	k.t.Helper()
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		st := called[*cri.ContainerStatusResponse](k.t)(k.ContainerStatus(k.t.Context(), &cri.ContainerStatusRequest{ContainerId: container}))
		if st.Status.State == cri.ContainerState_CONTAINER_EXITED {
			return st.Status.ExitCode
		}
		if time.Since(start) > 2*time.Minute {
			k.t.Fatalf("container %s does not end", container)
		}
	}
}

// removePod removes a pod, also one whose containers run.
func (k *kubelet) removePod(pod string) {
	k.t.Helper()
	called[*cri.StopPodSandboxResponse](k.t)(k.StopPodSandbox(k.t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: pod}))
	called[*cri.RemovePodSandboxResponse](k.t)(k.RemovePodSandbox(k.t.Context(), &cri.RemovePodSandboxRequest{PodSandboxId: pod}))
}

// job runs a ring of four pods: each writes to the memory of the next one.
func (k *kubelet) job() {
	k.t.Helper()
	const ranks = 4
	type rank struct {
		pod, container string
		config         *cri.PodSandboxConfig
	}
	list := make([]rank, ranks)
	for i := range list {
		list[i].pod, list[i].config = k.pod(fmt.Sprint("rank-", i), "gorxe", cri.NamespaceMode_POD)
	}
	const test = "ib_write_bw -F -d rxe0 -x 1 -n 100"
	for i := range list {
		next := k.address(list[(i+1)%ranks].pod)
		list[i].container = k.start(list[i].pod, list[i].config, "rank", test+" & until "+test+" "+next+"; do sleep 0.2; done; wait $!")
	}
	for i, r := range list {
		if code := k.exitCode(r.container); code != 0 {
			k.t.Errorf("rank %d ends with %d", i, code)
		}
		k.removePod(r.pod)
	}
	k.t.Log("a job: a ring of four pods, in which each writes to the next one")
}

// restarted is what a kubelet does to a container whose probe fails, three times.
func (k *kubelet) restarted(pod string, config *cri.PodSandboxConfig) {
	k.t.Helper()
	for range 3 {
		id := k.start(pod, config, "probed", "touch /tmp/healthy && exec sleep 1000")
		const probe = "test -e /tmp/healthy && ibv_devices | grep -q rxe0"
		for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			if text, code := k.exec(id, probe); code == 0 {
				break
			} else if time.Since(start) > time.Minute {
				k.t.Fatalf("the probe ends with %d\n%s", code, text)
			}
		}
		if _, code := k.exec(id, "rm /tmp/healthy; "+probe); code != 1 {
			k.t.Errorf("a probe that fails ends with %d", code)
		}
		k.stop(id)
		called[*cri.RemoveContainerResponse](k.t)(k.RemoveContainer(k.t.Context(), &cri.RemoveContainerRequest{ContainerId: id}))
	}
	k.t.Log("probes: a container whose probe fails starts again, three times")
}

// evicted: a pod is ended while its program works, and its peer gets an error and goes on.
func (k *kubelet) evicted(peer string) {
	k.t.Helper()
	before := len(k.pods.daemons())
	pod, config := k.pod("evicted", "gorxe", cri.NamespaceMode_POD)
	k.start(pod, config, "server", "ib_write_bw -F -d rxe0 -x 1 -D 1000 & exec sleep 1000")
	ended := make(chan int)
	go func() {
		r, err := k.ExecSync(context.Background(), &cri.ExecSyncRequest{ContainerId: peer, Cmd: []string{"sh", "-c",
			"until test -e /tmp/wrote; do ib_write_bw -F -d rxe0 -x 1 -D 1000 " + k.address(pod) + " && break; sleep 0.2; done"}})
		if err != nil {
			k.t.Errorf("the peer: %v", err)
		}
		ended <- int(r.GetExitCode())
	}()
	k.pods.await(before + 1)
	for start := time.Now(); !strings.Contains(k.metrics(), `direction="received",namespace="default",opcode="RC_RDMA_WRITE_FIRST",pod="evicted"`); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			k.t.Fatal("nothing is written to the pod")
		}
	}
	k.exec(peer, "touch /tmp/wrote")
	k.removePod(pod)
	<-ended
	k.pods.await(before)
	k.t.Log("an eviction: a pod is ended under its peer's writes, and its daemon with it")
}

// upgraded: the installer runs again, with another file. Containers that run keep theirs, and new
// ones of their pod have the same device.
func (k *kubelet) upgraded(guid func(string) string, pod string, config *cri.PodSandboxConfig, running string) {
	k.t.Helper()
	before := guid(running)
	newer := filepath.Join(k.t.TempDir(), "gorxe")
	if text, err := exec.Command("cp", k.gorxe(), newer).CombinedOutput(); err != nil {
		k.t.Fatalf("cp: %v\n%s", err, text)
	}
	was := called[os.FileInfo](k.t)(os.Stat(k.gorxe()))
	if said, err := install(k.t, k.dir, newer); err != nil {
		k.t.Fatalf("%v\n%s", err, said)
	}
	if is := called[os.FileInfo](k.t)(os.Stat(k.gorxe())); os.SameFile(was, is) {
		k.t.Error("the installer has replaced nothing")
	}
	if after, other := guid(running), guid(k.start(pod, config, "newer", "exec sleep 1000")); after != before || other != before {
		k.t.Errorf("the device was %s, and is %s and %s", before, after, other)
	}
	k.t.Log("an upgrade of the installer: a container that runs and a new one of its pod share the device")
}

// removed: the installer takes back what it has done.
func (k *kubelet) removed() {
	k.t.Helper()
	if said, err := install(k.t, k.dir, k.gorxe(), "remove"); err != nil {
		k.t.Fatalf("%v\n%s", err, said)
	}
	config := called[[]byte](k.t)(os.ReadFile(filepath.Join(k.dir, "etc/containerd/config.toml")))
	if strings.Contains(string(config), "gorxe") {
		k.t.Errorf("it has left:\n%s", config)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "opt/gorxe")); !os.IsNotExist(err) {
		k.t.Errorf("/opt/gorxe: %v", err)
	}
	k.t.Log("the removal of the installer: neither /opt/gorxe nor a line of containerd's configuration is left")
}

// killed starts so many pods, and kills containers, daemons and pods at random. Nothing is left.
func (k *kubelet) killed(pods int) {
	k.t.Helper()
	seed := uint64(time.Now().UnixNano())
	k.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test repeats with its seed
	type one struct {
		pod, container string
		config         *cri.PodSandboxConfig
	}
	var live []one
	for started := 0; started < pods || len(live) > 0; {
		switch what := r.IntN(10); {
		case len(live) < 4 && started < pods:
			p := one{}
			p.pod, p.config = k.pod(fmt.Sprint("killed-", started), "gorxe", cri.NamespaceMode_POD)
			p.container = k.start(p.pod, p.config, "c", "ibv_devices; exec sleep 1000")
			live, started = append(live, p), started+1
		case what == 0:
			for _, pid := range k.pods.daemons() {
				syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
			}
		case what < 4:
			k.stop(live[r.IntN(len(live))].container)
		default:
			i := r.IntN(len(live))
			k.removePod(live[i].pod)
			live = append(live[:i], live[i+1:]...)
		}
	}
	// The daemon of the next container removes what killed ones have left.
	last, config := k.pod("last", "gorxe", cri.NamespaceMode_POD)
	k.start(last, config, "c", "exec sleep 1000")
	k.removePod(last)
	k.pods.await(0)
	k.nothing()
	k.t.Logf("%d pods started, and containers, daemons and pods killed at random: no process, socket, mount or address is left", pods)
}

// nothing: no socket, mount or address of a pod is left.
func (k *kubelet) nothing() {
	k.t.Helper()
	for pattern, in := range map[string]string{"gorxe-*": k.run, "[0-9]*": filepath.Join(k.dir, "addresses/pods")} {
		if left := called[[]string](k.t)(filepath.Glob(filepath.Join(in, pattern))); len(left) > 0 {
			k.t.Errorf("%v are left", left)
		}
	}
	mounts := called[[]byte](k.t)(os.ReadFile(filepath.Join(k.run, "../../mounts")))
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, k.dir) {
			k.t.Errorf("still mounted: %s", line)
		}
	}
	nothingLeft(k.t, filepath.Join(k.dir, "state"))
}

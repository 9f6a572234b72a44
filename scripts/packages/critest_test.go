package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// leftOut are tests of critest that pull images, whose images busybox cannot replace, or that
// containerd 1.6 fails with runc, too. Two find that no seccomp filter is there: gorxe has one.
const leftOut = "MaskedPaths|unconfined on the container|nil profile|Image Manager|HostPID|PodPID|ContainerPID|HostIpc|HostNetwork|portforward|port mapping|Multiple Containers|privilege escalation|AppArmor|SELinux|not return an error if not found"

// busybox makes an image of the programs that critest calls. Process 1 is the
// sandbox's sleep.
func (k *kubelet) busybox() {
	k.t.Helper()
	const script = `mkdir bin etc root tmp; cp /etc/passwd /etc/group etc/; cp "$(command -v busybox)" bin/; for name in $(busybox --list); do test -e bin/$name || ln bin/busybox bin/$name; done
printf '#!/bin/sh\npidof "$@" | grep -vx 1\n' >bin/pgrep; chmod +x bin/pgrep; tar --create --file "$0" .`
	image := filepath.Join(k.dir, "busybox.tar")
	cmd := exec.Command("sh", "-ec", script, image)
	cmd.Dir = k.t.TempDir()
	if text, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%v\n%s", err, text)
	}
	k.pods.ok("import", "-q", "--change", `CMD ["/bin/sh"]`, image, "localhost/busybox")
	k.pods.ok("save", "-q", "--output", image+".saved", "localhost/busybox")
	if text, err := k.ctr("--namespace", "k8s.io", "images", "import", image+".saved"); err != nil {
		k.t.Fatalf("ctr: %v\n%s", err, text)
	}
}

// TestCritest runs Kubernetes' tests of container runtimes, with gorxe as the runtime of the pods.
func TestCritest(t *testing.T) {
	k := newKubelet(t)
	k.busybox()
	images := filepath.Join(k.dir, "images.yaml")
	if err := os.WriteFile(images, []byte("defaultTestContainerImage: localhost/busybox:latest\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := called[string](t)(filepath.Abs(controlPlane + "/critest"))
	cmd := exec.Command("nsenter", "--target", strings.Split(k.run, "/")[2], "--mount", "--net", program, "-runtime-endpoint", "unix://"+filepath.Join(k.dir, "socket"),
		"-runtime-handler", "gorxe", "-test-images-file", images, "-ginkgo.no-color", "-ginkgo.skip", leftOut)
	text, err := cmd.CombinedOutput()
	ran := regexp.MustCompile(`\d+ Passed \| \d+ Failed .*`).FindString(string(text))
	if err != nil || !strings.Contains(ran, "| 0 Failed") {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log("critest:", ran)
	k.removeAll()
	k.pods.await(0)
	k.nothing()
}

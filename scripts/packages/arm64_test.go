package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestARM64 runs the binary for arm64 with Debian's qemu-user-static. Its demo moves data with
// every operation between two devices. qemu-user has no seccomp filters, so no program can
// have a device, and gorxe says why.
func TestARM64(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "gorxe"), "./cmd/gorxe")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		command string
		code    int
		says    []string
	}{
		{"version", 0, []string{"linux/arm64"}},
		{"demo", 0, []string{"verified  SEND ", "verified  RDMA READ", "verified  COMPARE AND SWAP"}},
		{"doctor", 1, []string{"failure  seccomp", "a filter cannot notify a listener", "CONFIG_SECCOMP_FILTER is needed"}},
		{"run true", 125, []string{"gorxe: "}},
	} {
		cmd := exec.Command("unshare", "--net", "sh", "-ec", `ip link set lo up; exec qemu-aarch64-static ./gorxe $0`, c.command)
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		for _, want := range c.says {
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(text), want) {
				t.Errorf("gorxe %s: exit code %d, want %d and %q\n%s", c.command, code, c.code, want, text)
			}
		}
	}
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestImage makes the container image without a network and runs it, with podman as an
// ordinary user. It also runs an image without gorxe with gorxe-runtime.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to become an ordinary user that has a range of ids")
	}
	if err := makeStore(); err != nil {
		t.Fatal(err)
	}
	runtime, home := buildRuntime(t), t.TempDir()
	copyTo(t, filepath.Join(home, "bin/packages"), packages(t).dir+"/.")
	for _, argv := range [][]string{
		{"cp", "-rH", "../../bin/base-bookworm.tar", "../../bin/debs", "../../dist", runtime, home},
		{"sh", "-c", `echo "deb [trusted=yes] file:///debs ./" >"$0/sources.list"`, home},
		{"install", "-D", "-m", "755", "testdata/podman.sh", filepath.Join(home, "offline/podman")},
		{"chown", "-R", "54321:54321", home},
		{"chmod", "755", filepath.Dir(home), home},
	} {
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, text)
		}
	}
	user := func(script string) (string, int) {
		t.Helper()
		cmd := exec.Command("unshare", "--mount", "--net", "sh", "testdata/user.sh", home, "bash", "-o", "pipefail", "-c", "{ PATH=$HOME/offline:$PATH; "+script+"; } 2>&1 </dev/null | cat")
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(text), cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		// The files belong to ids of the user's range.
		if text, code := user("podman system reset --force"); code != 0 {
			t.Errorf("podman system reset: %s", text)
		}
	})
	if text, code := user("podman import -q base-bookworm.tar docker.io/library/debian:bookworm-slim"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, text)
	}

	// The commands of the README.
	text, code := user(typed(section(t, "A container", "sh")))
	t.Logf("A container:\n%s", text)
	if code != 0 || !strings.Contains(text, active) {
		t.Errorf("exit code %d", code)
	}
	transcript(t, "container", text)

	const confined = "podman run --rm --cap-drop all --read-only "
	for name, c := range map[string]struct {
		script, says string
		code         int
	}{
		"doctor":       {confined + "gorxe", "seccomp", 0},
		"two programs": {confined + "gorxe pair ib_write_bw -F -d rxe0 -x 1 -n 200 -- ib_write_bw -F -d rxe0 -x 1 -n 200 127.0.0.1", "BW average", 0},
		"RDMA CM":      {confined + "gorxe run bash -c 'rping -s -a 127.0.0.1 -C 3 & until rping -c -a 127.0.0.1 -C 3 -v; do sleep 0.1; done; wait $!'", "rdma-ping-0", 0},
		"rdma tools":   {confined + "gorxe run rdma link", "rxe0/1 state ACTIVE", 0},
		"confinement":  {confined + "gorxe run sh -c 'grep -E \"CapEff|Seccomp:\" /proc/self/status; exit 7'", "CapEff:\t0000000000000000\nSeccomp:\t2", 7},
		"the runtime": {"export RUNTIME=$PWD/gorxe-runtime; " + confined + "--entrypoint sh gorxe -c 'ibv_devices; " + outside + " && exit 4'",
			"rxe0", 4},
	} {
		if text, code := user(c.script); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", name, code, c.code, c.says, text)
		}
	}
}

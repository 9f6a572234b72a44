package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// otherBuild is another build of gorxe, which every user can run.
func otherBuild(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "build-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := build(dir, "-buildvcs=false", "-ldflags=-s")
	if err != nil {
		t.Fatal(err)
	}
	return other
}

const isAnotherBuild = "is another build of gorxe"

// TestOtherBuild: a run reports that the daemon is another build, if programs use that. After them
// it has a daemon of its own.
func TestOtherBuild(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	other := otherBuild(t)
	a, _ := twoHosts(t, 1500)
	user, env := nobody(t, a)
	run := func(t *testing.T, bin string, argv ...string) *proc {
		t.Helper()
		return start(t, user, env, slices.Concat([]string{bin, "run", "--device", "rxe0=eth0", "--"}, argv)...)
	}
	t.Run("in use", func(t *testing.T) {
		first := run(t, gorxe, "sh", "-c", "echo up; sleep 1000")
		if !until(programLimit, func() bool { return first.ended() || strings.Contains(first.out.String(), "up") }) || first.ended() {
			t.Fatalf("%s", first.describe())
		}
		if out := run(t, other, "ls", "/sys/class/infiniband").ok(); strings.Count(out, isAnotherBuild) != 1 || !strings.Contains(out, "rxe0") {
			t.Errorf("a run beside another build's:\n%s", out)
		}
		if out := run(t, gorxe, "true").ok(); out != "" {
			t.Errorf("a run beside its own build's:\n%s", out)
		}
		first.killProgram("sleep")
		first.wait()
	})
	t.Run("afterward", func(t *testing.T) {
		run(t, gorxe, "true").ok()
		out := run(t, other, "sh", "-c", "readlink /proc/$("+other+" status --json | sed -n 's/^  \"pid\": \\([0-9]*\\),/\\1/p')/exe").ok()
		if strings.Contains(out, isAnotherBuild) || !strings.Contains(out, filepath.Dir(other)) {
			t.Errorf("a run has not got a daemon of its own build:\n%s", out)
		}
	})
	t.Run("shared", func(t *testing.T) {
		d := startDaemon(t, a, "--device", "rxe0=eth0")
		out := start(t, a, d.env(), other, "run", "--", "ls", "/sys/class/infiniband").ok()
		if strings.Count(out, isAnotherBuild) != 1 || !strings.Contains(out, "restart the daemon") || !strings.Contains(out, "rxe0") {
			t.Errorf("a run at a daemon of another build:\n%s", out)
		}
		if out := d.run(t, "true").ok(); out != "" {
			t.Errorf("a run at a daemon of its own build:\n%s", out)
		}
	})
}

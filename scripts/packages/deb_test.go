package main

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDebianPackage installs the package in a Debian of its own, which systemd has booted,
// uses it there and removes it: testdata/deb.sh.
func TestDebianPackage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to boot a Debian in namespaces")
	}
	t.Parallel()
	root := t.TempDir()
	unpackRoot(t, root)
	deb, err := os.ReadFile(packages(t).file(t, ".deb"))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "gorxe.deb"), deb, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	boot := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child",
		"sh", "testdata/enter.sh", root, "testdata/deb.sh")
	boot.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: controlGroup(t)}
	said, err := boot.CombinedOutput()
	result, readErr := os.ReadFile(filepath.Join(root, "result"))
	if !strings.HasSuffix(string(result), "\npassed\n") {
		t.Fatalf("%v, %v\n%s\n%s", err, readErr, said, result)
	}
}

// unpackRoot unpacks the Debian that has the programs of the tests.
func unpackRoot(t *testing.T, root string) {
	t.Helper()
	if err := makeRoot(); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("tar", "-xf", "../../bin/root-bookworm.tar", "-C", root, "--exclude=./dev/*").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, text)
	}
}

// controlGroup makes a control group for the systemd of a test, so that it does not see
// that of the machine.
func controlGroup(t *testing.T) int {
	t.Helper()
	dir := filepath.Join(unified(t), fmt.Sprintf("gorxe-packages-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		var dirs []string
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, name)
			}
			return nil
		})
		for _, d := range slices.Backward(dirs) {
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
		}
	})
	return int(f.Fd())
}

// unified returns where the control groups of version 2 are.
func unified(t *testing.T) string {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if words := strings.Fields(s.Text()); slices.Contains(words, "cgroup2") {
			return words[4]
		}
	}
	t.Fatal("no control groups of version 2 are mounted")
	return ""
}

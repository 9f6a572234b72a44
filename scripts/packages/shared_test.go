package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// scratch is a directory for all tests.
var scratch string

// checkoutEnv and outEnv make this program do what `make packages` does, and nothing else:
// TestReproducible.
const (
	checkoutEnv = "GORXE_PACKAGES_CHECKOUT"
	outEnv      = "GORXE_PACKAGES_OUT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(checkoutEnv); dir != "" {
		if _, err := makeAll(dir, os.Getenv(outEnv), "amd64", os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "gorxe-packages-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	// git refuses to clone from a checkout of another user, such as a runner's, otherwise.
	config := filepath.Join(scratch, "gitconfig")
	if err := os.WriteFile(config, []byte("[safe]\n\tdirectory = *\n"), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("GIT_CONFIG_GLOBAL", config) //nolint:errcheck // the name is valid
	return m.Run()
}

// made is what `make packages` makes of the last commit, for amd64. Tests only read it.
type made struct {
	checkout, dir string
	names         []string // of the files in dir
}

var makeOnce = sync.OnceValues(func() (*made, error) {
	m := &made{checkout: filepath.Join(scratch, "gorxe"), dir: filepath.Join(scratch, "packages")}
	if err := cloneTo(m.checkout); err != nil {
		return nil, err
	}
	var err error
	m.names, err = makeAll(m.checkout, m.dir, "amd64", io.Discard)
	return m, err
})

func packages(t *testing.T) *made {
	t.Helper()
	m, err := makeOnce()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// script returns a function that runs a script of the directory above, once.
func script(name string) func() error {
	return sync.OnceValue(func() error {
		if text, err := exec.Command(name).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, text)
		}
		return nil
	})
}

// makeRoot makes bin/root-bookworm.tar. makeStore makes bin/base-bookworm.tar and bin/debs.
var (
	makeRoot  = script("../debian-root.sh")
	makeStore = script("../debian-offline.sh")
)

// file returns the path of the only file with a suffix.
func (m *made) file(t *testing.T, suffix string) string {
	t.Helper()
	names := slices.DeleteFunc(slices.Clone(m.names), func(n string) bool { return !strings.HasSuffix(n, suffix) })
	if len(names) != 1 {
		t.Fatalf("%d files end in %s: %v", len(names), suffix, m.names)
	}
	return filepath.Join(m.dir, names[0])
}

// cloneTo copies what is committed to another directory.
func cloneTo(dir string) error {
	if text, err := exec.Command("git", "clone", "-q", "--no-local", "../..", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w\n%s", err, text)
	}
	return nil
}

// copyTo copies files and directories into a directory.
func copyTo(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("cp", append(append([]string{"-r"}, files...), dir)...).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, text)
	}
}

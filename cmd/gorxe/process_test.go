package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// envMain makes this test's executable the program gorxe.
const envMain = "GORXE_TEST_MAIN"

func TestMain(m *testing.M) {
	// A process that gorxe starts from its own executable has a command, and no flag of the tests.
	// It must not run the tests again.
	if os.Getenv(envMain) != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

// self returns a command that runs gorxe in a process of its own.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = "gorxe"
	cmd.Env = append(os.Environ(), envMain+"=1")
	return cmd
}

// selfInPath makes gorxe a program that shells find.
func selfInPath(t *testing.T) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "gorxe")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(envMain, "1")
}

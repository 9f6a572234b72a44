package verdict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2"
)

// writeVerdict writes a verdict whose capture has no packet.
func writeVerdict(t *testing.T, dir string) {
	t.Helper()
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	tap, err := rocev2.OpenTap(CapturePath(dir), "gorxe")
	if err != nil {
		t.Fatal(err)
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := new(Run).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// TestAgain: a verdict takes the place of an earlier one, and of nothing else. Two runs at once do
// not write into one directory.
func TestAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	writeVerdict(t, dir)
	// A run that was killed leaves its capture.
	stale := filepath.Join(dir, "packets-1.pcapng")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	writeVerdict(t, dir)
	if _, err := os.Stat(stale); err == nil {
		t.Error("the capture of a run that was killed is left")
	}
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(dir); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("two runs have the directory: %v", err)
	}
	if err := Discard(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is left")
	}

	writeVerdict(t, dir)
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(dir); err == nil || !strings.Contains(err.Error(), "mine beside an earlier verdict") {
		t.Errorf("a file beside a verdict: %v", err)
	}
	if _, err := os.Stat(PagePath(dir)); err != nil {
		t.Errorf("the verdict that was refused is gone: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, MarkFile)); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(dir); err == nil || !strings.Contains(err.Error(), "it has files") {
		t.Errorf("files without a mark: %v", err)
	}
}

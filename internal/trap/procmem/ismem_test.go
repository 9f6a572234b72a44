package procmem

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that is named like a process's memory is not one.
func TestIsMem(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "mem")
	if err := os.WriteFile(fake, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/proc/self/mem":         true,
		"/proc/self/task/../mem": true,
		"/proc/self/maps":        false,
		"/dev/null":              false,
		fake:                     false,
	} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := IsMem(int(f.Fd())); got != want {
			t.Errorf("%s: %v", name, got)
		}
		f.Close()
	}
	if IsMem(-1) {
		t.Error("no descriptor is memory")
	}
}

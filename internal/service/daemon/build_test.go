package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestBuildID: the ID of an executable is Go's, and that of a file without one differs
// with each byte.
func TestBuildID(t *testing.T) {
	if b := proto.ThisBuild(); b.Version == "" || len(b.ID) < 8 || b.ID == "unknown" {
		t.Errorf("this build is %+v", b)
	}
	seen := make(map[string]bool)
	for i, text := range []string{"", "a", "b", "\x7fELF"} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id := proto.ExecutableID(path); seen[id] || len(id) < 8 {
			t.Errorf("file %d has the ID %q", i, id)
		} else {
			seen[id] = true
		}
	}
}

// TestOtherBuild: a daemon reports its build.
func TestOtherBuild(t *testing.T) {
	one := proto.Build{Version: "(devel)", ID: "11111111"}
	for _, private := range []bool{false, true} {
		s := startTest(t, Config{Build: one, Private: private}, nil)
		if h, err := s.dial(t).Hello(nil, proto.Wanted{}); err != nil || h.Build != one {
			t.Errorf("private %v: %+v, %v", private, h, err)
		}
	}
}

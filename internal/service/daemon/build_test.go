package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestOtherBuild: an idle private daemon ends for another build. A daemon that is in use, or
// not private, or asked for no build, does not end, and reports its build.
func TestOtherBuild(t *testing.T) {
	one, two := proto.Build{Version: "(devel)", ID: "11111111"}, proto.Build{Version: "(devel)", ID: "22222222"}
	cfg := Config{Build: one, Private: true, Grace: time.Hour}
	s := startTest(t, cfg, nil)
	for _, wanted := range []proto.Build{{}, one} {
		c := s.dial(t)
		if h, err := c.Hello(nil, proto.Wanted{Build: wanted}); err != nil || h.Build != one {
			t.Fatalf("hello of build %v: %+v, %v", wanted, h, err)
		}
		if h, err := s.dial(t).Hello(nil, proto.Wanted{Build: two}); err != nil || h.Build != one {
			t.Errorf("hello of another build to a daemon in use: %+v, %v", h, err)
		}
	}
	idle := startTest(t, cfg, nil)
	_, err := idle.dial(t).Hello(nil, proto.Wanted{Build: two})
	if !errors.Is(err, proto.ErrReplaced) || !errors.Is(err, proto.ErrEnding) {
		t.Errorf("hello of another build to an idle daemon: %v", err)
	}
	select {
	case <-idle.ended:
	case <-time.After(testTimeout):
		t.Error("the idle daemon does not end")
	}
	cfg.Private = false
	if h, err := startTest(t, cfg, nil).dial(t).Hello(nil, proto.Wanted{Build: two}); err != nil || h.Build != one {
		t.Errorf("hello of another build to a shared daemon: %+v, %v", h, err)
	}
}

package tenant

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The systemd unit has the limits that the shares are derived from.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../../dist/gorxe.service")
	if err != nil {
		t.Fatal(err)
	}
	set := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			set[name] = value
		}
	}
	if want := fmt.Sprint(goThreads); set["TasksMax"] != want {
		t.Errorf("TasksMax=%s, want %s", set["TasksMax"], want)
	}
	for _, name := range []string{"MemoryMax", "LimitNOFILE"} {
		if set[name] == "" || set[name] == "infinity" {
			t.Errorf("%s=%s is no limit", name, set[name])
		}
	}
}

package e2e

import (
	"strings"
	"testing"
)

// TestDoctorCommand: gorxe doctor finds no failure here, says what is wrong on a bad one,
// and its exit code is for scripts.
func TestDoctorCommand(t *testing.T) {
	need(t, "sh")
	if !selection.takes(core) {
		return
	}
	h := newHost(t, "192.0.2.1/24")
	out := start(t, h, nil, gorxe, "doctor").ok()
	if !strings.Contains(out, "finds its device") || !strings.Contains(out, "rdma-core") {
		t.Errorf("a sound host:\n%s", out)
	}
	// A program under gorxe run may ask, too.
	out = start(t, h, nil, gorxe, "run", "--device", "rxe0=lo", "--", gorxe, "doctor").ok()
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "under a seccomp filter already") {
		t.Errorf("under gorxe run:\n%s", out)
	}
	for _, c := range []struct {
		name string
		argv []string
		says []string
	}{
		{"few descriptors", []string{"sh", "-c", "ulimit -n 100; exec " + gorxe + " doctor"},
			[]string{"failure  open files", "raise the hard limit"}},
		{"as JSON", []string{"sh", "-c", "ulimit -n 100; exec " + gorxe + " doctor --json"},
			[]string{`"subject": "open files",`, `"level": "failure",`, `"remedy": "raise the hard limit`}},
	} {
		p := start(t, h, nil, c.argv...)
		if code := p.wait(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", c.name, code)
		}
		for _, want := range c.says {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, p.describe())
			}
		}
	}
}

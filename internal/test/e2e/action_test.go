package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestActionSteps: the step of action.yml that runs commands works twice in a job, and in two jobs
// at a time of one user. Each has its verdict.
func TestActionSteps(t *testing.T) {
	besideOthers(t)
	need(t, "bash", "rping")
	notNative(t, "action")
	if !selection.takes(standard) {
		return
	}
	step, err := filepath.Abs("../../../dist/action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	jobs := []string{t.TempDir(), t.TempDir()}
	// Each waits until the other one has begun.
	const commands = `touch "$RUNNER_TEMP/begun"; until [ -e "$OTHER/begun" ]; do sleep 0.1; done
gorxe pair rping -s -a 127.0.0.1 -C 2 -- rping -c -a 127.0.0.1 -C 2`
	for range 2 {
		var steps []*proc
		for i, temp := range jobs {
			env := []string{"RUNNER_TEMP=" + temp, "OTHER=" + jobs[1-i], "INPUT_DEVICES=rxe0=lo", "INPUT_RUN=" + commands,
				"GORXE_SANITIZE=" + []string{"", "default"}[i], "PATH=" + filepath.Dir(gorxe) + ":" + os.Getenv("PATH")}
			steps = append(steps, start(t, h, env, step))
		}
		for _, p := range steps {
			p.ok()
		}
		for i, temp := range jobs {
			page, err := os.ReadFile(filepath.Join(temp, "gorxe", "verdict", "verdict.md"))
			if err != nil || !strings.HasPrefix(string(page), "# Verdict: the program ended well\n") {
				t.Errorf("%v\n%s", err, page)
			}
			if sanitized := strings.Contains(string(page), "The sanitizer found none."); sanitized != (i == 1) {
				t.Errorf("job %d:\n%s", i, page)
			}
			if err := os.Remove(filepath.Join(temp, "begun")); err != nil {
				t.Error(err)
			}
		}
	}
}

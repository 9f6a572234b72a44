package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestSanitizers: with gorxe_sanitize.h MemorySanitizer and ThreadSanitizer blame no program that
// is right, and still blame those that are wrong. Without it they blame the right ones.
func TestSanitizers(t *testing.T) {
	if !selection.takes(complete) {
		return
	}
	need(t, "gcc", "clang", "clang++")
	d := oneDaemon(t)
	header := must.Get[string](t)(filepath.Abs("../../../dist/include/gorxe_sanitize.h"))
	const memory, threads = "MemorySanitizer: use-of-uninitialized-value", "ThreadSanitizer: data race"
	for _, c := range []struct {
		name, command, program, arg string
		without                     bool
		says                        string // empty: it is right
	}{
		{"memory, without the header", "clang -fsanitize=memory", "received.c", "", true, memory},
		{"memory", "clang -fsanitize=memory", "received.c", "", false, ""},
		{"memory, receives from the post on", "clang -fsanitize=memory", "received.c", "wrong", false, ""},
		{"memory, what was received", "clang -fsanitize=memory -DGORXE_SANITIZE_RECEIVED", "received.c", "", false, ""},
		{"memory, beyond what was received", "clang -fsanitize=memory -DGORXE_SANITIZE_RECEIVED", "received.c", "wrong", false, memory},
		{"threads, without the header", "gcc -fsanitize=thread", "posted.c", "", true, threads},
		{"threads", "gcc -fsanitize=thread", "posted.c", "", false, ""},
		{"threads, a race", "gcc -fsanitize=thread", "posted.c", "wrong", false, threads},
		{"threads, clang", "clang -fsanitize=thread", "posted.c", "", false, ""},
		{"threads, a race, clang", "clang -fsanitize=thread", "posted.c", "wrong", false, threads},
		{"none", "gcc -Wextra -Wno-unused-parameter", "received.c", "wrong", false, ""},
		{"C++", "clang++ -Wextra -fsanitize=memory", "plain.cc", "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "program")
			argv := append(strings.Fields(c.command), "-g", "-O1", "-Wall", "-Werror", "-o", bin, "testdata/sanitizers/"+c.program)
			if !c.without {
				argv = append(argv, "-include", header)
			}
			argv = append(argv, "-libverbs", "-lpthread")
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", argv, err, out)
			}
			env := append(d.env(), "MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0")
			run := []string{gorxe, "run", "--", bin}
			if c.arg != "" {
				run = append(run, c.arg)
			}
			p := start(t, d.host, slices.Concat(env, []string{"TSAN_OPTIONS="}), run...)
			code := p.wait()
			if out := p.out.String(); (code == 0) != (c.says == "") || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, want %q; output:\n%s", code, c.says, out)
			}
		})
	}
	text := string(must.Get[[]byte](t)(os.ReadFile(header)))
	if !strings.Contains(text, "MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0") {
		t.Error("the header names other options")
	}
}

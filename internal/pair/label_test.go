package pair

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestLabels: each line has its label and stays whole, also the last one without an end, and a process that
// stays in the background keeps nobody.
func TestLabels(t *testing.T) {
	for command, want := range map[string][2]string{
		"printf 'one\\ntwo'; echo three >&2":    {"server: one\nserver: two\n", "server: three\n"},
		"printf '\\n\\n'":                       {"server: \nserver: \n", ""},
		"echo before; sleep 1000 & echo $! >&2": {"server: before\n", "server: "},
	} {
		cmd := exec.Command("sh", "-c", command)
		var out, errs lockedBuffer
		started, err := labeled(cmd, "server: ", &out, &errs)
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Start()
		drained := started()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		drained()
		if got := errs.String(); out.String() != want[0] || !strings.HasPrefix(got, want[1]) || want[1] == "" && got != "" {
			t.Errorf("%s: %q and %q, want %q", command, out.String(), got, want)
		}
		if pid, ok := strings.CutPrefix(errs.String(), "server: "); ok && strings.Contains(command, "sleep") {
			exec.Command("kill", strings.TrimSpace(pid)).Run() //nolint:errcheck // it ends by itself, too
		}
	}
	long := strings.Repeat("x", maxLine+10)
	var out bytes.Buffer
	copyLines(&out, "c: ", strings.NewReader(long+"\nend\n"))
	if lines := strings.Split(out.String(), "\n"); len(lines) != 4 || len(lines[0]) != maxLine+3 || lines[1] != "c: "+long[maxLine:] || lines[2] != "c: end" {
		t.Errorf("a long line became %d lines", len(lines))
	}
}

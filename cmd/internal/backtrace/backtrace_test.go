package backtrace

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/test/must"
)

// stackOf copies the stack of a process that waits in a call, as the daemon does.
func stackOf(t *testing.T, pid int) (s sanitize.Stack, maps string) {
	t.Helper()
	read := func(name string) string {
		return string(must.Get[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))))
	}
	must.Eventually(t, "the program waits in read", func() bool {
		var nr, arg int
		n, _ := fmt.Sscanf(read("syscall"), "%d %v %v %v %v %v %v %v %v", &nr, &arg, &arg, &arg, &arg, &arg, &arg, &s.SP, &s.PC)
		return n == 9 && nr == 0
	})
	mem := must.Get[*os.File](t)(os.Open(fmt.Sprintf("/proc/%d/mem", pid)))
	defer mem.Close()
	s.Bytes = make([]byte, 1024)
	_, err := mem.ReadAt(s.Bytes, int64(s.SP))
	must.OK(t, err)
	return s, read("maps")
}

// TestName: a stack has its functions with their lines, also those that the compiler put into
// others. Without debug information it has functions and offsets.
func TestName(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("stacks are unwound on amd64 only")
	}
	gcc := must.Get[string](t)(exec.LookPath("gcc"))
	text := string(must.Get[[]byte](t)(os.ReadFile("testdata/waits.c")))
	line := func(mark string) int {
		before, _, _ := strings.Cut(text, "/* "+mark+" */")
		return 1 + strings.Count(before, "\n")
	}
	for _, flags := range [][]string{{"-O0", "-g"}, {"-O1", "-g", "-fno-omit-frame-pointer"}, {"-O2", "-g", "-fno-optimize-sibling-calls"}, {"-O0"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "waits")
			if out, err := exec.Command(gcc, append(flags, "-o", bin, "testdata/waits.c")...).CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			cmd := exec.Command(bin)
			stdin := must.Get[io.WriteCloser](t)(cmd.StdinPipe())
			must.OK(t, cmd.Start())
			defer cmd.Wait() //nolint:errcheck // it ends with 0, as its input does
			defer stdin.Close()
			s, maps := stackOf(t, cmd.Process.Pid)
			r := sanitize.Report{Maps: []string{maps}, Findings: []sanitize.Finding{{Places: []sanitize.Place{{Stack: &s}}}}}
			Name(&r)
			var got []string
			for _, f := range r.Findings[0].Places[0].Lines {
				got = append(got, f.String())
			}
			var want []string
			if len(flags) == 1 {
				want = []string{"read+0x", "waits+0x", "main+0x"}
			} else {
				want = []string{"read+0x", fmt.Sprintf("waits.c:%d in inlined", line("INLINED")),
					fmt.Sprintf("waits.c:%d in waits", line("WAITS")), fmt.Sprintf("waits.c:%d in main", line("MAIN"))}
			}
			ok := len(got) == len(want)
			for i := range want {
				ok = ok && strings.Contains(got[i], want[i])
			}
			if !ok {
				t.Errorf("frames %q, want %q", got, want)
			}
			if r.Findings[0].Places[0].Stack != nil || r.Maps != nil {
				t.Error("the raw stack is still there")
			}
		})
	}
}

// TestMalformed: a report whose stacks are malformed has no lines.
func TestMalformed(t *testing.T) {
	maps := "malformed\n1-0 r-xp 0 0:0 0 /nowhere\n1000-2000 r-xp 0 0:0 0 /proc/self/exe\nx-y r-xp z 0:0 0 /bin/sh\n"
	for _, s := range []sanitize.Stack{{}, {Maps: -1}, {Maps: 9}, {PC: 0x1800, SP: 1<<64 - 8, Bytes: make([]byte, 64)}, {PC: 0x1fff, Bytes: nil}} {
		r := sanitize.Report{Maps: []string{maps}, Findings: []sanitize.Finding{{Places: []sanitize.Place{{Stack: &s}}}}}
		Name(&r)
		if n := len(r.Findings[0].Places[0].Lines); n > 1 {
			t.Errorf("%+v has %d frames", s, n)
		}
	}
}

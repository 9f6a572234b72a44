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
		var nr int
		var arg uint64
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
// others, and their names as the source has them. Without debug information it has functions and
// offsets.
func TestName(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("stacks are unwound on amd64 only")
	}
	// before "in" is a mark in the source
	c := []string{"read", "INLINED in inlined", "WAITS in waits", "MAIN in main"}
	type program struct {
		compiler, source, flags string
		want                    []string
	}
	programs := []program{
		{"gcc", "waits.c", "-O0 -g", c},
		{"gcc", "waits.c", "-O1 -g -fno-omit-frame-pointer", c},
		{"gcc", "waits.c", "-O2 -g -fno-optimize-sibling-calls", c},
		{"gcc", "waits.c", "-O0", []string{"read+0x", "waits+0x", "main+0x"}},
		{"g++", "waits.cc", "-O2 -g", []string{"read", "INLINED in net::Server<int>::inlined", "LAMBDA in net::Server<int>::waits()::{lambda()#1}::operator()",
			"WAITS in net::Server<int>::waits", "MAIN in main"}},
	}
	// nothing else here needs it, so setup does not install it
	if _, err := exec.LookPath("rustc"); err == nil {
		programs = append(programs, program{"rustc", "waits.rs", "-O -g",
			[]string{"read", "INLINED in waits::net::inlined", "WAITS in waits::net::waits", "MAIN in waits::main"}})
	}
	for _, tt := range programs {
		t.Run(tt.compiler+" "+tt.flags, func(t *testing.T) {
			source := filepath.Join("testdata", tt.source)
			bin := filepath.Join(t.TempDir(), "waits")
			if out, err := exec.Command(tt.compiler, append(strings.Fields(tt.flags), "-o", bin, source)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", tt.compiler, err, out)
			}
			got := framesOf(t, bin)
			text := string(must.Get[[]byte](t)(os.ReadFile(source)))
			if len(got) < len(tt.want) || got[len(tt.want)-1] != got[len(got)-1] && tt.compiler != "rustc" {
				t.Fatalf("frames %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				same := strings.Contains
				if mark, function, ok := strings.Cut(want, " in "); ok {
					before, _, _ := strings.Cut(text, "/* "+mark+" */")
					want = fmt.Sprintf("%s:%d in %s", tt.source, 1+strings.Count(before, "\n"), function)
					same = strings.HasSuffix
				}
				if !same(got[i], want) {
					t.Errorf("frame %d is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

// TestSeparateDebug: lines are found in the file to which a program's debug information was moved,
// but not in that of another program.
func TestSeparateDebug(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("stacks are unwound on amd64 only")
	}
	dir := t.TempDir()
	run := func(line string) {
		t.Helper()
		words := strings.Fields(line)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	source := must.Get[string](t)(filepath.Abs("testdata/waits.c"))
	for name, flags := range map[string]string{"mine": "-O0", "other": "-O1 -fno-omit-frame-pointer"} {
		run("gcc -g -Wl,--build-id " + flags + " -o " + name + " " + source)
		run("objcopy --only-keep-debug " + name + " " + name + ".debug")
		run("objcopy --strip-all --add-gnu-debuglink=" + name + ".debug " + name)
	}
	bin := filepath.Join(dir, "mine")
	if list := framesOf(t, bin); len(list) < 4 || !strings.HasSuffix(list[3], "in main") || !strings.Contains(list[3], "waits.c:") {
		t.Errorf("frames %q", list)
	}
	run("mv other.debug mine.debug")
	for _, f := range framesOf(t, bin) {
		if strings.Contains(f, "waits.c") {
			t.Errorf("a frame of another program's debug information: %q", f)
		}
	}
}

// framesOf returns the frames of a program that waits for its standard input.
func framesOf(t *testing.T, bin string) (list []string) {
	t.Helper()
	cmd := exec.Command(bin)
	stdin := must.Get[io.WriteCloser](t)(cmd.StdinPipe())
	must.OK(t, cmd.Start())
	defer cmd.Wait() //nolint:errcheck // it ends as its input does
	defer stdin.Close()
	s, maps := stackOf(t, cmd.Process.Pid)
	r := sanitize.Report{Maps: []string{maps}, Findings: []sanitize.Finding{{Places: []sanitize.Place{{Stack: &s}}}}}
	Name(&r)
	for _, f := range r.Findings[0].Places[0].Lines {
		list = append(list, f.String())
	}
	if r.Findings[0].Places[0].Stack != nil || r.Maps != nil {
		t.Error("the raw stack is still there")
	}
	return list
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

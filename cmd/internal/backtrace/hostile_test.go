package backtrace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/test/must"
)

// compiled returns the program of testdata.
func compiled(t testing.TB, flags ...string) []byte {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("stacks are unwound on amd64 only")
	}
	bin := filepath.Join(t.TempDir(), "waits")
	if out, err := exec.Command("gcc", append(flags, "-o", bin, "testdata/waits.c")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	data, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hostileStack is a stack on which each word is an address of the program.
func hostileStack(pc uint64) *sanitize.Stack {
	s := &sanitize.Stack{PC: pc, SP: 1 << 40, Bytes: make([]byte, sanitize.StackBytes)}
	for i := 0; i < len(s.Bytes); i += word {
		binary.LittleEndian.PutUint64(s.Bytes[i:], pc+uint64(i))
	}
	return s
}

const (
	loadedAt = 0x10000000
	imageEnd = loadedAt + 1<<20
	patient  = time.Minute // a test that takes so long has failed
)

// named names stacks of a program that is mapped from a file.
func named(path string, inode uint64, stacks ...*sanitize.Stack) [][]sanitize.Frame {
	r := sanitize.Report{Maps: []string{fmt.Sprintf("%x-%x r-xp 0 08:01 %d %s\n", loadedAt, imageEnd, inode, path)}}
	for _, s := range stacks {
		r.Findings = append(r.Findings, sanitize.Finding{Places: []sanitize.Place{{Stack: s}}})
	}
	nameFor(&r, patient)
	var list [][]sanitize.Frame
	for i := range r.Findings {
		list = append(list, r.Findings[i].Places[0].Lines)
	}
	return list
}

// TestReplaced: a file that is not the one that was mapped gives no frame, and is not waited for.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	program := compiled(t, "-g")
	must.OK(t, os.WriteFile(path("program"), program, 0o755))
	must.OK(t, os.WriteFile(path("other"), program, 0o755))
	must.OK(t, unix.Mkfifo(path("fifo"), 0o666))
	must.OK(t, os.Symlink(path("fifo"), path("link")))
	must.OK(t, os.Mkdir(path("directory"), 0o755))
	must.OK(t, os.WriteFile(path("empty"), nil, 0o755))
	var st unix.Stat_t
	must.OK(t, unix.Stat(path("program"), &st))
	if frames := named(path("program"), st.Ino, hostileStack(loadedAt+0x1000))[0]; len(frames) == 0 {
		t.Fatal("the program itself gives no frame")
	}
	for _, name := range []string{"other", "gone", "program (deleted)"} {
		if frames := named(path(name), st.Ino, hostileStack(loadedAt+0x1000))[0]; len(frames) > 0 {
			t.Errorf("%s: %v", name, frames)
		}
	}
	for _, file := range []string{path("fifo"), path("link"), path("directory"), path("empty"), "/dev/zero", "/dev/ptmx", "/proc/self/mem"} {
		if frames := named(file, 0, hostileStack(loadedAt+0x1000))[0]; len(frames) > 0 {
			t.Errorf("%s: %v", file, frames)
		}
	}
}

// TestSparse: sections of a sparse file that are larger than memory are not read.
func TestSparse(t *testing.T) {
	const huge = 1 << 40
	program := compiled(t, "-g")
	at := int(binary.LittleEndian.Uint64(program[40:])) // of the section headers
	for i := at; i+64 <= len(program); i += 64 {
		changed := bytes.Clone(program)
		binary.LittleEndian.PutUint64(changed[i+32:], huge) // sh_size
		path := filepath.Join(t.TempDir(), "sparse")
		must.OK(t, os.WriteFile(path, changed, 0o755))
		must.OK(t, os.Truncate(path, 2*huge))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		named(path, 0, hostileStack(loadedAt+0x1000))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > mostSymbols {
			t.Errorf("section %d: %d bytes were allocated", (i-at)/64, n)
		}
	}
}

// TestEndless: a stack that goes on for ever has mostFrames frames, and files that take too long
// give the rest no lines.
func TestEndless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	must.OK(t, os.WriteFile(path, compiled(t), 0o755))
	for offset := range uint64(0x400) {
		s := hostileStack(loadedAt + 0x1000 + offset)
		for i := 0; i < len(s.Bytes); i += word {
			binary.LittleEndian.PutUint64(s.Bytes[i:], s.PC)
		}
		if n := len(named(path, 0, s)[0]); n > mostFrames {
			t.Fatalf("%d frames", n)
		}
	}
	r := sanitize.Report{Maps: []string{"malformed"}, Findings: []sanitize.Finding{{Places: []sanitize.Place{{Stack: hostileStack(loadedAt)}}}}}
	nameFor(&r, 0)
	if r.Maps != nil || r.Findings[0].Places[0].Stack != nil {
		t.Error("the raw stack is still there")
	}
}

// TestManyImages: what the files of a report may take is taken once, under however many names a
// file is mapped.
func TestManyImages(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	must.OK(t, os.WriteFile(first, compiled(t, "-g"), 0o755))
	must.OK(t, os.Link(first, second))
	one := namer{images: make(map[string]*image), left: newBudget()}
	if im := one.open(first, 0); im == nil || im.frames == nil || im.symbols == nil || im.lines == nil {
		t.Fatal("the program is not read whole")
	}
	taken := budget{mostUnwind - one.left.unwind, mostSymbols - one.left.symbols, mostDebug - one.left.debug}
	both := namer{images: make(map[string]*image), left: taken}
	if im := both.open(first, 0); im.frames == nil || im.symbols == nil || im.lines == nil {
		t.Errorf("the first name gives %+v", im)
	}
	if im := both.open(second, 0); im.frames != nil || im.symbols != nil || im.lines != nil {
		t.Errorf("the second name gives %d frames, %d symbols", len(im.frames), len(im.symbols))
	}
}

// TestRules: a function with endless unwind instructions, each of which takes memory, ends a stack.
func TestRules(t *testing.T) {
	compiled(t) // or it skips
	source, path := filepath.Join(t.TempDir(), "rules.s"), filepath.Join(t.TempDir(), "rules")
	must.OK(t, os.WriteFile(source, []byte(`
		.globl _start
		_start:
		.cfi_startproc
		.rept 400000
		.cfi_remember_state
		.endr
		nop
		.cfi_endproc
	`), 0o600))
	if out, err := exec.Command("gcc", "-nostdlib", "-static", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frames := named(path, 0, hostileStack(loadedAt+0x1000))[0]
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; len(frames) == 0 || n > 16<<20 {
		t.Errorf("%d frames took %d bytes", len(frames), n)
	}
}

// TestInlined: very many functions that were put into one another, and endless names, are cut.
func TestInlined(t *testing.T) {
	compiled(t) // or it skips
	source, path := filepath.Join(t.TempDir(), "inlined.s"), filepath.Join(t.TempDir(), "inlined")
	must.OK(t, os.WriteFile(source, []byte(`
		.globl _start
		.text
		_start:
		.file 1 "`+strings.Repeat("f", 3*mostName)+`"
		.loc 1 1
		.rept 16
		nop
		.endr
		.Lend:
		.section .debug_abbrev
		.Labbrev: # low_pc, high_pc, and of the unit stmt_list, of the others name, call_file and call_line
		.byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0
		.byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0
		.byte 3, 0x1d, 1, 0x11, 1, 0x12, 7, 3, 8, 0x58, 0xb, 0x59, 0xb, 0, 0, 0
		.macro entry n
		.byte \n
		.quad _start, .Lend - _start
		.endm
		.section .debug_info
		.long .Linfo - .Lunit
		.Lunit:
		.short 4
		.long .Labbrev
		.byte 8
		entry 1
		.long 0 # the line table
		entry 2
		.rept 2000
		entry 3
		.fill `+strconv.Itoa(2*mostName)+`, 1, 0x6e
		.byte 0
		.byte 1, 1
		.endr
		.fill 2002, 1, 0
		.Linfo:
	`), 0o600))
	if out, err := exec.Command("gcc", "-nostdlib", "-static", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	frames := named(path, 0, hostileStack(loadedAt+0x1000))[0]
	if n := len(frames); n < 2 || n > mostInlined+1 {
		t.Errorf("%d frames", n)
	}
	for i := range frames {
		if f := &frames[i]; len(f.Function) > mostName || len(f.File) > mostName {
			t.Fatalf("a function with a name of %d bytes, in a file with one of %d", len(f.Function), len(f.File))
		}
	}
}

// TestLying: programs with random bytes in headers, unwind tables and debug information are named
// somehow, or not at all.
func TestLying(t *testing.T) {
	program := compiled(t, "-g")
	at := int(binary.LittleEndian.Uint64(program[40:]))
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "lying")
	for i := range 400 {
		changed := bytes.Clone(program)
		for range 1 + i%8 {
			from, to := 0, len(changed)
			switch i % 3 {
			case 0:
				to = 64 + 13*56 // the header, and those of segments
			case 1:
				from = at
			}
			changed[from+rng.IntN(to-from)] = byte(rng.Uint32())
		}
		must.OK(t, os.WriteFile(path, changed, 0o755))
		named(path, 0, hostileStack(loadedAt+0x1000+uint64(rng.IntN(0x400))))
	}
}

// FuzzImage: whatever the file and the stack of a program, its frames are bounded.
func FuzzImage(f *testing.F) {
	f.Add(compiled(f, "-O0", "-g", "-nostartfiles", "-nostdlib", "-ffreestanding", "-Wl,--unresolved-symbols=ignore-all"), uint64(0x1010), []byte("stack"))
	f.Add(compiled(f, "-O2", "-g", "-gz"), uint64(0x1100), []byte{1})
	f.Add([]byte("\x7fELF"), uint64(0), []byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, program []byte, pc uint64, stack []byte) {
		path := filepath.Join(dir, fmt.Sprint(os.Getpid()))
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		s := &sanitize.Stack{PC: loadedAt + pc%(1<<20), SP: 1 << 40, Bytes: stack}
		for _, list := range named(path, 0, s, hostileStack(s.PC)) {
			if len(list) > 64*mostFrames {
				t.Errorf("%d frames", len(list))
			}
		}
	})
}

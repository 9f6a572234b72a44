package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// compiling is held while a C program is built: tests that run at once may need the same one.
var compiling sync.Mutex

// gcc builds a C program, once, and returns its path. A test must not change the file.
func gcc(t *testing.T, name string, args ...string) string {
	t.Helper()
	need(t, "gcc")
	compiling.Lock()
	defer compiling.Unlock()
	bin := filepath.Join(scratch, name)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil { //nolint:gosec // as scratch
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append([]string{"-o", bin}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", name, err, out)
	}
	return bin
}

// compile builds a C program of testdata, NAME.c with NAME_*.c, against the
// installed libibverbs.
func compile(t *testing.T, name string) string {
	t.Helper()
	parts, err := filepath.Glob("testdata/" + name + "_*.c")
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"-O1", "-Wall", "-Wl,--as-needed", "testdata/" + name + ".c"}, parts, []string{"-lrdmacm", "-lmlx5", "-libverbs", "-lpthread"})
	return gcc(t, name, args...)
}

const (
	isMemory  = "the descriptor is a memory file that gorxe answers for; it can be mapped where no queue is"
	hasODP    = "gorxe has on-demand paging, which rdma_rxe of this version lacks"
	isForked  = "the kernel compares credentials by address, so a fork loses them; here the forked child may use what it inherited"
	isChecked = "out of range; rdma_rxe does not look"
)

// answersDiffer lists the answers that are not the kernel's, and why.
var answersDiffer = map[string]differs{
	"mmap offset 0":                           {"ok", isMemory},
	"mmap far offset":                         {"ok", isMemory},
	"fresh: mmap":                             {"ok", isMemory},
	"write rereg_mr unknown":                  {"ENOENT", "gorxe can reregister; rdma_rxe of this version cannot"},
	"ioctl advise_mr":                         {"EINVAL", hasODP},
	"reg_mr on demand":                        {"ok", hasODP},
	"reg_mr on demand, everything":            {"ok", hasODP},
	"reg_mr_iova wraps":                       {"EINVAL", isChecked},
	"modify_qp INIT pkey index 5":             {"EINVAL", isChecked},
	"fresh: write in a forked child":          {"ok", isForked},
	"fresh: write alloc_pd in a forked child": {"ok", isForked},
}

// TestErrnos: what Linux's rdma_rxe refuses is refused here with the same errno.
// rdma-core decides by errno what to try next, and programs print it.
func TestErrnos(t *testing.T) {
	if !selection.takes(core) {
		return
	}
	text, err := os.ReadFile("testdata/errnos-linux-6.1.192.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := oneHost(t)
	got := answers(r.start(t, compile(t, "errnos"), r.device, "1").ok())
	var table strings.Builder
	table.WriteString("| request | Linux 6.1 rdma_rxe | gorxe | because |\n|---|---|---|---|\n")
	for _, line := range slices.Collect(strings.Lines(string(text))) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, want = splitAnswer(name, want)
		d, known := answersDiffer[name]
		if known {
			table.WriteString("| " + name + " | " + want + " | " + d.here + " | " + d.reason + " |\n")
			want = d.here
		}
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	compatibility(t, "refusals", table.String())
}

func answers(text string) map[string]string {
	got := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, value = splitAnswer(name, value)
		got[name] = value
	}
	return got
}

// splitAnswer puts the group back to the name: "busy: destroy_cq: EBUSY".
func splitAnswer(name, value string) (string, string) {
	if i := strings.LastIndex(value, ": "); i >= 0 {
		return name + ": " + value[:i], value[i+2:]
	}
	return name, value
}

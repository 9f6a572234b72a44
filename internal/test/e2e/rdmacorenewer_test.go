package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

const rdmacorePage = "testdata/rdma-core-tests.md"

// newerHere says why tests of a newer rdma-core end otherwise than on the kernel.
var newerHere = []struct {
	tests   *regexp.Regexp
	because string
}{
	{regexp.MustCompile(`^test_odp\.`), hasODP},
	{regexp.MustCompile(`^test_qpex\..*_rc_atomic_write$`), "rdma_rxe has the operation since Linux 6.2"},
	{regexp.MustCompile(`^test_qpex\..*_rc_flush`), "rdma_rxe has the operation since Linux 6.3"},
	{regexp.MustCompile(`^test_rdmacm\..*_resolve_addrinfo$`), "the command (WRITE_CM_EVENT) came with Linux 6.17"},
}

// TestRDMACoreNewer: no test of a newer rdma-core fails here. Each that passes on the kernel's
// rdma_rxe passes, and testdata/rdma-core-tests.md has them all by name. Other than full runs have
// those that ask `rdma link` for the network interface.
func TestRDMACoreNewer(t *testing.T) {
	besideOthers(t)
	if native != "" || doorbells == "direct" {
		return
	}
	whole := full || *update
	t.Run("56", func(t *testing.T) {
		if !selection.takes(standard) {
			return
		}
		names := []string{"test_device", "test_rdmacm"}
		if whole {
			names = []string{"test_"}
		}
		checkNewer(t, newer(t), "56", names...)
	})
	t.Run("65", func(t *testing.T) {
		if selection.takes(complete) || *update {
			checkNewer(t, newest(t), "65", "test_")
		}
	})
}

// checkNewer runs the tests whose names begin with one of the names.
func checkNewer(t *testing.T, r release, version string, names ...string) {
	t.Helper()
	wantVersion(t, r, version)
	kernel := onKernel(t, version)
	got := runRDMACore(t, oneHost(t), r, "/usr/share/doc/rdma-core/tests", names...)
	if t.Failed() {
		return
	}
	for name, v := range kernel {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) }) {
			checkVerdict(t, name, v, got)
		}
	}
	if !t.Failed() && names[0] == "test_" {
		generated(t, rdmacorePage, "rdma-core "+version, rdmacoreByName(kernel, got))
	}
}

// wantVersion ends a test whose release is not the one that was recorded. Debian's newest is
// another one some day, and this system may be a newer Debian.
func wantVersion(t *testing.T, r release, version string) {
	t.Helper()
	if r.root == "" {
		if here := rdmaCoreHere(t); strconv.Itoa(here) != version {
			testenv.Missing(t, "this system has rdma-core %d, and version %s was recorded on the kernel", here, version)
		}
		return
	}
	text, err := os.ReadFile(filepath.Join(r.root, ".complete"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "rdma-core "+version+".") {
		t.Skipf("%s has %s, and version %s was recorded on the kernel: record the new one (internal/test/interop/record_test.go)", r.root, text, version)
	}
}

func checkVerdict(t *testing.T, name string, kernel verdict, all map[string]verdict) {
	t.Helper()
	got, ok := all[name]
	switch {
	case !ok:
		t.Errorf("%s did not run", name)
	case got.Result != "pass" && got.Result != "skip":
		t.Errorf("%s: %s %q; on the kernel %s", name, got.Result, got.Detail, kernel.Result)
	case got.Result != kernel.Result && kernel.Result == "pass":
		t.Errorf("%s is skipped (%s), and passes on the kernel", name, got.Detail)
	case got.Result != kernel.Result && whyNewer(name) == "":
		t.Errorf("%s: %s, and on the kernel %s %q; nothing says why", name, got.Result, kernel.Result, kernel.Detail)
	}
}

func whyNewer(name string) string {
	for _, h := range newerHere {
		if h.tests.MatchString(name) {
			return h.because
		}
	}
	return ""
}

// rdmacoreByName has every test: what passes by class, what is skipped by reason.
func rdmacoreByName(kernel, got map[string]verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gorxe: %s. Linux 6.1 `rdma_rxe`: %s.\n", tallyOf(got), tallyOf(kernel))
	var differ strings.Builder
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if k := kernel[name]; k.Result != got[name].Result {
			fmt.Fprintf(&differ, "| %s | %s | %s | %s |\n", name, strings.TrimSpace(k.Result+" "+cell(k.Detail)), got[name].Result, whyNewer(name))
		}
	}
	if differ.Len() > 0 {
		b.WriteString("\nTests that end otherwise:\n\n| test | Linux | gorxe | because |\n|---|---|---|---|\n" + differ.String())
	}
	b.WriteString(rdmacoreListed(got))
	return b.String()
}

// rdmacoreListed has what passes by class, and what is skipped by reason.
func rdmacoreListed(got map[string]verdict) string {
	var b strings.Builder
	var passed []string
	skipped := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if v := got[name]; v.Result == "pass" {
			passed = append(passed, name)
		} else {
			skipped[v.Detail] = append(skipped[v.Detail], name)
		}
	}
	b.WriteString("\nTests that pass:\n\n" + byClass(passed))
	b.WriteString("\nTests that are skipped, by the reason that the test gives:\n\n| reason | number | tests |\n|---|--:|---|\n")
	reasons := slices.SortedFunc(maps.Keys(skipped), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(skipped[y]), len(skipped[x])), cmp.Compare(x, y))
	})
	for _, reason := range reasons {
		list := strings.ReplaceAll(strings.TrimSpace(byClass(skipped[reason])), "\n", "; ")
		fmt.Fprintf(&b, "| %s | %d | %s |\n", cell(reason), len(skipped[reason]), strings.ReplaceAll(list, "- ", ""))
	}
	return b.String()
}

// cell is text that cannot end a cell of a table.
func cell(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return strings.ReplaceAll(text, "|", "\\|")
}

// tallyOf counts results.
func tallyOf(list map[string]verdict) string {
	n := make(map[string]int)
	for _, v := range list {
		n[v.Result]++
	}
	text := fmt.Sprintf("%d tests, %d pass, %d are skipped", len(list), n["pass"], n["skip"])
	for _, bad := range []string{"fail", "error", "crash"} {
		if n[bad] > 0 {
			text += fmt.Sprintf(", %d end with %s", n[bad], bad)
		}
	}
	return text
}

// byClass is a line for each class of tests, with the names of the tests without "test_".
func byClass(names []string) string {
	classes := make(map[string][]string)
	for _, name := range names {
		i := strings.LastIndexByte(name, '.')
		classes[name[:i]] = append(classes[name[:i]], strings.TrimPrefix(name[i+1:], "test_"))
	}
	var b strings.Builder
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		fmt.Fprintf(&b, "- `%s`: %s\n", class, strings.Join(classes[class], ", "))
	}
	return b.String()
}

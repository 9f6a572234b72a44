package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// rdmacoreTests is where the tests are: installed, or unpacked by scripts/setup.sh
// where documentation is not installed.
func rdmacoreTests(t *testing.T) string {
	t.Helper()
	const installed = "/usr/share/doc/rdma-core/tests"
	unpacked, err := filepath.Abs("../../../bin" + installed)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{installed, unpacked} {
		if _, err := os.Stat(filepath.Join(dir, "run_tests.py")); err == nil {
			return dir
		}
	}
	testenv.Missing(t, "rdma-core's tests are not there: run scripts/setup.sh")
	return ""
}

// verdict is how one of rdma-core's Python tests ended.
type verdict struct {
	Result string `json:"result"` // pass, skip, fail, error
	Detail string `json:"detail,omitempty"`
}

// onKernel is what the tests of a version of rdma-core did on Linux's rdma_rxe, by name.
func onKernel(t *testing.T, version string) map[string]verdict {
	t.Helper()
	text, err := os.ReadFile("testdata/rdmacore-v" + version + "-linux-6.1.192.json")
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]verdict
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// here lists the tests that end otherwise here than on the kernel, and why.
var here = func() map[string]verdict {
	m := map[string]verdict{
		"test_qpex.QpExTestCase.test_qp_ex_rc_atomic_write": {"pass", "rdma_rxe has the operation since Linux 6.2"},
	}
	for _, name := range []string{
		"implicit_rc_traffic", "rc_atomic_cmp_and_swp", "rc_atomic_fetch_and_add", "rc_rdma_read", "rc_rdma_write",
		"rc_srq_traffic", "rc_traffic", "ud_traffic",
	} {
		m["test_odp.OdpTestCase.test_odp_"+name] = verdict{"pass", hasODP}
	}
	for _, name := range []string{
		"async_ex_leave_multicast_traffic", "async_ex_multicast_traffic", "async_multicast_traffic", "async_read",
		"async_reject_traffic", "async_traffic", "async_traffic_external_qp", "async_udp_traffic", "async_write", "sync_traffic",
	} {
		m["test_rdmacm.CMTestCase.test_rdmacm_"+name] = verdict{"pass", hasNet}
	}
	return m
}()

// hasNet is why the tests of RDMA CM run.
const hasNet = "the tests look for the network interface in `device/net`, which rdma_rxe lacks"

// TestRDMACore: what passes on the kernel's rdma_rxe passes here, by name; and the
// table in testdata/rdma-core-tests.md says what this run said.
func TestRDMACore(t *testing.T) {
	besideOthers(t)
	need(t, "/usr/bin/python3")
	if !selection.takes(standard) {
		return // Python runs too long under the race detector
	}
	wantVersion(t, release{}, "44")
	kernel := onKernel(t, "44")
	got := runRDMACore(t, oneHost(t), release{}, rdmacoreTests(t))
	if t.Failed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(kernel)) {
		want := kernel[name].Result
		if other, ok := here[name]; ok {
			want = other.Result
		}
		if doorbells == "direct" && name == refusedDoorbell {
			want = "fail"
		}
		if v, ok := got[name]; !ok {
			t.Errorf("%s did not run", name)
		} else if v.Result != want {
			t.Errorf("%s: %s %q, want %s", name, v.Result, v.Detail, want)
		}
	}
	for name := range got {
		if _, ok := kernel[name]; !ok {
			t.Errorf("%s is not in the kernel's list", name)
		}
	}
	if doorbells != "direct" {
		generated(t, rdmacorePage, "rdma-core tests", rdmacoreTable(kernel, got))
	}
}

// refusedDoorbell wants the errno of a doorbell, which one that is not trapped lacks.
const refusedDoorbell = "test_qpex.QpExTestCase.test_post_send_qp_state_bad_flow"

// runRDMACore runs tests of a directory of a release: those named, or all.
func runRDMACore(t *testing.T, run runner, r release, directory string, names ...string) map[string]verdict {
	t.Helper()
	script, err := os.ReadFile("testdata/rdmacore.py")
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"/usr/bin/python3", "-c", string(script), directory, run.device, fmt.Sprint(gidIPv4)}, names...)
	p := run.start(t, r.argv(argv...)...)
	if err := p.waitFor(4 * programLimit); err != nil {
		t.Error(err)
	}
	got := make(map[string]verdict)
	running := ""
	for line := range strings.Lines(p.out.String()) {
		var v struct {
			Test string
			verdict
		}
		if json.Unmarshal([]byte(line), &v) != nil {
			continue // what a test wrote
		}
		running = v.Test
		if v.Result != "start" {
			got[v.Test] = v.verdict
			running = ""
		}
	}
	switch {
	case running != "":
		t.Errorf("%s did not end", running)
	case !t.Failed() && p.wait() != 0:
		t.Errorf("%s: exit status %d\n%s", p.name, p.wait(), p.out.String())
	}
	return got
}

// rdmacoreTable is one row per file of tests.
func rdmacoreTable(kernel, got map[string]verdict) string {
	type row struct{ tests, kernel, here int }
	rows := make(map[string]*row)
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		file, _, _ := strings.Cut(name, ".")
		r := rows[file]
		if r == nil {
			r = new(row)
			rows[file] = r
		}
		r.tests++
		if kernel[name].Result == "pass" {
			r.kernel++
		}
		if got[name].Result == "pass" {
			r.here++
		}
		if got[name].Result != kernel[name].Result {
			differ = append(differ, fmt.Sprintf("| %s | %s | %s | %s |\n", name, kernel[name].Result, got[name].Result, here[name].Detail))
		}
	}
	var b strings.Builder
	total := row{}
	b.WriteString("| file | tests | pass on Linux 6.1 rdma_rxe | pass on gorxe |\n|---|--:|--:|--:|\n")
	for _, file := range slices.Sorted(maps.Keys(rows)) {
		r := rows[file]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", file, r.tests, r.kernel, r.here)
		total.tests, total.kernel, total.here = total.tests+r.tests, total.kernel+r.kernel, total.here+r.here
	}
	fmt.Fprintf(&b, "| **all** | **%d** | **%d** | **%d** |\n", total.tests, total.kernel, total.here)
	if len(differ) > 0 {
		b.WriteString("\nTests that end otherwise:\n\n| test | Linux | gorxe | because |\n|---|---|---|---|\n" + strings.Join(differ, ""))
	}
	return b.String()
}

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// onMLX5 lists the tests of rdma-core 44 that pass on rxe0 and not on mlx5_0, and why.
var onMLX5 = map[string]string{
	"test_qpex.QpExTestCase.test_qp_ex_rc_atomic_write": "libmlx5 has no ATOMIC WRITE",
}

// shortOnMLX5 are what a short run runs of them.
var shortOnMLX5 = []string{
	"test_mlx5_cq.DvCqTest.test_dv_cq_padding", "test_mlx5_timestamp.TimeStampTest.test_timestamp_real_time_rc", "test_mlx5_uar",
	"test_mlx5_raw_wqe", "test_mlx5_query_port", "test_device.DMTest.test_dm_read", "test_mr.MRTest.test_mr_rereg_access",
	"test_parent_domain.ParentDomainTrafficTest.test_mem_align_rc", "test_shared_pd",
	"test_flow.FlowTest.test_udp_spec_flow_traffic", "test_mlx5_flow.Mlx5MatcherTest.test_smac_matcher", "test_qp.QPTest.test_query_raw_qp",
}

// TestRDMACoreMLX5: rdma-core's Python tests on an adapter, the general ones and those of mlx5.
// None fails, each that passes on rxe0 passes, and testdata/rdma-core-mlx5.md has them all by name.
func TestRDMACoreMLX5(t *testing.T) {
	besideOthers(t)
	need(t, "/usr/bin/python3")
	if native != "" || doorbells == "direct" || !selection.takes(standard) {
		return
	}
	wantVersion(t, release{}, "44")
	names := shortOnMLX5
	if full || *update {
		names = []string{"test_"}
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	got := runRDMACore(t, runner{d.run, "mlx5_0"}, release{}, rdmacoreTests(t), names...)
	maps.DeleteFunc(got, func(name string, _ verdict) bool { return strings.HasPrefix(name, "test_efa") })
	if t.Failed() {
		return
	}
	kernel := onKernel(t, "44")
	for name, v := range got {
		onRXE := kernel[name].Result
		if other, ok := here[name]; ok {
			onRXE = other.Result
		}
		switch {
		case v.Result != "pass" && v.Result != "skip":
			t.Errorf("%s: %s %q", name, v.Result, v.Detail)
		case v.Result == "skip" && onRXE == "pass" && onMLX5[name] == "":
			t.Errorf("%s is skipped (%s), and passes on rxe0", name, v.Detail)
		}
	}
	for _, name := range shortOnMLX5 {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(n string) bool { return strings.HasPrefix(n, name) && got[n].Result == "pass" }) {
			t.Errorf("no test of %s passes", name)
		}
	}
	if !t.Failed() && names[0] == "test_" {
		generated(t, "testdata/rdma-core-mlx5.md", "rdma-core 44 on mlx5_0", tallyOf(got)+".\n"+rdmacoreListed(got))
	}
}

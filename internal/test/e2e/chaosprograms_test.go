package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// underChaos starts programs that have this seed.
func (d *daemon) underChaos(seed int) launch {
	return func(t *testing.T, argv ...string) *proc {
		return start(t, d.host, append(d.env(), fmt.Sprint("GORXE_CHAOS=", seed)), append([]string{gorxe, "run", "--"}, argv...)...)
	}
}

// correct are programs that rely on nothing but what the specification promises. The ping-pongs
// compare the bytes that they receive.
var correct = []string{
	"ibv_rc_pingpong -c -n 50",
	"ibv_uc_pingpong -c -n 50",
	"ibv_ud_pingpong -c -n 50 -s 1024",
	"ibv_srq_pingpong -c -n 50",
	"ibv_rc_pingpong -c -e -n 50",
	"ib_send_bw -s 65536 -n 20",
	"ib_write_bw -s 65536 -n 20 -q 2",
	"ib_read_bw -s 65536 -n 20",
	"ib_atomic_bw -n 20",
	"ib_send_lat -n 20",
	"ib_write_lat -s 4096 -n 20",
	"ib_read_lat -n 20",
}

// TestChaosPrograms: correct stock programs end well, whatever the seed. Each has one seed of its
// own here, and 100 with GORXE_E2E=full.
func TestChaosPrograms(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	notNative(t, "chaos")
	d := oneDaemon(t)
	seeds := 1
	if full {
		seeds = 100
	}
	for i, program := range correct {
		if !selection.takes(standard) {
			continue
		}
		t.Run(program, func(t *testing.T) {
			argv := perftestArgs(program)
			if strings.HasPrefix(program, "ibv_") {
				argv = append(strings.Fields(program), "-d", "rxe0", "-p", "PORT", "-g", strconv.Itoa(gidIPv4))
			}
			for n := range seeds {
				run := d.underChaos(1 + i*seeds + n)
				one := topology{server: run, client: run, host: d.host, device: "rxe0"}
				if out := one.exchange(t, argv...).good(t); strings.Contains(out, "invalid data") {
					t.Fatal(out)
				}
			}
		})
	}
	d.end(t)
}

// beyondPromises are the tests of rdma-core 44.0 that look at memory, or expect a completion, at a
// point at which the specification promises neither. docs/faults.md says what each relies on.
var beyondPromises = []string{
	"test_cq.CQTest.test_resize_cq",
	"test_mr.MWTest.test_mw_type2",
	"test_mr.MWTest.test_mw_type2_invalidate_dealloc",
	"test_mr.MWTest.test_mw_type2_invalidate_local",
	"test_mr.MWTest.test_mw_type2_invalidate_remote",
	"test_odp.OdpTestCase.test_odp_rc_rdma_write",
	"test_qpex.QpExTestCase.test_qp_ex_rc_rdma_write",
}

// beyondSkipped relies on more as well, but skips itself where it finds no ibv_rereg_mr. With chaos
// it fails before that, or not.
const beyondSkipped = "test_mr.MRTest.test_mr_rereg_access_bad_flow"

// TestChaosRDMACore: of rdma-core's Python tests that pass without chaos, those that rely on more
// than the specification promises fail with it, and no others. It runs with GORXE_E2E=full.
func TestChaosRDMACore(t *testing.T) {
	need(t, "/usr/bin/python3")
	notNative(t, "chaos")
	if !selection.takes(complete) {
		return
	}
	d := oneDaemon(t)
	tests := rdmacoreTests(t)
	plain := runRDMACore(t, d.runner(), release{}, tests)
	for _, seed := range []int{3, 9} {
		got := runRDMACore(t, runner{d.underChaos(seed), "rxe0"}, release{}, tests)
		var failed []string
		passed := 0
		for _, name := range slices.Sorted(maps.Keys(plain)) {
			switch v, ok := got[name]; {
			case plain[name].Result == "pass" && ok && v.Result == "pass":
				passed++
			case plain[name].Result == "pass":
				failed = append(failed, name)
			case v.Result != plain[name].Result && name != beyondSkipped:
				t.Errorf("seed %d: %s: %s %q, and without chaos %s", seed, name, v.Result, v.Detail, plain[name].Result)
			}
		}
		t.Logf("seed %d: %d tests pass, %d fail", seed, passed, len(failed))
		if !slices.Equal(failed, beyondPromises) {
			t.Errorf("seed %d: these fail: %q\nwant %q", seed, failed, beyondPromises)
		}
	}
	d.end(t)
}

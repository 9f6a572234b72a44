package e2e

import (
	"maps"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/test/must"
)

// impossible are the programs whose mistake libmlx5 does not let them make.
var impossible = map[string]string{
	"no-signal": "ibv_post_send refuses the request that would find no free entry",
}

// ofConnectX are the programs whose mistake only libmlx5 lets them make.
var ofConnectX = map[string]string{
	"thread-domain": "librxe has no thread domains",
}

// elsewhere are the checks that no program of testdata/misuse needs.
var elsewhere = map[string]string{
	"no-signal":       "as above",
	"refused-by-peer": "it takes two runs",
}

// onConnectX says which programs run with libmlx5 each time. Each check finds one of them: by the
// name of the check, unless this says otherwise. Together they need all that tells the sanitizer
// what a program does in its own memory:
//
//	registers          each line of a post, as that of key-range
//	doorbell records   lines of posts in a row: read-early, rd-atomic, race-write
//	completion queues  cq-overflow; events-not-acknowledged, also the store that asks for an event
//	shared queues      overlapping-receives-srq; event-ignored, how many receives are left
//	receive queues     recv-buffer-touched, recv-too-short
var onConnectX = map[string]bool{
	// recv-buffer-touched has a queue pair's own queue
	"overlapping-receives": false, "overlapping-receives-srq": true,
	"cq-too-small":    false, // cq-overflow is found as that, too
	"leak":            false, // events-not-acknowledged, likewise
	"use-after-dereg": false, // freed-while-posted, likewise
}

// atOnce is how many programs have one sanitizer, which keeps 16 lists of mappings. Each one has
// its own list, and may have one more for libraries that it loads.
const atOnce = 8

// TestMisuseConnectX: the same is found as by TestMisuse, with the same lines, in programs that
// ring by a store and have their queues in their own memory. Those of every run have a sanitizer
// together, because most of the time of a run is its start and its report. With GORXE_E2E=full each
// one runs alone.
func TestMisuseConnectX(t *testing.T) {
	need(t, "gcc")
	notNative(t, "a sanitizer")
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--like", "connectx6", "--device", "mlx5_0=eth0")
	left := must.Get[sanitize.Selection](t)(sanitize.ParseSelection("all"))
	maps.DeleteFunc(left, func(name string, made bool) bool { return !made || elsewhere[name] != "" })
	var list []misuse
	for _, m := range misuses(t) {
		rank := complete
		if always, ok := onConnectX[m.name]; always || !ok && m.name == m.checks[0] {
			rank = standard
		}
		if impossible[m.name] != "" || !selection.takes(rank) {
			continue
		}
		for _, c := range m.checks {
			delete(left, c)
		}
		if full {
			t.Run(m.name, func(t *testing.T) { m.judge(t, d) })
		} else {
			list = append(list, m)
		}
	}
	for some := range slices.Chunk(list, atOnce) {
		t.Run(some[0].name, func(t *testing.T) { together(t, d, some) })
	}
	if selection.takes(standard) && len(left) > 0 {
		t.Errorf("no program is found by %v", left)
	}
}

// together runs programs, one after another, under one sanitizer, and their twins under another.
func together(t *testing.T, d *daemon, list []misuse) {
	var programs []string
	for i := range list {
		programs = append(programs, list[i].binary(t))
	}
	inTurn := func(script string) (string, sanitize.Report, int) {
		return sanitized(t, d, nil, append([]string{"sh", "-c", script, "sh"}, programs...)...)
	}
	out, report, code := inTurn(`for p; do "$p" || exit 1; done`)
	by := make(map[string][]sanitize.Finding)
	for _, f := range report.Findings {
		by[f.Program] = append(by[f.Program], f)
	}
	for i := range list {
		m := &list[i]
		m.compare(t, by[m.name], out)
		delete(by, m.name)
	}
	want := 0
	if report.Count(sanitize.Error) > 0 {
		want = 4
	}
	if code != want || len(by) > 0 {
		t.Errorf("exit code %d, want %d; also found: %v", code, want, by)
	}
	if out, report, code := inTurn(`for p; do "$p" right || exit 1; done`); len(report.Findings) > 0 || code != 0 {
		t.Errorf("the correct twins ended with %d; output:\n%s", code, out)
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/test/must"
)

// misuse is a program of testdata/misuse.
type misuse struct {
	name   string
	checks []string // that find its mistake
	line   int      // that the report names
	row    string   // of misusePage
}

// misuses reads what the programs say of themselves.
func misuses(t *testing.T) (list []misuse) {
	t.Helper()
	files, err := filepath.Glob(repository + "/testdata/misuse/*.c")
	must.OK(t, err)
	for _, file := range files {
		text := string(must.Get[[]byte](t)(os.ReadFile(file)))
		m := misuse{name: strings.TrimSuffix(filepath.Base(file), ".c")}
		says := regexp.MustCompile(`^/\* ([a-z, -]+): (.*)\. \*/`).FindStringSubmatch(text)
		before, _, ok := strings.Cut(text, "/* LINE */")
		if says == nil || !ok {
			t.Fatalf("%s names no check, or no line", file)
		}
		m.checks, m.line = strings.Split(says[1], ", "), 1+strings.Count(before, "\n")
		m.row = fmt.Sprintf("| %s | %s | %s |\n", m.name, says[2], says[1])
		list = append(list, m)
	}
	return list
}

// names reports whether a finding has the line in its places.
func names(f *sanitize.Finding, file string, line int) bool {
	return slices.ContainsFunc(f.Places, func(p sanitize.Place) bool {
		return slices.ContainsFunc(p.Lines, func(l sanitize.Frame) bool { return filepath.Base(l.File) == file && l.Line == line })
	})
}

// misusePage has a row for each program of testdata/misuse.
const misusePage = repository + "/testdata/misuse.md"

// TestMisuse: gorxe run --sanitize finds each mistake of testdata/misuse under its name and with
// its line, and nothing in the correct twin. A selection has the programs with the name of a check.
// With GORXE_E2E=full each twin has 20 seeds of chaos, too.
func TestMisuse(t *testing.T) {
	need(t, "gcc")
	notNative(t, "a sanitizer")
	d := oneDaemon(t)
	rows := make([]string, 0)
	t.Run("programs", func(t *testing.T) {
		for _, m := range misuses(t) {
			rows = append(rows, m.row)
			rank := complete
			if m.name == m.checks[0] {
				rank = standard
			}
			if !selection.takes(rank) || ofConnectX[m.name] != "" {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.judge(t, d)
			})
		}
	})
	if selection.takes(standard) && !t.Failed() {
		generated(t, misusePage, "misuse", "| program | what is wrong | found as |\n|---|---|---|\n"+strings.Join(rows, ""))
	}
}

// binary returns the program, compiled.
func (m *misuse) binary(t *testing.T) string {
	t.Helper()
	return gcc(t, "misuse/"+m.name, "-g", "-O0", "-Wall", repository+"/testdata/misuse/"+m.name+".c", "-libverbs", "-lpthread", "-lrdmacm")
}

// judge runs a program and its twin.
func (m *misuse) judge(t *testing.T, d *daemon) {
	bin := m.binary(t)
	out, report, code := sanitized(t, d, nil, bin)
	m.compare(t, report.Findings, out)
	if want := report.Count(sanitize.Error) > 0; want != (code == 4) {
		t.Errorf("exit code %d, %d errors", code, report.Count(sanitize.Error))
	}
	seeds := 0
	if full {
		seeds = 20
	}
	for seed := range seeds + 1 {
		var flags []string
		if seed > 0 {
			flags = []string{"--chaos", strconv.Itoa(seed)}
		}
		if out, report, code := sanitized(t, d, flags, bin, "right"); len(report.Findings) > 0 || code != 0 {
			t.Errorf("the correct twin, with %q, ended with %d; output:\n%s", flags, code, out)
		}
	}
}

// compare compares what was found in the program with what it says of itself.
func (m *misuse) compare(t *testing.T, findings []sanitize.Finding, out string) {
	t.Helper()
	var found []string
	lines := false
	for i := range findings {
		f := &findings[i]
		found = append(found, f.Check)
		lines = lines || f.Check == m.checks[0] && names(f, m.name+".c", m.line)
	}
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, m.checks) || !lines {
		t.Errorf("%s: found %q, want %q with line %d; output:\n%s", m.name, found, m.checks, m.line, out)
	}
}

// sanitized runs a program under the sanitizer, with all checks.
func sanitized(t *testing.T, d *daemon, flags []string, argv ...string) (out string, report sanitize.Report, code int) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "findings.json")
	p := start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run", "--sanitize=all", "--sanitize-to", to}, flags, []string{"--"}, argv)...)
	code = p.wait()
	must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile(to)), &report))
	return p.out.String(), report, code
}

// clean is a pair of programs that the sanitizer must not blame.
type clean struct {
	rank           rank
	flags          string // of gorxe pair
	server, client string // GID is the index of the IPv4 address
}

// cleanPairs are stock programs. The first ones take part in every run.
func cleanPairs() []clean {
	list := []clean{
		{standard, "", "ibv_rc_pingpong -d rxe0 -g GID -n 50", "ibv_rc_pingpong -d rxe0 -g GID -n 50 127.0.0.1"},
		{standard, "", "ib_write_bw -d rxe0 -x GID -F -n 50", "ib_write_bw -d rxe0 -x GID -F -n 50 127.0.0.1"},
		{standard, "", "ib_send_bw -d rxe0 -x GID -F -n 50", "ib_send_bw -d rxe0 -x GID -F -n 50 127.0.0.1"},
		{standard, "", "rping -a {address} -C 2 -s", "rping -a {address} -C 2 -c"},
		{standard, "--like connectx6", "ibv_rc_pingpong -d mlx5_0 -g GID -r 20 -n 100", "ibv_rc_pingpong -d mlx5_0 -g GID -r 20 -n 100 127.0.0.1"},
		{complete, "--chaos 3", "rping -a {address} -C 10 -s", "rping -a {address} -C 10 -c"},
		{complete, "", "rdma_xserver -c r", "rdma_xclient -c r -s {address}"},
		{complete, "", "ucmatose -c 10", "ucmatose -c 10 -s {address}"},
		{complete, "", "udaddy -c 3", "udaddy -c 3 -s {address}"},
		{complete, "--stop-server", "cmtime -c 20", "cmtime -c 20 -s {address}"},
		{complete, "", "rdma_server", "rdma_client -s {address}"},
		{complete, "", "rstream -S 4096 -C 100", "rstream -S 4096 -C 100 -s {address}"},
		{complete, "", "riostream -S 4096 -C 100", "riostream -S 4096 -C 100 -s {address}"},
		{complete, "--stop-server", "qperf -lp 7472", "qperf {address} -lp 7472 -cm 1 -n 200 rc_bw"},
	}
	// UCX takes rc_verbs by itself for no device like rxe0.
	const ucx = "env UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest -n 100 -t "
	for _, test := range []string{"tag_lat", "ucp_am_bw", "ucp_put_bw", "ucp_get", "ucp_fadd", "stream_bw"} {
		list = append(list, clean{complete, "", ucx + test, ucx + test + " 127.0.0.1"})
	}
	const datagrams = "env UCX_TLS=ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest -n 100 -s 1000 -t tag_lat"
	list = append(list, clean{complete, "--chaos 3", datagrams, datagrams + " 127.0.0.1"})
	for _, device := range []string{"rxe0", "mlx5_0"} {
		flags := ""
		if device == "mlx5_0" {
			flags = "--like connectx6"
		}
		for _, program := range append([]string{"ibv_srq_pingpong -n 50", "ibv_rc_pingpong -e -n 50"}, correct...) {
			argv := program + " -d " + device
			if strings.HasPrefix(program, "ibv_") {
				argv += " -g GID"
			} else {
				argv += " -F -x GID"
			}
			list = append(list, clean{complete, flags, argv, argv + " 127.0.0.1"})
		}
	}
	return list
}

// warned are the warnings about stock programs that docs/sanitizer.md explains.
var warned = map[string]string{
	"ibv_srq_pingpong": "destroyed-while-posted",
	"cmtime":           "rnr-retry-zero",
	"rdma_xserver":     "rnr-retry-zero",
	"ucmatose":         "rnr-retry-zero",
}

// underChaos are the findings about stock programs with --chaos.
var underChaos = map[string][]string{
	"ucx_perftest": {"unmapped", "destroyed-while-posted"},
}

// TestNoMisuse: the sanitizer finds no error in stock programs, and gives no warning but those that
// are explained.
func TestNoMisuse(t *testing.T) {
	notNative(t, "a sanitizer")
	gid := strconv.Itoa(gidIPv4)
	for _, c := range cleanPairs() {
		if !selection.takes(c.rank) {
			continue
		}
		t.Run(strings.Fields(c.server)[0], func(t *testing.T) {
			if !full {
				t.Parallel()
			}
			a, _ := twoHosts(t, 1500)
			run := []string{gorxe, "pair", "--private"}
			run = slices.Concat(run, strings.Fields(c.flags))
			program := slices.DeleteFunc(strings.Fields(c.server), func(s string) bool { return s == "env" || strings.HasPrefix(s, "UCX_") })
			need(t, program[0])
			argv := strings.Fields(strings.ReplaceAll(c.server+" -- "+c.client, "GID", gid))
			blameless(t, a, program[0], run, argv)
		})
	}
	if !selection.takes(complete) {
		return
	}
	need(t, "mpirun.openmpi", "mpirun.mpich", "oshrun", "/usr/bin/python3")
	for _, p := range parallels {
		t.Run(p.name, func(t *testing.T) {
			argv, _ := p.command(t, release{}, 2, "rxe0")
			a, _ := twoHosts(t, 1500)
			blameless(t, a, p.name, []string{gorxe, "run", "--private", "--device", "rxe0=lo"}, argv)
		})
	}
	t.Run("rdma-core", func(t *testing.T) {
		script := string(must.Get[[]byte](t)(os.ReadFile("testdata/rdmacore.py")))
		argv := []string{"/usr/bin/python3", "-c", script, rdmacoreTests(t), "rxe0", gid}
		for name, v := range onKernel(t, "44") {
			if v.Result == "pass" && !mistaken.MatchString(name) {
				argv = append(argv, name)
			}
		}
		a, _ := twoHosts(t, 1500)
		blameless(t, a, "rdma-core", []string{gorxe, "run", "--private", "--device", "rxe0=lo"}, argv)
	})
}

// mistaken are the tests of rdma-core that make mistakes on purpose.
var mistaken = regexp.MustCompile(`invalid|bad_flow|test_mw_type|bind_mw`)

// blameless runs programs under the sanitizer.
func blameless(t *testing.T, h *host, name string, run, argv []string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "findings.json")
	p := start(t, h, nil, slices.Concat(run, []string{"--sanitize", "--sanitize-exit", "0", "--sanitize-to", to, "--"}, argv)...)
	if err := p.waitFor(4 * programLimit); err != nil || p.wait() != 0 {
		t.Fatalf("%v\n%s", err, p.out.String())
	}
	var report sanitize.Report
	must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile(to)), &report))
	for _, f := range report.Worst() {
		if slices.Contains(run, "--chaos") && slices.Contains(underChaos[name], f.Check) {
			continue
		}
		if f.Level == sanitize.Error || f.Level == sanitize.Warning && f.Check != warned[name] {
			t.Errorf("%s: %s", f.Level, f.Brief())
		}
	}
	if t.Failed() {
		t.Log(p.out.String())
	}
}

// TestSanitizeAbort: the first error ends the process. Suppressions and --sanitize-exit change the
// exit code, and SARIF has the line.
func TestSanitizeAbort(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	notNative(t, "a sanitizer")
	d := oneDaemon(t)
	dir := t.TempDir()
	bin := (&misuse{name: "key-range"}).binary(t)
	known := filepath.Join(dir, "known")
	must.OK(t, os.WriteFile(known, []byte("# known\nkey-range,function=main\n"), 0o600))
	sarif := filepath.Join(dir, "x.sarif")
	for _, c := range []struct {
		flags, env, says string
		code             int
	}{
		{"--sanitize --sanitize-abort", "", "status 134\n", 4}, // of SIGABRT
		{"--sanitize --sanitize-exit 9 --sanitize-to " + sarif, "", "key-range.c:", 9},
		{"--sanitize --sanitize-exit 256", "", "no exit code", 2},
		{"--sanitize=", "", "1 error, 0 warnings, 0 notes\n", 4},
		{"--sanitize --sanitize-to " + filepath.Join(dir, "none", "x"), "", "no such file or directory\n", 2},
		{"--sanitize --sanitize-exit 0", "", "1 error, 0 warnings, 0 notes\n", 0},
		{"--sanitize --sanitize-suppress " + known, "", "0 errors, 0 warnings, 0 notes; 1 suppressed\n", 0},
		{"", "-leak", "1 error, 0 warnings, 0 notes\ngorxe: the sanitizer found an error\n", 4},
		{"", "leek", `GORXE_SANITIZE: "leek" is no check`, 2},
		{"--sanitize=-leek", "", `"leek" is no check`, 2},
		{"--sanitize-abort", "", "need --sanitize", 2},
	} {
		p := start(t, d.host, append(d.env(), "GORXE_SANITIZE="+c.env), slices.Concat([]string{gorxe, "run"}, strings.Fields(c.flags), []string{"--", "sh", "-c", bin + "; echo status $?"})...)
		if code := p.wait(); code != c.code || !strings.Contains(p.out.String(), c.says) {
			t.Errorf("%s %s: exit code %d, want %d and %q in:\n%s", c.env, c.flags, code, c.code, c.says, p.out.String())
		}
	}
	p := start(t, d.host, d.env(), gorxe, "run", "--sanitize", "--", "sh", "-c", bin+"; kill -SEGV $$")
	if code, says := p.wait(), "found an error; the program was killed by SIGSEGV\n"; code != 4 || !strings.Contains(p.out.String(), says) {
		t.Errorf("exit code %d, want 4 and %q in:\n%s", code, says, p.out.String())
	}
	if text := string(must.Get[[]byte](t)(os.ReadFile(sarif))); !strings.Contains(text, "testdata/misuse/key-range.c") || !strings.Contains(text, `"startLine": 8`) {
		t.Error(text)
	}
}

// TestInterrupted: a verb that a signal has ended leaves the program where it would wait for ever.
// The program ends, and the sanitizer does not blame it.
func TestInterrupted(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	notNative(t, "a signal ends no verb of a kernel")
	d := oneDaemon(t)
	bin := gcc(t, "interrupted", "-g", "-O0", "-Wall", "testdata/interrupted.c", "-libverbs")
	for _, flags := range [][]string{nil, {"--sanitize"}} {
		p := start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run"}, flags, []string{"--", bin})...)
		if err := p.waitFor(programLimit); err != nil || p.wait() != 0 || strings.Contains(p.out.String(), "==") {
			t.Errorf("%v: %v\n%s", flags, err, p.out.String())
		}
	}
}

// TestSanitizeStrangers: two users of a daemon work together. Each one learns from its sanitizer
// what its own programs do. Of the other user it has no finding, no object and no frame.
func TestSanitizeStrangers(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong")
	notNative(t, "a sanitizer")
	if oneUser {
		t.Log("not as an ordinary user: it takes root to be two others")
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-mode", "0666")
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o755))               //nolint:gosec // the users run programs of it
	must.OK(t, os.Chmod(filepath.Dir(dir), 0o755)) //nolint:gosec // likewise
	stock := must.Get[string](t)(exec.LookPath("ibv_rc_pingpong"))
	sides := []string{"victim", "looker"}
	procs := make([]*proc, len(sides))
	for i, name := range sides {
		program := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(program, must.Get[[]byte](t)(os.ReadFile(stock)), 0o755)) //nolint:gosec // likewise
		must.OK(t, os.Mkdir(program+".d", 0o700))
		must.OK(t, os.Chown(program+".d", 65534-i, 65534-i))
		who := a.as(65534-uint32(i), 65534-uint32(i))
		argv := []string{gorxe, "run", "--sanitize=all", "--sanitize-to", program + ".d/findings.json", "--", program, "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-n", "50", "-p", "18998"}
		if i > 0 {
			procs[0].listening(18998)
			argv = append(argv, "10.88.0.1")
		}
		procs[i] = start(t, who, d.env(), argv...)
	}
	for i, name := range sides {
		procs[i].ok()
		text := string(must.Get[[]byte](t)(os.ReadFile(filepath.Join(dir, name+".d", "findings.json"))))
		var report sanitize.Report
		must.OK(t, json.Unmarshal([]byte(text), &report))
		if !strings.Contains(text, name) || len(report.Findings) == 0 {
			t.Errorf("%s has no finding of its own: %s", name, text)
		}
		if other := sides[1-i]; strings.Contains(text, other) || slices.ContainsFunc(report.Findings, func(f sanitize.Finding) bool { return f.Program != name }) {
			t.Errorf("%s is told of %s: %s", name, other, text)
		}
	}
}

// TestSanitizeConnectX: a program that rings by a store has the line of its post, too.
func TestSanitizeConnectX(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	notNative(t, "a sanitizer")
	a, _ := twoHosts(t, 1500)
	bin := (&misuse{name: "key-range"}).binary(t)
	to := filepath.Join(t.TempDir(), "findings.json")
	p := start(t, a, nil, gorxe, "run", "--private", "--like", "connectx6", "--sanitize", "--sanitize-to", to, "--", bin)
	code := p.wait()
	var report sanitize.Report
	must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile(to)), &report))
	posted := slices.ContainsFunc(report.Findings, func(f sanitize.Finding) bool {
		return f.Check == "key-range" && slices.ContainsFunc(f.Places, func(p sanitize.Place) bool {
			return strings.HasSuffix(p.What, "was posted") && slices.ContainsFunc(p.Lines, func(l sanitize.Frame) bool { return l.Function == "main" })
		})
	})
	if code != 4 || !posted {
		t.Errorf("exit code %d, the line of the post: %v; output:\n%s", code, posted, p.out.String())
	}
}

// TestSanitizeReplaced: a program whose file is gone, or is something else, when its lines are
// looked for, is reported all the same.
func TestSanitizeReplaced(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	notNative(t, "a sanitizer")
	d := oneDaemon(t)
	program := (&misuse{name: "key-range"}).binary(t)
	for _, c := range []struct {
		after string
		line  bool
	}{
		{"true", true},
		{"rm $0; mkfifo $0", false},
		{"cp $0 $0.new; mv $0.new $0", false},
		{"truncate -s 1T $0", true},
	} {
		t.Run(c.after, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "program")
			if out, err := exec.Command("cp", program, bin).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, report, code := sanitized(t, d, nil, "sh", "-c", "$0; "+c.after, bin)
			line := slices.ContainsFunc(report.Findings, func(f sanitize.Finding) bool {
				// where the program posts
				return f.Check == "key-range" && strings.Contains(f.Brief(), "(rig.h:")
			})
			if code != 4 || report.Count(sanitize.Error) != 1 || line != c.line {
				t.Errorf("exit code %d, a line: %v:\n%s", code, line, out)
			}
		})
	}
}

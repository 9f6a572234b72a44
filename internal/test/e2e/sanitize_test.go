package e2e

import (
	"encoding/json"
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
}

// misuses reads what the programs say of themselves.
func misuses(t *testing.T) (list []misuse) {
	t.Helper()
	files, err := filepath.Glob("testdata/misuse/*.c")
	must.OK(t, err)
	for _, file := range files {
		text := string(must.Get[[]byte](t)(os.ReadFile(file)))
		m := misuse{name: strings.TrimSuffix(filepath.Base(file), ".c")}
		says := regexp.MustCompile(`^/\* ([a-z, -]+): `).FindStringSubmatch(text)
		before, _, ok := strings.Cut(text, "/* LINE */")
		if says == nil || !ok {
			t.Fatalf("%s names no check, or no line", file)
		}
		m.checks, m.line = strings.Split(says[1], ", "), 1+strings.Count(before, "\n")
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

// TestMisuse: gorxe run --sanitize finds each mistake of testdata/misuse under its name and with
// its line, and nothing in the correct twin.
func TestMisuse(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	notNative(t, "a sanitizer")
	d := oneDaemon(t)
	for _, m := range misuses(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin := filepath.Join(t.TempDir(), m.name)
			source := m.name + ".c"
			build := exec.Command("gcc", "-g", "-O0", "-Wall", "-o", bin, "testdata/misuse/"+source, "-libverbs")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("gcc %s: %v\n%s", source, err, out)
			}
			out, report, code := sanitized(t, d, bin)
			var found []string
			lines := false
			for i := range report.Findings {
				f := &report.Findings[i]
				found = append(found, f.Check)
				lines = lines || f.Check == m.checks[0] && names(f, source, m.line)
			}
			slices.Sort(found)
			if found = slices.Compact(found); !slices.Equal(found, m.checks) || !lines {
				t.Errorf("found %q, want %q with line %d; output:\n%s", found, m.checks, m.line, out)
			}
			if want := report.Count(sanitize.Error) > 0; want != (code == 4) {
				t.Errorf("exit code %d, %d errors", code, report.Count(sanitize.Error))
			}
			if out, report, code := sanitized(t, d, bin, "right"); len(report.Findings) > 0 || code != 0 {
				t.Errorf("the correct twin ended with %d; output:\n%s", code, out)
			}
		})
	}
}

// sanitized runs a program under the sanitizer.
func sanitized(t *testing.T, d *daemon, argv ...string) (out string, report sanitize.Report, code int) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "findings.json")
	p := start(t, d.host, d.env(), append([]string{gorxe, "run", "--sanitize", "--sanitize-to", to, "--"}, argv...)...)
	code = p.wait()
	must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile(to)), &report))
	return p.out.String(), report, code
}

// TestNoMisuse: the sanitizer finds no error and gives no warning in stock programs.
func TestNoMisuse(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	notNative(t, "a sanitizer")
	gid := strconv.Itoa(gidIPv4)
	for _, c := range []struct{ server, client []string }{
		{[]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", gid, "-n", "50"}, []string{"127.0.0.1"}},
		{[]string{"ib_write_bw", "-d", "rxe0", "-x", gid, "-F", "-n", "50"}, []string{"127.0.0.1"}},
		{[]string{"ib_send_bw", "-d", "rxe0", "-x", gid, "-F", "-n", "50"}, []string{"127.0.0.1"}},
		{[]string{"rping", "-a", "{address}", "-C", "2", "-s"}, []string{"-c"}},
		{[]string{"ibv_rc_pingpong", "-d", "mlx5_0", "-g", gid, "-r", "20", "-n", "100"}, []string{"127.0.0.1"}},
	} {
		t.Run(c.server[0], func(t *testing.T) {
			t.Parallel()
			need(t, c.server[0])
			a, _ := twoHosts(t, 1500)
			client := append(slices.Clone(c.server), c.client...)
			client = slices.DeleteFunc(client, func(s string) bool { return s == "-s" })
			flags := []string{gorxe, "pair", "--private", "--sanitize"}
			if slices.Contains(c.server, "mlx5_0") {
				flags = append(flags, "--like", "connectx6")
			}
			run := slices.Concat(flags, []string{"--"}, c.server, []string{"--"}, client)
			out := start(t, a, nil, run...).ok()
			if !strings.Contains(out, "gorxe: sanitizer: 0 errors, 0 warnings, ") {
				t.Errorf("output:\n%s", out)
			}
		})
	}
}

package completion

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

type grammar struct {
	Run struct {
		Device  []string `predictor:"device"`
		Verbose bool     `short:"v"`
		Program []string `arg:"" optional:"" passthrough:"" predictor:"program"`
	} `cmd:""`
	Check struct {
		Rule []string `predictor:"rule"`
		File []string `arg:"" optional:"" predictor:"file"`
	} `cmd:""`
	Inner struct{} `cmd:"" hidden:""`
}

// candidates are those for a line.
func candidates(t *testing.T, line string) string {
	t.Helper()
	var out bytes.Buffer
	parser, err := kong.New(&grammar{}, kong.Name("prog"), kong.Writers(&out, &out))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("COMP_LINE", line)
	t.Setenv("COMP_POINT", "")
	if !Wanted() {
		t.Fatal("a line in the environment is not noticed")
	}
	if err := Complete(parser, map[string][]string{"rule": {"icrc", "msn"}}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{"rdma-tool": 0o755, "rdma-notes": 0o644, "x.pcap": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/no/such/directory")
	for line, want := range map[string]string{
		"prog ":                           "check run",
		"prog r":                          "run",
		"prog x":                          "",
		"prog run --":                     "--device --help --verbose",
		"prog run -v rdma":                "rdma-tool",
		"prog run --device rxe0=lo":       "lo",
		"prog run --device=rxe0=lo":       "lo",
		"prog run --device rxe0=127.0.0.": "127.0.0.1",
		"prog run --device rxe0=nosuch":   "",
		"prog run x --other rxe0=lo":      "",
		"prog run --device rx":            devicesWant(t),
		"prog run -- rdma":                "rdma-tool",
		"prog run -- rdma-tool -":         "",
		"prog check --rule ":              "icrc msn",
		"prog check x":                    "x.pcap",
		"prog check --r":                  "--rule",
	} {
		if got := candidates(t, line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func devicesWant(t *testing.T) string {
	t.Helper()
	names := interfaces()
	if len(names) == 0 {
		t.Fatal("this host has no interface, not even lo")
	}
	var list []string
	for _, n := range names {
		list = append(list, "rxe0="+n)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestWanted(t *testing.T) {
	t.Setenv("COMP_LINE", "")
	if Wanted() {
		t.Error("no shell asked")
	}
}

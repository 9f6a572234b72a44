package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestPytestProgram: the plugin of dist/python takes the program gorxe that the user names, else
// the first of PATH, else the one that pip installed with it. The head of the report names it.
func TestPytestProgram(t *testing.T) {
	need(t, "/usr/bin/python3")
	notNative(t, "pytest plugin")
	plugin := must.Get[string](t)(filepath.Abs("../../../dist/python"))
	dir := t.TempDir()
	for _, name := range []string{"option", "variable", "path", "wheel/bin"} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		says := "#!/bin/sh\n" + `[ "$1" != run ] && echo "gorxe v` + name + `, commit 1" || echo "ran ` + name + "$GORXE_SANITIZE\"\n"
		must.OK(t, os.WriteFile(filepath.Join(dir, name, "gorxe"), []byte(says), 0o755)) //nolint:gosec // a program
	}
	// What pip notes of a wheel that it has installed (PEP 376).
	info := filepath.Join(dir, "wheel", "gorxe-1.dist-info")
	must.OK(t, os.Mkdir(info, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(info, "METADATA"), []byte("Metadata-Version: 2.1\nName: gorxe\nVersion: 1\n"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(info, "RECORD"), []byte("bin/gorxe,,\ngorxe-1.dist-info/RECORD,,\n"), 0o600))

	option := []string{"--gorxe=" + filepath.Join(dir, "option", "gorxe")}
	variable := "GORXE_PROGRAM=" + filepath.Join(dir, "variable", "gorxe")
	path := "PATH=" + filepath.Join(dir, "path") + ":/usr/bin:/bin"
	wheel := "PYTHONPATH=" + plugin + ":" + filepath.Join(dir, "wheel")
	const noPath = "PATH=/nowhere"
	for _, c := range []struct {
		name  string
		env   []string
		flags []string
		head  string
		code  int
	}{
		{"option", []string{variable, path, wheel}, option, "gorxe voption: " + dir + "/option/gorxe, from --gorxe or GORXE_PROGRAM", 5},
		{"variable", []string{variable, path, wheel}, nil, "gorxe vvariable: " + dir + "/variable/gorxe, from --gorxe or GORXE_PROGRAM", 5},
		{"PATH", []string{path, wheel}, nil, "gorxe vpath: " + dir + "/path/gorxe, from PATH", 5},
		{"wheel", []string{noPath, wheel}, nil, "gorxe vwheel/bin: " + dir + "/wheel/bin/gorxe, from the Python package", 5},
		{"none", []string{noPath, "PYTHONPATH=" + plugin}, nil, "gorxe: there is no program gorxe in PATH, and neither --gorxe nor GORXE_PROGRAM names one", 5},
		{"wrong", []string{path, wheel}, []string{"--gorxe=/nowhere/gorxe"}, "ERROR: --gorxe or GORXE_PROGRAM: /nowhere/gorxe: there is no such program", 4},
		{"--rdma", []string{path, wheel}, append(option, "--rdma"), "ran option", 0},
		{"--rdma-sanitize", []string{path, wheel}, append(option, "--rdma", "--rdma-sanitize=-leak"), "ran option-leak", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("/usr/bin/python3", append([]string{"-m", "pytest", "-p", "gorxe_pytest", "-p", "no:cacheprovider"}, c.flags...)...)
			cmd.Dir = t.TempDir() // without tests, where pytest ends with 5
			cmd.Env = slices.Concat([]string{"HOME=" + dir, "TMPDIR=" + cmd.Dir, "PYTHONDONTWRITEBYTECODE=1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"}, c.env)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.head+"\n") {
				t.Errorf("exit status %d, want %d and %q in\n%s", code, c.code, c.head, out)
			}
		})
	}
}

// TestPytestHint: a test that fails because a program that it has started itself found no device is
// told how it gets one, and another test is not.
func TestPytestHint(t *testing.T) {
	need(t, "/usr/bin/python3")
	notNative(t, "pytest plugin")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "test_it.py"), []byte(`
import subprocess
SAYS = "echo 'Failed to get IB devices list: Function not implemented' >&2; exit 1"
def test_raises(): subprocess.run(["sh", "-c", SAYS], check=True, capture_output=True)
def test_text(): subprocess.run(["sh", "-c", SAYS], check=True, capture_output=True, text=True)
def test_prints(): assert subprocess.call(["sh", "-c", SAYS]) == 0
def test_other(): subprocess.run(["sh", "-c", "echo x >&2; exit 1"], check=True, capture_output=True)
`), 0o600))
	cmd := exec.Command("/usr/bin/python3", "-m", "pytest", "-p", "gorxe_pytest", "-p", "no:cacheprovider", "test_it.py")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "PYTHONPATH=" + must.Get[string](t)(filepath.Abs("../../../dist/python"))}
	out, _ := cmd.CombinedOutput() // the tests fail
	if n := strings.Count(string(out), "Or start programs with rdma_device.run."); n != 3 || !strings.Contains(string(out), "4 failed") {
		t.Errorf("%d hints, want 3, in\n%s", n, out)
	}
}

// TestPytestWords: run, popen and pair of the plugin pass fault rules and words on. A string for a
// program is refused.
func TestPytestWords(t *testing.T) {
	need(t, "/usr/bin/python3")
	notNative(t, "pytest plugin")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "gorxe"), []byte("#!/bin/sh\necho \"$*\"\n"), 0o755)) //nolint:gosec // a program
	for call, want := range map[string]string{
		"d.run(['a', 1], faults=['packet drop', 'verb fail']).stdout":                   "run --fault packet drop --fault verb fail -- a 1",
		"d.run(['a'], faults='packet drop').stdout":                                     "run --fault packet drop -- a",
		"d.popen(['a'], faults=['packet drop'], stdout=-1, text=True).communicate()[0]": "run --fault packet drop -- a",
		"d.pair(['a'], ['b', 2], faults=['packet drop']).stdout":                        "pair --fault packet drop -- a -- b 2",
		"d.pair(['a'], ['b'], 'ready', faults='packet drop').stdout":                    "pair --ready-when=ready --fault packet drop -- a -- b",
		"d.run('ibv_devinfo -v')":                                                       "TypeError: argv is the string 'ibv_devinfo -v': give a list of words, as ['ibv_devinfo', '-v']",
		"d.popen('a')":                                                                  "TypeError: argv is the string 'a': give a list of words, as ['a']",
		"d.pair('a', ['b'])":                                                            "TypeError: server is the string 'a': give a list of words, as ['a']",
		"d.pair(['a'], 'b')":                                                            "TypeError: client is the string 'b': give a list of words, as ['b']",
	} {
		cmd := exec.Command("/usr/bin/python3", "-c", "import gorxe_pytest; d = gorxe_pytest.RDMADevice(); print("+call+")")
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + must.Get[string](t)(filepath.Abs("../../../dist/python"))}
		out, _ := cmd.CombinedOutput()
		if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); lines[len(lines)-1] != want {
			t.Errorf("%s: got\n%s\nwant %q", call, out, want)
		}
	}
}

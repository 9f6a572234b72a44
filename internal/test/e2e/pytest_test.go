package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPytest: the plugin of dist/python. A test's programs, or with --rdma the test itself, have a
// device, and each worker of pytest-xdist has another one. The report of a test that fails names
// the capture and the reason, or says that the test needs --rdma.
func TestPytest(t *testing.T) {
	besideOthers(t)
	need(t, "/usr/bin/python3", "rping")
	notNative(t, "pytest plugin")
	if !selection.takes(standard) {
		return
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	const inProcess, inProgram = "ibv_reg_mr failed with EINVAL: ", "ibv_create_cq failed with EINVAL: "
	for _, c := range []struct {
		name    string
		flags   []string
		failed  string
		says    []string
		lacks   string
		devices int
	}{
		{"programs", nil, "2 failed, 4 passed", []string{inProgram, "The packets are in ", "This process has no RDMA device. Run `pytest --rdma`"}, inProcess, 2},
		{"--rdma", []string{"--rdma"}, "2 failed, 4 passed", []string{inProcess, "The packets of all tests are in "}, "Run `pytest --rdma`", 1},
		{"workers", []string{"--rdma", "-n", "2", "--dist=each"}, "4 failed, 8 passed", []string{inProcess, "The packets of all tests are in "}, "Run `pytest --rdma`", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			seen := filepath.Join(dir, "seen")
			if err := os.Mkdir(seen, 0o777); err != nil {
				t.Fatal(err)
			}
			env := []string{"PYTHONPATH=" + filepath.Join(root, "dist", "python"), "PYTHONDONTWRITEBYTECODE=1", "SEEN=" + seen, "TMPDIR=" + dir,
				"PATH=" + filepath.Dir(gorxe) + ":" + os.Getenv("PATH")}
			argv := slices.Concat([]string{"/usr/bin/python3", "-m", "pytest", "-p", "gorxe_pytest", "-p", "no:cacheprovider", "--tb=short"},
				c.flags, []string{filepath.Join(root, "internal/test/e2e/testdata/test_plugin.py")})
			p := start(t, h, env, argv...)
			code, out := p.wait(), p.out.String()
			if code != 1 || !strings.Contains(out, c.failed) || strings.Contains(out, c.lacks) {
				t.Errorf("exit status %d, want %q and not %q", code, c.failed, c.lacks)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("the report lacks %q", want)
				}
			}
			if list, err := os.ReadDir(seen); err != nil || len(list) != c.devices {
				t.Errorf("the tests had %d devices, want %d: %v, %v", len(list), c.devices, list, err)
			}
		})
	}
}

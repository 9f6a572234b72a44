package main

import (
	"strings"
	"testing"
)

// TestWheel follows the wheel's README in Debian, without a network: it installs the wheel, and
// runs the README's test. Then it runs more tests with the fixture.
func TestWheel(t *testing.T) {
	t.Parallel()
	d := newcomer(t)
	d.env = append(d.env, "PYTHONDONTWRITEBYTECODE=1") // pip does not remove what pytest compiles
	readme := page(t, "../../dist/python/README.md")
	d.write("/gorxe/test_ping_pong.py", code(readme, "python")[0])
	d.copy("/project", "testdata/test_rdma.py")
	d.ok("apt-get install -y -q --no-install-recommends ibverbs-providers ibverbs-utils python3-venv python3-pytest")
	text := d.follow("dist/python", code(readme, "sh")[0])
	for _, want := range []string{"1 passed", ": /gorxe/venv/bin/gorxe, from the Python package"} {
		if !strings.Contains(text, want) {
			t.Errorf("pytest does not say %q", want)
		}
	}
	if text = d.ok(". /gorxe/venv/bin/activate; gorxe version; pip check"); !strings.Contains(text, "No broken requirements") {
		t.Error(text)
	}
	const tests = ". /gorxe/venv/bin/activate; cd /project; export GORXE_TEST=%; python -m pytest -v -p no:cacheprovider $GORXE_TEST 2>&1"
	text, status := d.run(strings.Replace(tests, "%", "''", 1))
	if status != 1 || !strings.Contains(text, "1 failed, 5 passed") {
		t.Errorf("exit code %d\n%s", status, text)
	}
	for _, want := range []string{": /gorxe/venv/bin/gorxe, from PATH", "AssertionError: on purpose", "- gorxe -", "0 violations", "The packets are in /tmp/"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report of the failure lacks %q:\n%s", want, text)
		}
	}
	text, status = d.run(strings.Replace(tests, "%", "--rdma", 1))
	if status != 1 || !strings.Contains(text, "1 failed, 4 passed, 1 skipped") {
		t.Errorf("--rdma: exit code %d\n%s", status, text)
	}
	d.ok(". /gorxe/venv/bin/activate; pip uninstall -y gorxe; ! command -v gorxe; ! find / -xdev -name '*gorxe*' -not -path /gorxe -not -path '/gorxe/dist/*' -not -path '/gorxe/bin/*' -not -path '/tmp/*' -not -path '/run/*' | grep .")
}

package main

import (
	"strings"
	"testing"
)

// TestWheel installs the wheel with pip into Debian's Python, without a network, and runs tests
// with its fixture.
func TestWheel(t *testing.T) {
	t.Parallel()
	d := newDebian(t)
	d.copy("/wheels", packages(t).file(t, ".whl"))
	d.copy("/project", "testdata/test_rdma.py")
	d.ok(`apt-get install -y -q --no-install-recommends python3-venv python3-pytest ibverbs-providers ibverbs-utils
		python3 -m venv --system-site-packages /venv
		/venv/bin/pip install --no-index --find-links /wheels gorxe`)
	if text := d.ok(". /venv/bin/activate; gorxe version; pip check"); !strings.Contains(text, "No broken requirements") {
		t.Error(text)
	}
	const tests = ". /venv/bin/activate; cd /project; export GORXE_TEST=% PYTHONDONTWRITEBYTECODE=1; python -m pytest -v -p no:cacheprovider $GORXE_TEST 2>&1"
	text, code := d.run(strings.Replace(tests, "%", "''", 1))
	if code != 1 || !strings.Contains(text, "1 failed, 5 passed") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	for _, want := range []string{": /venv/bin/gorxe, from PATH", "AssertionError: on purpose", "- gorxe -", "0 violations", "The packets are in /tmp/"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report of the failure lacks %q:\n%s", want, text)
		}
	}
	text, code = d.run(strings.Replace(tests, "%", "--rdma", 1))
	if code != 1 || !strings.Contains(text, "1 failed, 4 passed, 1 skipped") {
		t.Errorf("--rdma: exit code %d\n%s", code, text)
	}
	// Not activated: PATH has no gorxe.
	if text, _ := d.run("cd /project; PYTHONDONTWRITEBYTECODE=1 /venv/bin/python -m pytest -p no:cacheprovider --collect-only 2>&1"); !strings.Contains(text, ": /venv/bin/gorxe, from the Python package") {
		t.Errorf("the head of the report does not name the wheel's program:\n%s", text)
	}
	d.ok(". /venv/bin/activate; pip uninstall -y gorxe; ! command -v gorxe; ! find / -xdev -name '*gorxe*' -not -path '/wheels/*' -not -path '/tmp/*' -not -path '/run/*' | grep .")
}

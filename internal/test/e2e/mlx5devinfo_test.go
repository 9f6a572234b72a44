package e2e

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestMLX5Devinfo: `ibv_devinfo -v` of an adapter equals the table in testdata, field by field,
// except what depends on the machine.
func TestMLX5Devinfo(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	need(t, "ibv_devinfo")
	wantVersion(t, release{}, "44")
	text := must.Get[[]byte](t)(os.ReadFile("testdata/devinfo-connectx6.txt"))
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	if got, want := d.run(t, "cat", "/sys/class/infiniband/mlx5_0/device/net/eth0/ifindex").ok(), d.run(t, "cat", "/sys/class/net/eth0/ifindex").ok(); got != want {
		t.Errorf("the interface of the adapter has the number %q, not %q", got, want)
	}
	got, want := devinfo(d.run(t, "ibv_devinfo", "-v", "-d", "mlx5_0").ok()), devinfo(string(text))
	names := maps.Clone(want)
	maps.Copy(names, got)
	forms := maps.Clone(ofTheMachine)
	forms["port.1/active_speed"], forms["port.1/active_width"] = regexp.MustCompile("^50.0 Gbps"), regexp.MustCompile("^4X")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if form := forms[name]; form != nil {
			if !form.MatchString(got[name]) {
				t.Errorf("%s: %q", name, got[name])
			}
		} else if got[name] != want[name] {
			t.Errorf("%s: %q, and the table has %q", name, got[name], want[name])
		}
	}
}

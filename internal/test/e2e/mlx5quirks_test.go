package e2e

import (
	"strings"
	"testing"
)

// TestMLX5Quirks: a stock program meets the quirk of a profile, and node_desc tells of it.
func TestMLX5Quirks(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	need(t, "ibv_uc_pingpong")
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0,like=connectx6+no-uc", "--device", "mlx5_1=127.0.0.2")
	for device, want := range map[string]string{"mlx5_0": "MT4123 connectx6+no-uc gorxe\n", "mlx5_1": "MT4123 connectx6 gorxe\n"} {
		if got := d.run(t, "cat", "/sys/class/infiniband/"+device+"/node_desc").ok(); got != want {
			t.Errorf("node_desc of %s is %q, want %q", device, got, want)
		}
	}
	p := d.run(t, "ibv_uc_pingpong", "-d", "mlx5_0", "-g", "1")
	if code := p.wait(); code == 0 || !strings.Contains(p.out.String(), "Couldn't create QP") {
		t.Errorf("UC: exit status %d\n%s", code, p.out.String())
	}
}

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestMLX5Many: a program has 1,000 queue pairs on each of 32 adapters, some of which write. One
// more of each adapter has completions that it never reads: it fails as on an adapter. Another
// program works beside it, and nothing is left of it.
func TestMLX5Many(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	if native != "" || !selection.takes(complete) {
		return
	}
	const devices, each = 32, 1000
	var addrs []string
	for i := range devices {
		addrs = append(addrs, fmt.Sprintf("127.0.0.%d", i+1))
	}
	d := oneRunOf(t, "mlx5_", addrs...)
	p := d.run(t, compile(t, "manyqps"), strconv.Itoa(each))
	if !until(5*programLimit, func() bool { return p.ended() || strings.Contains(p.out.String(), "ready") }) || p.ended() {
		t.Fatalf("%s", p.describe())
	}
	want := fmt.Sprintf("%d devices with %d queue pairs, %d writes\n", devices, each, devices*each/50) +
		strings.Repeat("CQ error: in ERR\n", devices) + "ready\n"
	if got := p.out.String(); got != want {
		t.Errorf("the program says\n%s", got)
	}
	for _, dev := range d.books().Devices {
		if n := dev.Objects["qp"]; n != each+1 {
			t.Errorf("%s has %d queue pairs", dev.Name, n)
		}
	}
	o := topology{both: d.pair, host: d.host}
	o.exchange(t, "ibv_rc_pingpong", "-d", "mlx5_0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100").good(t)
	o.exchange(t, "ib_write_bw", "-d", "mlx5_31", "-p", "PORT", "-x", "1", "-F", "-n", "200").good(t)
	p.killProgram("manyqps")
	p.wantKilled()
	d.idle()
}

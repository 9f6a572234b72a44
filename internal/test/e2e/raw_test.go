package e2e

import (
	"strings"
	"testing"
)

// The addresses of programs. The device's own need not be known.
const rawServer, rawClient = "02:00:00:00:00:02", "02:00:00:00:00:01"

// TestRawEthernet: perftest's programs for raw packets, within a daemon and across a veth. Frames
// that find no receive are lost, as with an adapter, and the programs do not tell when they have
// posted theirs. So a short run has a client that nobody hears, and rdma-core's tests have traffic
// (shortOnMLX5).
func TestRawEthernet(t *testing.T) {
	besideOthers(t)
	need(t, "raw_ethernet_bw", "raw_ethernet_lat", "stdbuf")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	da := startDaemon(t, a, "--device", "mlx5_0=eth0")
	client := []string{"-d", "mlx5_0", "--client", "-B", rawClient, "-E", rawServer}
	server := []string{"-d", "mlx5_0", "--server", "-B", rawServer, "-E", rawClient}
	alone := append([]string{"raw_ethernet_bw", "-s", "1000", "-n", "1000"}, client...)
	if out := da.run(t, alone...).ok(); !strings.Contains(out, "MsgRate") {
		t.Errorf("no rate in\n%s", out)
	}
	if !selection.takes(complete) {
		return
	}
	db := startDaemon(t, b, "--device", "mlx5_0=eth0")
	for _, way := range []struct {
		name string
		peer *daemon
	}{{"one daemon", da}, {"across a veth", db}} {
		for _, program := range [][]string{{"raw_ethernet_lat", "-n", "100"}, {"raw_ethernet_bw", "-D", "2"}} {
			t.Run(way.name+"/"+program[0], func(t *testing.T) {
				s := da.run(t, append(append([]string{"stdbuf", "-oL"}, program...), server...)...)
				if !until(programLimit, func() bool { return s.ended() || strings.Contains(s.out.String(), "MAC attached") }) {
					t.Fatal("the server does not begin")
				}
				way.peer.run(t, append(program, client...)...).ok()
				s.ok()
			})
		}
	}
}

package trap

import (
	"strings"
	"testing"
)

func TestIbvDevices(t *testing.T) {
	out := run(t, options{host: newHost(t, "rxe0", "rxe1")}, tool(t, "ibv_devices"))
	if !strings.Contains(out, "rxe0") || !strings.Contains(out, "rxe1") {
		t.Errorf("ibv_devices:\n%s", out)
	}
}

func TestIbvDevinfo(t *testing.T) {
	out := run(t, options{}, tool(t, "ibv_devinfo"), "-v")
	if !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("ibv_devinfo:\n%s", out)
	}
	t.Log(out)
}

// pingpong is a server and a client of the same program, in one session.
func pingpong(tool, port string, args string) string {
	return tool + " -p " + port + " -g 0 " + args + " >/dev/null & s=$!; " +
		"for i in 1 2 3 4 5 6 7 8 9; do " + tool + " -p " + port + " -g 0 " + args + " localhost && break; sleep 0.1; done; wait $s"
}

func TestPingpong(t *testing.T) {
	out := run(t, options{host: engineHost(t)}, "/bin/bash", "-c", pingpong(tool(t, "ibv_rc_pingpong"), "18613", "-n 100 -c"))
	if !strings.Contains(out, "100 iters") {
		t.Errorf("ibv_rc_pingpong:\n%s", out)
	}
}

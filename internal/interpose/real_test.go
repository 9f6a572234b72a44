package interpose

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

package e2e

import "testing"

// launch starts a program that sees a device.
type launch func(t *testing.T, argv ...string) *proc

// runner is one place where programs can be started.
type runner struct {
	start  launch
	device string
}

// oneHost is a host with a daemon and a device that has a link-local, an IPv4 and
// an IPv6 GID.
func oneHost(t *testing.T) runner {
	t.Helper()
	if native != "" {
		return runner{func(t *testing.T, argv ...string) *proc { return start(t, &host{}, nil, argv...) }, native}
	}
	return oneDaemon(t).runner()
}

// oneDaemon is a daemon on a host whose cable leads to nobody.
func oneDaemon(t *testing.T) *daemon {
	t.Helper()
	a, _ := twoHosts(t, 1500)
	return startDaemon(t, a, "--device", "rxe0=eth0")
}

func (d *daemon) runner() runner { return runner{d.run, "rxe0"} }

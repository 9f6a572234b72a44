package e2e

import "testing"

// TestPrivilegedQKey: a program has the Q_Key of queue pair 1 only with CAP_NET_RAW over the
// daemon's network namespace.
func TestPrivilegedQKey(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	const want = "root: ok\nroot of another network: EPERM\nroot of another user namespace: EPERM\nwithout CAP_NET_RAW: EPERM\n"
	if out := oneDaemon(t).run(t, compile(t, "qkey")).ok(); out != want {
		t.Errorf("%s", out)
	}
}

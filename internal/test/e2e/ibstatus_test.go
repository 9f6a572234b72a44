package e2e

import (
	"strings"
	"testing"
)

// TestIbstatus: ibstatus, a shell script, shows a port that it is told. It finds ports
// itself with cd, which is refused. A shell then stays where it was, for the kernel too.
func TestIbstatus(t *testing.T) {
	const ibstatus = "/usr/sbin/ibstatus"
	need(t, ibstatus, "bash", "dash", "readlink")
	if !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	for _, argv := range [][]string{{ibstatus, "rxe0:1"}, {"bash", "-c", ibstatus + " rxe0:1"}} {
		out := d.run(t, argv...).ok()
		for _, want := range []string{"state:\t\t 4: ACTIVE", "phys state:\t 5: LinkUp", "link_layer:\t Ethernet", "base lid:\t 0x0"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", argv, want, out)
			}
		}
	}
	if out := d.run(t, "bash", "-c", ibstatus+" || true").ok(); !strings.Contains(out, "Fatal error") {
		t.Errorf("ibstatus without a port:\n%s", out)
	}
	for _, shell := range []string{"bash", "dash"} {
		out := d.run(t, shell, "-c", "cd /usr; cd /sys/class/infiniband 2>/dev/null && echo moved; pwd; readlink /proc/$$/cwd; cd /sys/class && pwd").ok()
		if out != "/usr\n/usr\n/sys/class\n" {
			t.Errorf("%s after a refused cd is in\n%s", shell, out)
		}
	}
}

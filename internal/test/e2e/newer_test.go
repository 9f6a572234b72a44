package e2e

import (
	"strings"
	"testing"
)

// TestNewerRDMACore: libibverbs and librxe of a newer Debian, in a chroot, beside
// those of this one.
func TestNewerRDMACore(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	r := newer(t)
	root := r.root
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	in := func(run launch) launch {
		return func(t *testing.T, argv ...string) *proc {
			return run(t, append([]string{"chroot", root}, argv...)...)
		}
	}
	out := in(da.run)(t, "ibv_devinfo", "-v").ok()
	if got := devinfo(out); got["port.1/state"] != "PORT_ACTIVE (4)" || got["max_sge"] != "32" {
		t.Errorf("ibv_devinfo:\n%s", out)
	}
	for _, o := range []topology{
		{name: "newer to newer", server: in(da.run), client: in(da.run)},
		{name: "newer to older", server: in(da.run), client: da.run},
		{name: "older to newer", server: da.run, client: in(da.run)},
		{name: "newer to newer, two daemons", server: in(da.run), client: in(db.run)},
	} {
		o.host = a
		for _, args := range []string{"rc -g 1", "rc -g 2 -e -s 1048576", "uc -g 1 -e", "ud -g 1 -e", "srq -g 1 -e"} {
			t.Run(o.name+"/"+args, func(t *testing.T) {
				tool, rest, _ := strings.Cut(args, " ")
				argv := append([]string{"ibv_" + tool + "_pingpong", "-d", "rxe0", "-p", "PORT", "-c", "-n", "100"}, strings.Fields(rest)...)
				o.exchange(t, argv...).good(t)
			})
		}
	}
	for _, args := range []string{"send_bw", "write_bw", "read_bw", "atomic_bw", "write_lat"} {
		t.Run("perftest/"+args, func(t *testing.T) {
			o := topology{server: r.beside(da.run), client: r.beside(db.run), host: a}
			o.exchange(t, "ib_"+args, "-d", "rxe0", "-p", "PORT", "-F", "-x", "1", "-n", "100").good(t)
		})
	}
}

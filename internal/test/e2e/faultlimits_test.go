package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSmallerDevice: two sessions on one daemon, one with lower limits. Each sees its own, and
// meets only its own.
func TestSmallerDevice(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_devinfo", "ibv_srq_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	small := func(rule string, argv ...string) *proc {
		return start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run", "--fault", rule, "--"}, argv)...)
	}
	p := small("limits set,max_qp=4,max_sge=2,max_rd_atomic=3,max_msg_sz=64KiB", "ibv_devinfo", "-v", "-d", "rxe0")
	if code := p.wait(); code != 3 { // no call met a limit
		t.Errorf("exit status %d\n%s", code, p.out.String())
	}
	plain := d.run(t, "ibv_devinfo", "-v", "-d", "rxe0").ok()
	for _, field := range []string{"max_qp:\t4", "max_sge:\t2", "max_qp_rd_atom:\t3", "max_qp_init_rd_atom:\t3", "max_msg_sz:\t0x10000"} {
		if !hasField(p.out.String(), field) || hasField(plain, field) {
			t.Errorf("%q is in one of the two, or in none:\n%s\n%s", field, p.out.String(), plain)
		}
	}

	// Sixteen queue pairs of the server are not those of the client's session. The client may have
	// sixteen, but not sixteen when fifteen are allowed.
	port := d.host.nextPort()
	argv := []string{"ibv_srq_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", strconv.Itoa(port), "-c", "-q", "16"}
	s := d.run(t, argv...)
	s.listening(port)
	client := small("limits set,max_qp=15", append(slices.Clone(argv), d.host.addr)...)
	if code := client.wait(); code == 0 || code == 3 || !strings.Contains(client.out.String(), "Couldn't create QP") {
		t.Errorf("15 queue pairs: exit status %d\n%s", code, client.out.String())
	}
	client = start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run", "--faults-may-miss", "--fault", "limits set,max_qp=16", "--"}, argv, []string{d.host.addr})...)
	client.ok()
	s.ok()
}

// hasField reports whether ibv_devinfo shows a field, whatever tabs are between name and value.
func hasField(out, field string) bool {
	name, value, _ := strings.Cut(field, "\t")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name && f[1] == value {
			return true
		}
	}
	return false
}

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// diag is a program of infiniband-diags, and what it prints.
type diag struct {
	argv string
	want []string // regular expressions
	code int
}

// diags are what the programs say of a port without a subnet manager, before there is traffic.
// The order matters: perfquery sets counters.
var diags = []diag{
	{"ibstat", []string{`(?m)^CA 'rxe0'$`, `State: Active`, `Physical state: LinkUp`, `Base lid: 0`, `Link layer: Ethernet`}, 0},
	{"ibstat -p", []string{`^0x[0-9a-f]{16}\n$`}, 0},
	{"ibstat -s", []string{`^CA 'rxe0'\n`, `Node GUID: 0x[0-9a-f]{16}`}, 0},
	{"ibstat -l", []string{`^rxe0\n$`}, 0},
	{"ibstatus rxe0:1", []string{`state:\t\t 4: ACTIVE`, `link_layer:\t Ethernet`}, 0},
	{"ibaddr", []string{`^GID fe80::\S+ LID start 0x0 end 0x0\n$`}, 0},
	{"smpquery -D nodeinfo 0", []string{`NodeType:\.+Channel Adapter`, `NumPorts:\.+1\n`, `LocalPort:\.+1\n`}, 0},
	{"smpquery -D nodedesc 0", []string{`^Node Description:\.+rxe\n$`}, 0},
	{"smpquery -D portinfo 0", []string{`GidPrefix:\.+0xfe80000000000000`, `LinkState:\.+Active`, `PhysLinkState:\.+LinkUp`,
		`NeighborMTU:\.+1024\n`, `LinkWidthSupported:\.+1X or 4X\n`}, 0},
	{"smpquery -D pkeys 0", []string{`0: 0xffff 0x0000`, `1 pkeys capacity for this port`}, 0},
	{"smpquery -D guidinfo 0", []string{`(?m)^ +0: 0x[0-9a-f]{16} 0x0000ffff0a580001`}, 0},
	{"smpquery -D switchinfo 0", []string{`switch info query failed`}, 255},
	{"ibportstate -D 0 1 query", []string{`LinkState:\.+Active`}, 0},
	{"perfquery", []string{`(?m)^PortSelect:\.+1$`, `PortXmitPkts:\.+0\n`, `PortXmitWait:\.+0\n`}, 0},
	{"perfquery -x", []string{`extended counters`, `PortXmitPkts:\.+0\n`}, 0},
	{"perfquery -r", []string{`PortXmitPkts:\.+0\n`}, 0},
	{"perfquery -R", []string{`^$`}, 0},
	{"iblinkinfo", []string{`(?m)^CA: rxe:$`, `Active/  LinkUp`}, 0},
	{"ibnetdiscover", []string{`(?m)^Ca\t1 "H-[0-9a-f]{16}"\t\t# "rxe"$`}, 0},
	{"ibhosts", []string{`(?m)^Ca\t: 0x[0-9a-f]{16} ports 1 "rxe"$`}, 0},
	{"perfquery 5", []string{`(?i)failed`}, 255},
}

// TestDiagnostics: the programs that look at a port, and at its counters.
func TestDiagnostics(t *testing.T) {
	need(t, "/usr/sbin/ibstat", "/usr/sbin/perfquery", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	d, far := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	run := func(line string) (string, int) {
		argv := strings.Fields(line)
		argv[0] = "/usr/sbin/" + argv[0]
		p := d.run(t, argv...)
		code := p.wait()
		return p.out.String(), code
	}
	for _, c := range diags {
		out, code := run(c.argv)
		if code != c.code {
			t.Errorf("%s ends with %d, not %d:\n%s", c.argv, code, c.code, out)
		}
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: no %q in\n%s", c.argv, want, out)
			}
		}
	}
	// Both attributes count, and each can be set back.
	o := topology{server: d.run, client: far.run, host: a}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
	counts := func(line string) bool {
		out, _ := run(line)
		return regexp.MustCompile(`PortXmitPkts:\.+[1-9]`).MatchString(out)
	}
	if !counts("perfquery") || !counts("perfquery -x -r") || counts("perfquery -x") || !counts("perfquery -r") || counts("perfquery") {
		t.Error("perfquery has counters that do not count, or were not set back")
	}
}

// TestDiagnosticsOthers: management datagrams are for the daemon's own user and root.
func TestDiagnosticsOthers(t *testing.T) {
	need(t, "/usr/sbin/ibaddr", "stat")
	if !selection.takes(standard) || oneUser {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-mode", "0666")
	other := a.as(65534, 65534)
	p := d.runAs(t, other, "/usr/sbin/ibaddr")
	if code := p.wait(); code == 0 {
		t.Errorf("another user's ibaddr:\n%s", p.out.String())
	}
	shell := d.runAs(t, other, "sh", "-c", "stat -c '%a %u' /dev/infiniband/umad0; test -r /dev/infiniband/umad0 || echo hidden; "+
		": <>/dev/infiniband/umad0")
	if code := shell.wait(); code == 0 || !strings.HasPrefix(shell.out.String(), "600 0\nhidden\n") || !strings.Contains(shell.out.String(), "ermission denied") {
		t.Errorf("another user's shell ends with %d:\n%s", code, shell.out.String())
	}
	if text := d.run(t, "/usr/sbin/ibaddr").ok(); !strings.Contains(text, "GID") {
		t.Errorf("root's ibaddr:\n%s", text)
	}
	// A daemon of one's own.
	h, env := nobody(t, a)
	own := start(t, h, env, gorxe, "run", "--device", "rxe0=127.88.3.1", "sh", "-c",
		"stat -c '%a %u' /dev/infiniband/umad0; test -r /dev/infiniband/umad0 && /usr/sbin/ibaddr").ok()
	if !strings.HasPrefix(own, "600 65534\nGID") {
		t.Errorf("with a daemon of one's own:\n%s", own)
	}
}

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestPeerKilled: a rule kills the server of a stock program at a message. The message is not
// acknowledged, and the client runs out of retries, as when the kernel cleans up a dead program.
func TestPeerKilled(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	port, report := d.host.nextPort(), filepath.Join(t.TempDir(), "faults.json")
	argv := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", strconv.Itoa(port), "-n", "50"}
	const rule = "peer killed,opcode=RECV,after=3,first=1"
	s := start(t, d.host, d.env(), slices.Concat([]string{gorxe, "run", "--fault", rule, "--fault-report", report, "--"}, argv)...)
	s.listening(port)
	client := d.run(t, append(argv, d.host.addr)...)
	if code := s.wait(); code != -int(syscall.SIGKILL) && code != 128+int(syscall.SIGKILL) {
		t.Errorf("the server's exit status is %d\n%s", code, s.out.String())
	}
	if code := client.wait(); code == 0 || !strings.Contains(client.out.String(), "Failed status transport retry counter exceeded (12)") {
		t.Errorf("the client's exit status is %d\n%s", code, client.out.String())
	}
	if r := readFaults(t, report); len(r.Rules) != 1 || r.Rules[0].Fired != 1 {
		t.Errorf("%+v", r)
	}
}

// removedScript has a listener of RDMA CM, and a program that meets the rule. Then it lists what is
// left.
const removedScript = `
rping -s -a "$1" -p "$2" & listener=$!
until [ -e "$3" ]; do sleep 0.02; done
ibv_rc_pingpong -d rxe0 -g "$4" -p "$5" -n 50 "$1"; echo "client $?"
wait $listener
while [ -e /sys/class/infiniband/rxe0 ]; do sleep 0.02; done
echo "left: $(ls /dev/infiniband) $(ls /sys/class/infiniband)"
ibv_devinfo -d rxe0; echo "devinfo $?"
`

// TestDeviceRemoved: a rule removes the device from one session. Its listener of RDMA CM gets the
// event, its work is flushed, and its programs find no device. Other sessions have it.
func TestDeviceRemoved(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ibv_devinfo", "rping")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	port, cmPort, ready := d.host.nextPort(), d.host.nextPort(), filepath.Join(t.TempDir(), "ready")
	gid := strconv.Itoa(gidIPv4)
	s := d.run(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", gid, "-p", strconv.Itoa(port), "-n", "50")
	s.listening(port)
	p := start(t, d.host, d.env(), gorxe, "run", "--fault", "device remove,opcode=SEND,after=3,first=1", "--", "sh", "-c", removedScript,
		"sh", d.host.addr, strconv.Itoa(cmPort), ready, gid, strconv.Itoa(port))
	topology{daemon: d}.await(t, listensCM, p, cmPort)
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := p.ok()
	for _, want := range []string{
		"Failed status Work Request Flushed Error (5)", "client 1\n", "cma detected device removal", "left: rdma_cm \n", "devinfo 255\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the session's programs do not say %q:\n%s", want, out)
		}
	}
	d.run(t, "ibv_devinfo", "-d", "rxe0").ok()
	// it may have run out of retries
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
	s.wait()
}

// TestFaultsOfAllSessions: a rule with scope=device meets the verbs of a program that has no rules.
func TestFaultsOfAllSessions(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	argv := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4)}
	one := topology{name: "one daemon", server: d.run, client: d.run, host: d.host, device: "rxe0"}
	one.exchange(t, slices.Concat(argv, []string{"-p", "PORT", "-c", "-n", "50"})...).good(t)
	bad := start(t, d.host, d.env(), gorxe, "run", "--fault", "verb fail,verb=create_qp,errno=ENOMEM,scope=device", "--", "sh", "-c", "echo up; exec sleep 1000")
	if !until(programLimit, func() bool { return bad.ended() || strings.Contains(bad.out.String(), "up\n") }) {
		t.Fatal("the program with rules does not start")
	}
	p := d.run(t, argv...)
	if code := p.wait(); code == 0 || !strings.Contains(p.out.String(), "Couldn't create QP") {
		t.Errorf("exit status %d\n%s", code, p.out.String())
	}
	if err := syscall.Kill(bad.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := bad.wait(); code == 3 {
		t.Errorf("the rule has not fired\n%s", bad.out.String())
	}
}

// TestFaultLabel: gorxe fault finds a session by its label, and a rule for all sessions names one
// by its label.
func TestFaultLabel(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	gorxe := func(args ...string) *proc { return start(t, d.host, d.env(), append([]string{gorxe}, args...)...) }
	holder := gorxe("run", "--label", "holder", "--", "sh", "-c", "echo up; exec sleep 1000")
	if !until(programLimit, func() bool { return holder.ended() || strings.Contains(holder.out.String(), "up\n") }) {
		t.Fatal("the program with the label does not start")
	}
	says := func(code int, text string, args ...string) {
		t.Helper()
		p := gorxe(args...)
		if got := p.wait(); got != code || !strings.Contains(p.out.String(), text) {
			t.Errorf("%q: exit status %d, want %d and %q\n%s", args, got, code, text, p.out.String())
		}
	}
	const rule = "verb fail,verb=create_qp,errno=ENOMEM,label=left,scope=device"
	says(0, rule, "fault", "add", "--label", "holder", rule)
	says(1, "no session has the label other", "fault", "list", "--label", "other")
	says(2, "give one of them", "fault", "list", "--label", "holder", "--session", "1")
	says(2, "64 at most", "run", "--label", "a name", "--", "true")
	says(0, "has the label holder", "status")
	// nobody listens
	program := []string{"ibv_rc_pingpong", "-d", "rxe0", "-p", strconv.Itoa(d.host.nextPort()), d.host.addr}
	says(1, "Couldn't create QP", slices.Concat([]string{"run", "--label", "left", "--"}, program)...)
	says(1, "Couldn't connect", slices.Concat([]string{"run", "--label", "right", "--"}, program)...)
	says(0, "1   1           1", "fault", "clear", "--label", "holder")
	holder.killTree()
	holder.wait()
}

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// faultReport is what the tests read of --fault-report.
type faultReport struct {
	Rules []struct {
		Rule       string `json:"rule"`
		Candidates int    `json:"candidates"`
		Fired      int    `json:"fired"`
	} `json:"rules"`
	Missed int `json:"missed"`
}

func readFaults(t *testing.T, path string) (r faultReport) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noViolation judges captures.
func noViolation(t *testing.T, files ...string) {
	t.Helper()
	start(t, &host{}, nil, append([]string{gorxe, "pcap", "check"}, files...)...).ok()
}

// faultyNetworks are rules that any program must endure.
var faultyNetworks = []string{
	"packet drop,p=1%,seed=1",
	"packet drop,p=5%,seed=2",
	"packet reorder,by=2,every=20",
	"packet duplicate,every=10",
}

// TestFaultyNetwork: programs end well, with the right data, when packets are lost, reordered and
// doubled. Their captures have no violation.
func TestFaultyNetwork(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	if native != "" {
		t.Skip("the kernel's device has no fault rules")
	}
	n, short := "200", false
	if !full {
		n, short = "30", true
	}
	programs := [][]string{
		{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", "PORT", "-c", "-n", n},
		perftestArgs("ib_write_bw -s 8192 -n " + n),
	}
	a, b := twoHosts(t, 4500)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")}
	da := startDaemon(t, a, "--device", "rxe0=eth0", "--pcap", files[0])
	db := startDaemon(t, b, "--device", "rxe0=eth0", "--pcap", files[1])
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range faultyNetworks {
		// under runs a program with the rule, which must fire.
		under := func(h *host, d *daemon, argv ...string) launch {
			return func(t *testing.T, args ...string) *proc {
				return start(t, h, d.env(), slices.Concat([]string{gorxe, "run", "--fault", rule, "--"}, argv, args)...)
			}
		}
		for j, program := range programs {
			if short && j > 0 && i != 1 {
				continue // the heaviest loss stands for the others
			}
			t.Run(fmt.Sprintf("%s/%s", rule, program[0]), func(t *testing.T) {
				one := topology{both: under(a, da, "env", roleEnv+"=pair", self), host: a, device: "rxe0"}
				two := topology{server: da.run, client: under(b, db), host: a, device: "rxe0"}
				for _, o := range []topology{one, two} {
					if out := o.exchange(t, program...).good(t); strings.Contains(out, "invalid data") {
						t.Error(out)
					}
				}
			})
		}
	}
	da.end(t)
	db.end(t)
	noViolation(t, files...)
}

// TestFaultUnfired: a rule that never fires fails the run, whatever the program's end, and a table
// shows it. GORXE_FAULTS has rules too.
func TestFaultUnfired(t *testing.T) {
	if native != "" {
		t.Skip("the kernel's device has no fault rules")
	}
	d := oneDaemon(t)
	const rule = "packet drop,qp=UD,first=1"
	run := func(env []string, args ...string) (int, string) {
		p := start(t, d.host, append(d.env(), env...), append([]string{gorxe, "run"}, args...)...)
		code := p.wait()
		return code, p.out.String()
	}
	for _, c := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{nil, []string{"--fault", rule, "--", "true"}, 3, "1 of 1 fault rules never fired"},
		{nil, []string{"--fault", rule, "--", "false"}, 3, "1   0           0      -      -     " + rule},
		{nil, []string{"--fault", rule, "--faults-may-miss", "--", "true"}, 0, ""},
		{nil, []string{"--fault", rule, "--faults-may-miss", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"GORXE_FAULTS=packet mark; " + rule + ";"}, []string{"--", "true"}, 3, "2 of 2 fault rules never fired"},
		{[]string{"GORXE_FAULTS=packet drp"}, []string{"--", "true"}, 2, "is it drop?"},
		{nil, []string{"--faults-may-miss", "--", "true"}, 2, "there is none"},
		{nil, []string{"--fault", rule, "--", gorxe, "run", "--fault", rule, "true"}, 3, "give them to the outer one"},
	} {
		if code, out := run(c.env, c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q %q: exit status %d, want %d and %q\n%s", c.env, c.args, code, c.code, c.says, out)
		}
	}
}

// TestFaultsOfOneSession: the rules of one program do not touch another on the same device.
func TestFaultsOfOneSession(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	if native != "" {
		t.Skip("the kernel's device has no fault rules")
	}
	d := oneDaemon(t)
	report := filepath.Join(t.TempDir(), "faults.json")
	bad := start(t, d.host, d.env(), gorxe, "run", "--fault", "packet drop", "--fault-report", report, "--", "sh", "-c", "echo up; exec sleep 1000")
	if !until(programLimit, func() bool { return bad.ended() || strings.Contains(bad.out.String(), "up\n") }) {
		t.Fatal("the program with rules does not start")
	}
	one := topology{name: "one daemon", server: d.run, client: d.run, host: d.host, device: "rxe0"}
	one.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", "PORT", "-c", "-n", "50").good(t)
	if err := syscall.Kill(bad.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := bad.wait(); code != 3 {
		t.Errorf("exit status %d\n%s", code, bad.out.String())
	}
	if r := readFaults(t, report); fmt.Sprint(r) != "{[{packet drop 0 0}] 1}" {
		t.Errorf("the rules of another program: %+v", r)
	}
}

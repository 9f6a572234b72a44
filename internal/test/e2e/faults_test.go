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

// faulty runs programs with a fault rule.
func (d *daemon) faulty(rule string) launch {
	return func(t *testing.T, argv ...string) *proc {
		return start(t, d.host, d.env(), append([]string{gorxe, "run", "--fault", rule, "--"}, argv...)...)
	}
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
	besideOthers(t)
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	notNative(t, "fault rules")
	n, short := "200", false
	if !full {
		n, short = "30", true
	}
	// ibv_rc_pingpong destroys its queue pair after its last message. If that message's
	// acknowledgment is lost, nobody sends another one, and the peer fails. So it loses requests
	// only. ib_write_bw waits for its peer by TCP before it ends.
	programs := []struct {
		argv []string
		lost string
	}{
		{[]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", "PORT", "-c", "-n", n}, ",opcode=RC_SEND_*"},
		{perftestArgs("ib_write_bw -s 8192 -n " + n), ""},
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
	for i, network := range faultyNetworks {
		for j, program := range programs {
			if short && j > 0 && i != 1 {
				continue // the heaviest loss stands for the others
			}
			rule := network
			if strings.HasPrefix(rule, "packet drop") {
				rule += program.lost
			}
			// under runs a program with the rule, which must fire.
			under := func(h *host, d *daemon, argv ...string) launch {
				return func(t *testing.T, args ...string) *proc {
					return start(t, h, d.env(), slices.Concat([]string{gorxe, "run", "--fault", rule, "--"}, argv, args)...)
				}
			}
			t.Run(fmt.Sprintf("%s/%s", rule, program.argv[0]), func(t *testing.T) {
				one := topology{both: under(a, da, "env", roleEnv+"=pair", self), host: a, device: "rxe0"}
				two := topology{server: da.run, client: under(b, db), host: a, device: "rxe0"}
				for _, o := range []topology{one, two} {
					if out := o.exchange(t, program.argv...).good(t); strings.Contains(out, "invalid data") {
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

// TestFaultyPyverbs: rdma-core's own tests of reliable connections pass when packets are lost,
// reordered and doubled.
func TestFaultyPyverbs(t *testing.T) {
	besideOthers(t)
	need(t, "/usr/bin/python3")
	if !selection.takes(standard) {
		return // Python runs too long under the race detector
	}
	notNative(t, "fault rules")
	operations := []string{"send", "rdma_write", "rdma_read", "atomic_fetch_add"}
	if full {
		operations = append(operations, "send_imm", "rdma_write_imm", "rdma_read_zero_size", "atomic_cmp_swp", "bind_mw")
	}
	var names []string
	for _, op := range operations {
		names = append(names, "test_qpex.QpExTestCase.test_qp_ex_rc_"+op)
	}
	d := oneDaemon(t)
	for _, rule := range faultyNetworks {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			got := runRDMACore(t, runner{d.faulty(rule), "rxe0"}, release{}, rdmacoreTests(t), names...)
			for _, name := range names {
				if v := got[name]; v.Result != "pass" {
					t.Errorf("%s: %s %q", name, v.Result, v.Detail)
				}
			}
		})
	}
}

// TestFaultUnfired: a rule that never fires fails the run, whatever the program's end, and a table
// shows it. GORXE_FAULTS has rules too.
func TestFaultUnfired(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	notNative(t, "fault rules")
	d := oneDaemon(t)
	const rule = "packet drop,qp=UD,first=1"
	run := func(env []string, args ...string) (int, string) {
		p := start(t, d.host, append(d.env(), env...), append([]string{gorxe, "run"}, args...)...)
		code := p.wait()
		return code, p.out.String()
	}
	file := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(file, []byte("- where: packet\n  what: drop\n  qp: UD   # none has\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("- where: packet\n  what: drop\n  qp: XRC\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{nil, []string{"--faults", file, "--fault", rule, "--", "true"}, 3, "packet drop,qp=UD\n"},
		{nil, []string{"--faults", file, "--faults-may-miss", "--", "true"}, 0, ""},
		{nil, []string{"--faults", wrong, "--", "true"}, 2, wrong + ":3:3: qp: XRC: give RC, UC or UD"},
		{nil, []string{"--faults", wrong + ".not", "--", "true"}, 2, "no such file"},
		{nil, []string{"--fault", rule, "--", "true"}, 3, "1 of 1 fault rules never fired"},
		{nil, []string{"--fault", "device fail,event=IBV_EVENT_CQ_ERR", "--", "true"}, 3, "1 of 1 fault rules never fired"},
		{nil, []string{"--fault", "port down,after=1h,scope=device", "--", "true"}, 3, "1 of 1 fault rules never fired"},
		{nil, []string{"--fault", rule, "--", "false"}, 3, "1   0           0      -      -     " + rule},
		{nil, []string{"--fault", rule, "--faults-may-miss", "--", "true"}, 0, ""},
		{nil, []string{"--fault", rule, "--faults-may-miss", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"GORXE_FAULTS=packet mark; " + rule + ";"}, []string{"--", "true"}, 3, "2 of 2 fault rules never fired"},
		{[]string{"GORXE_FAULTS=packet drp"}, []string{"--", "true"}, 2, "is it drop?"},
		{nil, []string{"--fault", "packet drop", "--fault", "packet mark", "--", "true"}, 2, "\"packet drop\" is asked before it"},
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
	notNative(t, "fault rules")
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

// TestFaultCommand: gorxe fault changes the rules of a program that runs.
func TestFaultCommand(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	start := func(args ...string) *proc { return start(t, d.host, d.env(), append([]string{gorxe}, args...)...) }
	fault := func(code int, says string, args ...string) {
		t.Helper()
		p := start(append([]string{"fault"}, args...)...)
		if got := p.wait(); got != code || !strings.Contains(p.out.String(), says) {
			t.Errorf("gorxe fault %q: exit status %d, want %d and %q\n%s", args, got, code, says, p.out.String())
		}
	}
	fault(1, "there is no session", "list")
	const rule = "verb fail,verb=create_qp,errno=ENOMEM"
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := os.OpenFile(fifo, os.O_RDWR, 0) // does not wait for the reader
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	tell := func() {
		t.Helper()
		if _, err := input.WriteString("go on\n"); err != nil {
			t.Fatal(err)
		}
	}
	program := start("run", "--", "sh", "-c", "echo up; read line <"+fifo+"; ibv_rc_pingpong -d rxe0; read line <"+fifo)
	if !until(programLimit, func() bool { return program.ended() || strings.Contains(program.out.String(), "up\n") }) {
		t.Fatal("the program does not start")
	}
	fault(0, "CANDIDATES", "list")
	fault(0, "1   0           0      -      -     "+rule, "add", rule, "packet drop,qp=UD")
	fault(2, "is it drop?", "add", "packet drp")
	fault(2, "give a rule", "add")
	fault(1, "there is no fault rule 7", "remove", "1", "7")
	fault(0, "2   0           0", "list", "--pid", strconv.Itoa(program.cmd.Process.Pid))
	fault(1, "there is no session 999999", "list", "--session", "999999")
	fault(0, "\"missed\": 2", "list", "--json")
	fault(1, "is in no session", "list", "--pid", "1")
	tell()
	if !until(programLimit, func() bool { return program.ended() || strings.Contains(program.out.String(), "Couldn't create QP") }) {
		t.Fatalf("the rule did not fire:\n%s", program.out.String())
	}
	fault(0, "1   1           1      ", "remove", "1")
	fault(3, "1 of 1 fault rules never fired", "remove", "2")
	fault(0, rule, "add", rule)
	fault(0, rule, "clear", "--faults-may-miss")
	fault(0, rule, "add", rule)
	fault(3, "never fired", "clear")
	// A program changes the rules of its own session.
	inside := start("run", "--", "sh", "-c", gorxe+" fault add '"+rule+"' && ibv_rc_pingpong -d rxe0")
	if code := inside.wait(); code != 1 || !strings.Contains(inside.out.String(), "Couldn't create QP") {
		t.Errorf("exit status %d\n%s", code, inside.out.String())
	}
	tell()
	program.ok()
}

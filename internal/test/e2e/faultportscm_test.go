package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// cmPortScript is a client that meets a rule, and the same client without the rule.
const cmPortScript = `%[1]s; echo "with $?"; %[2]s fault clear; %[1]s; echo "without $?"`

// cmPortFault is a rule that a client of RDMA CM meets.
type cmPortFault struct {
	rule, server, client string
	code                 int // of the client with the rule
	says                 string
}

// cmPortFaults are the rows of testdata/fault-outcomes.md about ports and programs of RDMA CM.
var cmPortFaults = []cmPortFault{
	{"port gid_removed,gid=1,scope=device", "rping -s -P -a HOST -p PORT", "rping -c -a HOST -p PORT -C 3", 255, "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19"},
	{"port gid_removed,gid=1,scope=device", "ib_write_bw -R -d rxe0 -F -n 10 -p PORT", "ib_write_bw -R -d rxe0 -F -n 10 -p PORT HOST", 1, "Received 10 times ADDR_ERROR"},
	{"port down,time=20ms,times=3,scope=device", "rping -s -P -a HOST -p PORT", "rping -c -a HOST -p PORT -C 100", 0, ""},
}

// TestPortFaultsOfCM: programs that connect by address, under rules about the port that they use.
func TestPortFaultsOfCM(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "rping", "ib_write_bw")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	for _, c := range cmPortFaults {
		out := c.run(t, d)
		for n := 0; n < 3 && strings.Contains(out, listensTooLate); n++ {
			t.Logf("perftest's server listened too late\n%s", out)
			out = c.run(t, d)
		}
		if !strings.Contains(out, fmt.Sprintf("with %d\n", c.code)) || !strings.Contains(out, c.says) || !strings.Contains(out, "without 0\n") {
			t.Errorf("%s: %s\n%s", c.rule, c.client, out)
		}
	}
}

// listensTooLate is what a client of perftest says if its second request comes before the server
// listens again. With -R both connect once to exchange what they need, and the server then closes
// its listener. The second connection is for the test. The reason 8 is "invalid service ID", and
// the kernel answers the same.
const listensTooLate = "RDMA_CM_EVENT_REJECTED; error: 8."

// run starts the server and both clients, and returns what the clients write.
func (c *cmPortFault) run(t *testing.T, d *daemon) string {
	t.Helper()
	port := d.host.nextPort()
	fill := strings.NewReplacer("HOST", d.host.addr, "PORT", strconv.Itoa(port))
	s := d.run(t, strings.Fields(fill.Replace(c.server))...)
	topology{daemon: d}.await(t, listensCM, s, port)
	script := fmt.Sprintf(cmPortScript, fill.Replace(c.client), gorxe)
	out := start(t, d.host, d.env(), gorxe, "run", "--fault", c.rule, "--", "sh", "-c", script).ok()
	s.killTree()
	s.wait()
	return out
}

// TestPortDownOfCM: the port goes down while two programs of RDMA CM exchange messages. A queue
// pair runs out of retries.
func TestPortDownOfCM(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "rping", "stdbuf")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	port := strconv.Itoa(d.host.nextPort())
	rping := []string{"stdbuf", "-oL", "rping", "-v", "-C", "1000000", "-a", d.host.addr, "-p", port}
	s := d.run(t, append(rping, "-s")...)
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	topology{daemon: d}.await(t, listensCM, s, n)
	c := d.run(t, append(rping, "-c")...)
	if !until(programLimit, func() bool { return c.ended() || strings.Contains(c.out.String(), "rdma-ping-3") }) || c.ended() {
		t.Fatal(c.describe())
	}
	start(t, d.host, d.env(), gorxe, "fault", "add", "--pid", strconv.Itoa(c.cmd.Process.Pid), "port down,scope=device").ok()
	// The end with work under way fails. The other one waits for a message, and does not hear of
	// it.
	const says = "cq completion failed status 12"
	if !until(programLimit, func() bool { return strings.Contains(c.out.String()+s.out.String(), says) }) {
		t.Errorf("the client:\n%s\nthe server:\n%s", tail(c.out.String()), tail(s.out.String()))
	}
	for _, p := range []*proc{c, s} {
		p.killTree()
		p.wait()
	}
}

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// threeHosts is a lab whose client talks to a server by its name, leaves a process behind, and
// fails.
const threeHosts = `
topology:
  nodes:
    server: {kind: linux, cmd: [ibv_rc_pingpong, -g, "1", -n, "20"]}
    client: {kind: linux, wait-for: [server]}
    idle: {kind: linux, cmd: exec sleep 1000, background: true}
    leaf: {kind: bridge}
  links:
    - {endpoints: ["server:eth1", leaf], latency: 1us}
    - endpoints: ["client:eth1", leaf]
    - {endpoints: ["idle:eth1", leaf], loss: 1%}
`

// TestLab: programs of three hosts at a switch meet. The lab's exit code is the worst, one verdict
// and one capture are about all hosts, and nothing of the lab is left.
func TestLab(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong", "sleep")
	if !selection.takes(core) {
		return
	}
	j := newTrial(t)
	dir := filepath.Dir(j.dir)
	file, capture, left := filepath.Join(dir, "lab.yml"), filepath.Join(dir, "lab.pcapng"), filepath.Join(dir, "left")
	// it can be read once, as "<(make-lab)" of a shell
	must.OK(t, unix.Mkfifo(file, 0o644))
	go os.WriteFile(file, []byte(threeHosts), 0o644) //nolint:errcheck // the lab lacks it then
	const client = `ibv_rc_pingpong -g 1 -n 20 server; echo "$(uname -n) $GORXE_RANK of $GORXE_HOSTS"; sleep 1000 & echo $! >$0
echo in | $1 rsh idle 'read x; ls /sys/class/infiniband; echo "$x $(uname -n)"; exit 3'; echo "rsh: $?"; $1 rsh none true; exit 7`
	p := start(t, j.host, []string{"TMPDIR=" + dir}, gorxe, "lab", "--verdict", j.dir, "--pcap", capture, file, "--", "sh", "-c", client, left, gorxe)
	if code := p.wait(); code != 7 {
		t.Errorf("exit code %d\n%s", code, p.out.String())
	}
	for _, says := range []string{"server: 20 iters in ", "client: 20 iters in ", "client: client 1 of server,client,idle\n", "client: rxe0\n", "client: in idle\n", "client: rsh: 3\n", "none: the lab has no such host"} {
		if !strings.Contains(p.out.String(), says) {
			t.Errorf("%q is missing in:\n%s", says, p.out.String())
		}
	}
	j.has(t, "# Verdict: the program of client failed with exit status 7\n", "| server | 10.0.1.1 |", "| the lab ended it |", "10.0.1.1 obeyed it, in ", "10.0.1.2 obeyed it, in ")
	// a busy machine may send packets again
	obeyed := regexp.MustCompile(` 2 flows: ([^;\n]*; )?0 violations`)
	if out, err := exec.Command(gorxe, "pcap", "check", capture).CombinedOutput(); err != nil || !obeyed.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	pid, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); !os.IsNotExist(err) {
		t.Errorf("process %s is left: %v", pid, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "gorxe-lab-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

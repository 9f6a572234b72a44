package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// TestStrace: a traced program works, and the trace shows the kernel's device.
func TestStrace(t *testing.T) {
	need(t, "strace", "ibv_devinfo")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	trace := filepath.Join(scratch, "trace")
	out := d.run(t, "strace", "-f", "-o", trace, "ibv_devinfo").ok()
	if !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("ibv_devinfo under strace:\n%s", out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"/dev/infiniband/uverbs0"`, "RDMA_VERBS_IOCTL", "makedev(0xe7, 0xc0)"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the trace has no %s", want)
		}
	}
	o := topology{server: d.traced, client: d.traced, host: d.host, device: "rxe0"}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50").good(t)
	o.exchange(t, "ibv_srq_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50", "-e").good(t)
}

func (d *daemon) traced(t *testing.T, argv ...string) *proc {
	t.Helper()
	return d.run(t, append([]string{"strace", "-f", "-o", "/dev/null"}, argv...)...)
}

// TestGdb: a debugged program works, with a stop in the middle of a call of
// libibverbs.
func TestGdb(t *testing.T) {
	need(t, "gdb", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	debugged := func(t *testing.T, argv ...string) *proc {
		return d.run(t, append([]string{"gdb", "-nx", "-batch", "-return-child-result",
			"-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on",
			"-ex", "break ibv_create_qp", "-ex", "run", "-ex", "info registers rip", "-ex", "delete", "-ex", "continue",
			"--args"}, argv...)...)
	}
	o := topology{server: debugged, client: d.run, host: d.host, device: "rxe0"}
	out := o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50")
	out.good(t)
	if !strings.Contains(out.server.Out, "Breakpoint 1") || !strings.Contains(out.server.Out, "exited normally") {
		t.Errorf("gdb:\n%s", out.server.Out)
	}
}

// TestBash: pipes, redirections, background jobs, subshells, a trapped signal and
// exit statuses, all under one `gorxe run`.
func TestBash(t *testing.T) {
	need(t, "bash", "ibv_devices")
	if !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	script := `
set -eu -o pipefail
test "$(ibv_devices | grep -c rxe0)" = 1
ibv_devinfo -d rxe0 | sed -n 's/.*state:\s*//p' | grep -q PORT_ACTIVE
ls /sys/class/infiniband | xargs -n1 test rxe0 =
cat /sys/class/infiniband/*/ports/1/gids/1 | while IFS= read -r gid; do test "$gid" = 0000:0000:0000:0000:0000:ffff:0a58:0001; done
find /sys/class/infiniband/rxe0/ -name state -exec cat {} + | grep -q ACTIVE
test -c /dev/infiniband/uverbs0; test -r /dev/infiniband/uverbs0; test ! -e /dev/infiniband/uverbs7
test "$(cat /sys/class/infiniband/rxe0/ports/1/lid)" = 0x0
cat < /sys/class/infiniband/rxe0/ports/1/link_layer | grep -q Ethernet
for i in 1 2 3 4; do (ibv_devinfo > /dev/null; echo "job $i") & done
wait
trap 'echo trapped' USR1; kill -USR1 $$
got=0; (exit 7) || got=$?; test $got = 7
exec 9</dev/infiniband/uverbs0; exec 9<&-
exec ibv_devinfo -l
`
	out := d.run(t, "bash", "-c", script).ok()
	for _, want := range []string{"job 1", "job 2", "job 3", "job 4", "trapped", "1 HCA found"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if code := d.run(t, "bash", "-c", "exit 42").wait(); code != 42 {
		t.Errorf("exit status %d, not 42", code)
	}
	if code := d.run(t, "bash", "-c", "kill -TERM $$").wait(); code != -15 {
		t.Errorf("exit status %d, not that of SIGTERM", code)
	}
}

// TestManyPairs: 50 pairs of programs at once, under one `gorxe run`.
func TestManyPairs(t *testing.T) {
	need(t, "bash", "ibv_rc_pingpong")
	if !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pairs := 50
	if race.Enabled {
		pairs = 8
	}
	var script strings.Builder
	for i := range pairs {
		port := d.host.nextPort()
		tool := []string{"rc", "uc", "ud", "srq"}[i%4]
		// They wait for events: a hundred programs that poll would only get into
		// each other's way on a small machine.
		fmt.Fprintf(&script, "%s=pair %s %d %s ibv_%s_pingpong -d rxe0 -g 1 -p %d -c -e -n 100 -s 1024 &\n",
			roleEnv, self, port, d.host.addr, tool, port)
	}
	script.WriteString("failed=0; for job in $(jobs -p); do wait $job || failed=$((failed+1)); done; echo failed=$failed\n")
	out := d.run(t, "bash", "-c", script.String()).ok()
	if !strings.Contains(out, "failed=0\n") || strings.Count(out, "100 iters in") != 2*pairs {
		t.Errorf("%d of %d pairs ended well:\n%s", strings.Count(out, "100 iters in")/2, pairs, out)
	}
}

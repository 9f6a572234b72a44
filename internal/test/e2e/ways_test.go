package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// nobody is an ordinary user, with a runtime directory.
func nobody(t *testing.T, h *host) (*host, []string) {
	t.Helper()
	const uid = 65534
	dir, err := os.MkdirTemp(scratch, "nobody-")
	if err != nil {
		t.Fatal(err)
	}
	if oneUser { // an ordinary user already
		return h, []string{"GORXE_SOCKET=" + filepath.Join(dir, "gorxe.sock")}
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return h.as(uid, uid), []string{"XDG_RUNTIME_DIR=" + dir, "HOME=" + dir}
}

// TestPrivateDaemon: an ordinary user without a daemon. The first `gorxe run`
// brings an engine, a second one joins it, and when the last has ended nothing is
// left: no process, no socket that answers.
func TestPrivateDaemon(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	if !selection.takes(core) {
		return
	}
	a, _ := twoHosts(t, 1500)
	user, env := nobody(t, a)
	run := func(t *testing.T, argv ...string) *proc {
		return start(t, user, env, append([]string{gorxe, "run", "--device", "rxe0=eth0", "--"}, argv...)...)
	}
	o := topology{server: run, client: run, host: user}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "200").good(t)
	o.exchange(t, "ibv_ud_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "2", "-c", "-e", "-n", "200", "-s", "1024").good(t)
	gone := func() bool { return start(t, user, env, gorxe, "status").wait() != 0 }
	if !until(programLimit, gone) {
		t.Errorf("the engine of the last gorxe run still answers")
	}
	if out := start(t, user, env, gorxe, "status").out.String(); strings.Contains(out, "goroutine") {
		t.Errorf("gorxe status: %s", out)
	}
}

// TestPrivateJoined: the device of a `gorxe run` is that of those which come after
// it, with no word on the command line, and stays theirs when the first has ended.
func TestPrivateJoined(t *testing.T) {
	need(t, "ib_write_bw", "ibv_devices")
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	someone, env := nobody(t, a)
	gorxeRun := func(flags ...string) launch {
		return func(t *testing.T, argv ...string) *proc {
			t.Helper()
			return start(t, someone, env, slices.Concat([]string{gorxe, "run"}, flags, []string{"--"}, argv)...)
		}
	}
	join := gorxeRun()
	first := gorxeRun("--device", "rxe7=eth0")(t, "sh", "-c", "ibv_devices; sleep 1000")
	if !until(programLimit, func() bool { return first.ended() || strings.Contains(first.out.String(), "rxe7") }) || first.ended() {
		t.Fatalf("%s", first.describe())
	}
	if list := join(t, "ibv_devices").ok(); list != first.out.String() {
		t.Errorf("the second gorxe run sees\n%s\nthe first\n%s", list, first.out.String())
	}
	if code := gorxeRun("--device", "rxe8=eth0")(t, "true").wait(); code != 125 {
		t.Errorf("gorxe run with a device that the daemon has not ended with %d", code)
	}
	port := someone.nextPort()
	argv := []string{"ib_write_bw", "-d", "rxe7", "-x", "1", "-F", "-n", "100", "-p", strconv.Itoa(port)}
	server := join(t, argv...)
	server.listening(port)
	status := start(t, someone, env, gorxe, "status", "--json").ok()
	if !strings.Contains(status, "sleep 1000") || !strings.Contains(status, "ib_write_bw") {
		t.Errorf("gorxe status does not know both programs:\n%s", status)
	}
	first.killProgram("sleep")
	first.wait()
	join(t, append(argv, someone.addr)...).ok()
	server.ok()
	if !until(programLimit, func() bool { return start(t, someone, env, gorxe, "status").wait() != 0 }) {
		t.Error("the engine of the last gorxe run still answers")
	}
}

// TestPrivateOneByOne: the engine of a `gorxe run` that has just ended is not in the
// way of one at another socket.
func TestPrivateOneByOne(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	user, env := nobody(t, a)
	dir, err := os.MkdirTemp(scratch, "sockets-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		start(t, user, env, gorxe, "run", "--device", "rxe0=eth0", "--socket", filepath.Join(dir, name), "--", "true").ok()
	}
}

// TestSocketGroup: members of the group may attach, and others hear what they can
// do.
func TestSocketGroup(t *testing.T) {
	need(t, "ibv_devinfo")
	if !selection.takes(standard) {
		return
	}
	if oneUser {
		t.Log("not as an ordinary user: it takes root to be two others")
		return
	}
	const group = 100
	g, err := user.LookupGroupId(strconv.Itoa(group))
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-group", g.Name)
	member, other := a.as(65534, 65534), a.as(65533, 65533)
	member.cred.Groups = []uint32{group}
	if out := d.runAs(t, member, "ibv_devinfo").ok(); !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("a member of %s finds\n%s", g.Name, out)
	}
	refused := d.runAs(t, other, "ibv_devinfo")
	if code := refused.wait(); code != 125 {
		t.Errorf("exit status %d for who is no member\n%s", code, refused.out.String())
	}
	for _, want := range []string{d.socket, "permission denied", "group"} {
		if !strings.Contains(refused.out.String(), want) {
			t.Errorf("who is no member is not told of %q:\n%s", want, refused.out.String())
		}
	}
}

// TestOrdinaryUsers: two users on one daemon of root's can work together, and
// neither sees the other's sessions.
func TestOrdinaryUsers(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	if oneUser {
		t.Log("not as an ordinary user: it takes root to be two others")
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-mode", "0666")
	one, two := a.as(65534, 65534), a.as(65533, 65533)
	as := func(h *host) launch {
		return func(t *testing.T, argv ...string) *proc { return d.runAs(t, h, argv...) }
	}
	o := topology{server: as(one), client: as(two), host: one}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
	o.exchange(t, "ibv_srq_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100").good(t)
	waiting := as(one)(t, "ib_write_bw", "-d", "rxe0", "-x", "1", "-p", "18999")
	waiting.listening(18999)
	for h, sees := range map[*host]bool{a: true, one: true, two: false} {
		out := start(t, h, d.env(), gorxe, "status", "--json").ok()
		if strings.Contains(out, "ib_write_bw") != sees {
			t.Errorf("user %v sees the program of user 65534: %v, want %v\n%s", h.cred, !sees, sees, out)
		}
	}
	waiting.killTree()
}

// TestFewDescriptors: with a low limit of open files.
func TestFewDescriptors(t *testing.T) {
	need(t, "prlimit", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	for _, limit := range []string{"256:256", "64:64", "32:1024"} {
		run := func(t *testing.T, argv ...string) *proc {
			return start(t, d.host, d.env(), append([]string{"prlimit", "--nofile=" + limit, gorxe, "run", "--"}, argv...)...)
		}
		o := topology{server: run, client: run, host: d.host}
		o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100").good(t)
		soft, _, _ := strings.Cut(limit, ":")
		if got := strings.TrimSpace(run(t, "bash", "-c", "ulimit -n").ok()); got != soft {
			t.Errorf("the program sees a limit of %s open files, not %s", got, soft)
		}
	}
}

// TestFewDescriptorsOfDaemon: one user takes all descriptors that it may have of a daemon with a
// low limit of open files. It is refused with the setting's name, and another user goes on.
func TestFewDescriptorsOfDaemon(t *testing.T) {
	need(t, "prlimit", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	if oneUser {
		t.Log("not as an ordinary user: it takes root to be two others")
		return
	}
	a, _ := twoHosts(t, 1500)
	const limit = 1024
	d := startDaemonAt(t, a, []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit)}, newSocket(t), "--device", "rxe0=eth0", "--socket-mode", "0666")
	honest, greedy := a.as(65534, 65534), a.as(65533, 65533)
	var taken []*proc
	refusal := ""
	for refusal == "" {
		if len(taken) > limit {
			t.Fatalf("%d sessions, and none was refused", len(taken))
		}
		p := d.runAs(t, greedy, "sh", "-c", "echo up; exec sleep 1000")
		up := func() bool { return strings.Contains(p.out.String(), "up\n") }
		if !until(programLimit, func() bool { return p.ended() || up() }) {
			t.Fatal(p.describe())
		}
		if taken = append(taken, p); !up() {
			refusal = fmt.Sprintf("exit status %d: %s", p.wait(), p.out.String())
		}
	}
	for _, part := range []string{"exit status 125", "ulimit -n", "LimitNOFILE="} {
		if !strings.Contains(refusal, part) {
			t.Errorf("after %d sessions, without %q: %s", len(taken), part, refusal)
		}
	}
	as := func(h *host) launch {
		return func(t *testing.T, argv ...string) *proc { return d.runAs(t, h, argv...) }
	}
	for _, user := range []*host{honest, a} {
		o := topology{server: as(user), client: as(user), host: user}
		o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100").good(t)
	}
	for _, p := range taken {
		p.killTree()
		p.wait()
	}
	// The daemon notices that a session has ended a moment later.
	if !until(programLimit, func() bool { return d.runAs(t, greedy, "true").wait() == 0 }) {
		t.Error("the user has given all back, and is refused")
	}
}

// TestSmallFiles: a limit of file sizes, which the files of devices would exceed, is
// lifted where that is allowed, and named where it is not.
func TestSmallFiles(t *testing.T) {
	need(t, "prlimit", "ibv_devinfo")
	if !selection.takes(standard) {
		return
	}
	user, env := nobody(t, newHost(t, "127.0.0.1"))
	run := func(limit string) *proc {
		return start(t, user, env, "prlimit", "--fsize="+limit, gorxe, "run", "--device", "rxe0=127.0.0.1", "--", "ibv_devinfo")
	}
	if out := run("1000000:unlimited").ok(); !strings.Contains(out, "PORT_ACTIVE") {
		t.Errorf("under a soft limit:\n%s", out)
	}
	// Nothing of the first may serve the second.
	if !until(programLimit, func() bool { return start(t, user, env, gorxe, "status").wait() != 0 }) {
		t.Fatal("the engine of the last gorxe run still answers")
	}
	p := run("1000000:1000000")
	if code := p.wait(); code != 125 || !strings.Contains(p.out.String(), "ulimit -f") {
		t.Errorf("under a hard limit: exit status %d\n%s", code, p.out.String())
	}
}

// TestContainer: an ordinary user's container, which has namespaces of its own for
// users, processes, mounts and the network, and neither a daemon nor an interface
// but lo.
func TestContainer(t *testing.T) {
	need(t, "unshare", "ip", "ss", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	user, env := nobody(t, newHost(t, "127.0.0.1"))
	container := []string{"unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc"}
	if p := start(t, user, env, append(container, "true")...); p.wait() != 0 {
		testenv.Missing(t, "no container for an ordinary user: %s", p.out.String())
	}
	const script = `
set -eu
ip link set lo up
exec "$0" run -- sh -euc '
ping="ibv_rc_pingpong -d rxe0 -g 1 -c -e -n 100"
$ping & server=$!
until ss -Hltn "sport = :18515" | grep -q .; do kill -0 $server; sleep 0.05; done
$ping 127.0.0.1
wait $server'
`
	if out := start(t, user, env, append(container, "sh", "-c", script, gorxe)...).ok(); strings.Count(out, "100 iters") != 2 {
		t.Errorf("a pair in a container:\n%s", out)
	}
}

// preload builds testdata/preload.c, and runs programs with it.
func (d *daemon) preloaded(t *testing.T, setting string) launch {
	t.Helper()
	need(t, "gcc")
	lib := filepath.Join(scratch, "preload.so")
	if _, err := os.Stat(lib); err != nil {
		if out, err := exec.Command("gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", lib, "testdata/preload.c", "-ldl").CombinedOutput(); err != nil {
			t.Fatalf("gcc preload.c: %v\n%s", err, out)
		}
	}
	return func(t *testing.T, argv ...string) *proc {
		t.Helper()
		return d.run(t, append([]string{"env", setting + "=1", "LD_PRELOAD=" + lib}, argv...)...)
	}
}

// TestTimerSignals: programs that a signal interrupts a thousand times a second.
func TestTimerSignals(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	run := d.preloaded(t, "E2E_TIMER")
	o := topology{server: run, client: run, host: d.host}
	for _, args := range []string{"rc -s 65536", "rc -e", "uc -e", "ud -s 1024", "srq -e"} {
		tool, rest, _ := strings.Cut(args, " ")
		argv := append([]string{"ibv_" + tool + "_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "1000"}, strings.Fields(rest)...)
		o.exchange(t, argv...).good(t)
	}
	o.exchange(t, "ib_write_bw", "-d", "rxe0", "-p", "PORT", "-x", "1", "-F", "-n", "1000", "-s", "4096").good(t)
}

// TestWriteABI: the older form of the ABI, write() commands, for everything.
func TestWriteABI(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong", "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	run := d.preloaded(t, "E2E_WRITE_ABI")
	kernel := devinfo(d.run(t, "ibv_devinfo", "-v").ok())
	for name, value := range devinfo(run(t, "ibv_devinfo", "-v").ok()) {
		// What only the newer form can ask for falls back to sysfs.
		if kernel[name] != value {
			t.Errorf("ibv_devinfo: %s is %q by write(), %q by ioctl()", name, value, kernel[name])
		}
	}
	for name, o := range map[string]topology{
		"both":   {server: run, client: run, host: d.host},
		"server": {server: run, client: d.run, host: d.host},
	} {
		for _, args := range []string{"rc -s 65536", "rc -e", "uc", "ud -s 1024", "srq -e -q 4"} {
			t.Run(name+"/"+args, func(t *testing.T) {
				tool, rest, _ := strings.Cut(args, " ")
				argv := append([]string{"ibv_" + tool + "_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100"}, strings.Fields(rest)...)
				o.exchange(t, argv...).good(t)
			})
		}
		for _, tool := range []string{"send_bw", "read_bw", "atomic_lat"} {
			t.Run(name+"/"+tool, func(t *testing.T) {
				o.exchange(t, "ib_"+tool, "-d", "rxe0", "-p", "PORT", "-x", "1", "-F", "-n", "100").good(t)
			})
		}
	}
}

// TestLook: programs that use system calls in ways of their own: a static C
// program, a Go program (whose runtime is its own C library), Python and find.
func TestLook(t *testing.T) {
	need(t, "gcc", "find", "/usr/bin/python3")
	if !selection.takes(core) {
		return
	}
	bin := filepath.Join(scratch, "look")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-static", "-o", bin, "testdata/look.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc -static look.c: %v\n%s", err, out)
	}
	d := oneDaemon(t)
	const want = "rxe0: 1: CA -> ../../devices/platform/rxe0.gorxe/infiniband/rxe0\nuverbs0: 231:192\nopen: 231:192\n"
	if out := d.run(t, bin).ok(); out != want {
		t.Errorf("a static program finds:\n%swant:\n%s", out, want)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out := d.run(t, "env", roleEnv+"=look", self).ok(); out != "rxe0: 1: CA, active\n" {
		t.Errorf("a Go program finds %q", out)
	}
	const walk = `
import os
files = [os.path.join(d, f) for d, _, fs in os.walk("/sys/class/infiniband/rxe0/") for f in fs]
text = {f: open(f, "rb").read() for f in files if not f.endswith("autosuspend_delay_ms") and "/gid_attrs/" not in f}
print(text["/sys/class/infiniband/rxe0/ports/1/state"].decode(), end="")
assert os.path.realpath("/sys/class/infiniband/rxe0/ports/1/lid") == "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0/ports/1/lid"
`
	if out := d.run(t, "/usr/bin/python3", "-c", walk).ok(); out != "4: ACTIVE\n" {
		t.Errorf("Python reads %q", out)
	}
	if out := d.run(t, "find", "-L", "/sys/class/infiniband/rxe0/ports", "-maxdepth", "2", "-name", "link_layer").ok(); out != "/sys/class/infiniband/rxe0/ports/1/link_layer\n" {
		t.Errorf("find finds %q", out)
	}
}

// playLook is what a Go program sees.
func playLook() int {
	devices, err := os.ReadDir("/sys/class/infiniband")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, e := range devices {
		kind, err := os.ReadFile("/sys/class/infiniband/" + e.Name() + "/node_type")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ports, err := os.ReadDir("/sys/class/infiniband/" + e.Name() + "/ports")
		if err != nil || len(ports) != 1 {
			fmt.Fprintln(os.Stderr, ports, err)
			return 1
		}
		state, err := os.ReadFile("/sys/class/infiniband/" + e.Name() + "/ports/" + ports[0].Name() + "/state")
		if err != nil || string(state) != "4: ACTIVE\n" {
			fmt.Fprintln(os.Stderr, string(state), err)
			return 1
		}
		fmt.Printf("%s: %s, active\n", e.Name(), strings.TrimSpace(string(kind)))
	}
	return 0
}

// TestStatus: what gorxe status says while a pair is at work.
func TestStatus(t *testing.T) {
	need(t, "ib_write_bw")
	if !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	tr := d.traffic(t, victims[0].argv...)
	b := d.books()
	if len(b.Sessions) != 2 || b.Devices[0].Objects["qp"] != 2 || b.Devices[0].Objects["mr"] != 2 {
		t.Errorf("books: %+v", b)
	}
	table := start(t, d.host, d.env(), gorxe, "status").ok()
	for _, want := range []string{"rxe0", "ACTIVE", "ib_write_bw", "RTS", "::ffff:10.88.0.1"} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("gorxe status does not say %s:\n%s", want, table)
		}
	}
	tr.client.killProgram("ib_write_bw")
	tr.server.wait()
}

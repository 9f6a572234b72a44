package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
)

// traffic is a pair of programs that would run for minutes.
type traffic struct {
	server, client *proc
}

// traffic starts perftest and returns when the client is at it: its queue pair
// sends.
func (d *daemon) traffic(t *testing.T, argv ...string) traffic {
	t.Helper()
	return d.trafficFrom(t, d, argv...)
}

// trafficFrom is traffic with a client on another daemon.
func (d *daemon) trafficFrom(t *testing.T, from *daemon, argv ...string) traffic {
	t.Helper()
	port := d.host.nextPort()
	argv = append(slices.Clone(argv), "-d", d.device(), "-F", "-x", "1", "-p", strconv.Itoa(port))
	tr := traffic{server: d.run(t, argv...)}
	tr.server.listening(port)
	before := from.sent()
	tr.client = from.run(t, append(argv, d.host.addr)...)
	if !until(programLimit, func() bool { return tr.client.ended() || from.sent() > before }) || tr.client.ended() {
		t.Fatalf("no traffic\n%s\n%s", tr.server.describe(), tr.client.describe())
	}
	return tr
}

// device is the name of the daemon's first one.
func (d *daemon) device() string {
	name, _, _ := strings.Cut(d.args[slices.Index(d.args, "--device")+1], "=")
	return name
}

// sent counts what the programs on this daemon have posted.
func (d *daemon) sent() (n uint64) {
	for _, dev := range d.books().Devices {
		n += dev.Counters["rdma_sends"] + dev.Counters["sent_pkts"]
	}
	return n
}

// killProgram kills the program that `gorxe run` started, if it has not ended.
func (p *proc) killProgram(name string) {
	p.t.Helper()
	p.signalProgram(name, syscall.SIGKILL)
}

// signalProgram signals the program that `gorxe run` started, if it has not ended.
func (p *proc) signalProgram(name string, s syscall.Signal) {
	p.t.Helper()
	for _, pid := range tree(p.cmd.Process.Pid) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) != name {
			continue
		}
		if err := syscall.Kill(pid, s); err != nil {
			p.t.Fatal(err)
		}
		return
	}
}

// victim is a pair of programs to kill one of.
type victim struct {
	argv []string
	// The other program learns of the death: a sender from its timeouts, an idle server from
	// the TCP connection. A program that only waits for messages learns nothing from any RDMA
	// device, so the test kills it as well.
	serverLearns, clientLearns bool
}

// The local ACK timeout is a quarter of perftest's own (-u 14). A program without its peer then
// gives up after half a second.
var victims = []victim{
	{[]string{"ib_write_bw", "-D", "100", "-s", "65536", "-u", "12"}, true, true},
	{[]string{"ib_send_bw", "-n", "5000000", "-N", "-s", "4096", "-e", "-u", "12"}, false, true},
	{[]string{"ib_read_bw", "-D", "100", "-s", "65536", "-u", "12"}, true, true},
	{[]string{"ib_send_lat", "-D", "100", "-s", "64", "-u", "12"}, false, false},
	{[]string{"ib_write_bw", "-D", "100", "-s", "65536", "-b", "-q", "4", "-u", "12"}, true, true},
	{[]string{"ib_atomic_bw", "-D", "100", "-u", "12"}, true, true},
}

// TestKillProgram: kill -9 of a client or a server at a random moment leaves
// nothing in the daemon, the other one ends with an error, and the next pair
// works.
func TestKillProgram(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	o := topology{server: d.run, client: d.run, host: d.host}
	rng := rand.New(rand.NewPCG(1, uint64(kills)))
	warm := 0
	kills := kills
	if doorbells == "direct" && !full {
		kills = (kills + 1) / 2
	}
	for i := range kills {
		progress(t, i, kills)
		if i == (kills+3)/4 {
			warm = d.memory(t)
		}
		v := victims[i%len(victims)]
		tr := d.traffic(t, v.argv...)
		dying, left, who, learns := tr.client, tr.server, "client", v.serverLearns
		if rng.IntN(2) == 0 {
			dying, left, who, learns = tr.server, tr.client, "server", v.clientLearns
		}
		moment := time.Duration(rng.IntN(20_000)) * time.Microsecond
		time.Sleep(moment) // not to wait for anything: when it happens is the test
		dying.killProgram(v.argv[0])
		if code := dying.wait(); code != -int(syscall.SIGKILL) {
			t.Errorf("kill %d: gorxe run ended with %d, not like its program\n%s", i, code, dying.out.String())
		}
		if !learns {
			left.killProgram(v.argv[0]) // if it still runs
		}
		if code := left.wait(); code == 0 {
			t.Errorf("kill %d: the %s of %v after %v: the other one ended without an error\n%s", i, who, v.argv, moment, left.out.String())
		}
		d.idle()
	}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50").good(t)
	now := d.memory(t)
	t.Logf("the daemon has %d KiB; after the first quarter it had %d", now, warm)
	if now > warm+32<<10 {
		t.Errorf("the daemon has %d KiB of memory after %d kills; it had %d after the first quarter", now, kills, warm)
	}
}

// retryExceeded is how perftest prints IBV_WC_RETRY_EXC_ERR, "transport retry counter
// exceeded".
const retryExceeded = "Failed status 12:"

// TestKillPeer: a program with outstanding work learns from a completion that its peer was
// killed, as if the peer had lost power.
func TestKillPeer(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if race.Enabled {
		return
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	names := []string{"one daemon", "two daemons"}
	for j, from := range []*daemon{da, db} {
		for i, tt := range []struct {
			argv   string
			server bool // is killed; else the client
		}{
			{"ib_write_bw -D 100 -s 65536 -u 12", true},
			{"ib_send_bw -n 5000000 -N -s 4096 -e -u 12", true},
			{"ib_read_bw -D 100 -s 65536 -u 12", true},
			{"ib_atomic_bw -D 100 -u 12", true},
			{"ib_write_bw -D 100 -s 65536 -b -u 12", false},
		} {
			if !selection.inTurn(standard, i, j, len(names)) {
				continue
			}
			t.Run(names[j]+"/"+tt.argv, func(t *testing.T) {
				argv := strings.Fields(tt.argv)
				tr := da.trafficFrom(t, from, argv...)
				dying, left := tr.client, tr.server
				if tt.server {
					dying, left = tr.server, tr.client
				}
				dying.killProgram(argv[0])
				dying.wait()
				if code, out := left.wait(), left.out.String(); code == 0 || !strings.Contains(out, retryExceeded) {
					t.Errorf("who is left ended with %d, and not with %q:\n%s", code, retryExceeded, out)
				}
			})
		}
	}
}

// TestKillFront: the same with the front, which is `gorxe run` itself. No process answers for its
// program then, so the program has to end, and the daemon holds nothing.
func TestKillFront(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	for i := range killsOfEach {
		progress(t, i, killsOfEach)
		tr := d.traffic(t, victims[0].argv...)
		pids := tree(tr.client.cmd.Process.Pid)
		kill(t, tr.client.cmd.Process.Pid)
		tr.client.wait()
		gone(t, pids)
		if code := tr.server.wait(); code == 0 {
			t.Errorf("the other one ended without an error\n%s", tr.server.out.String())
		}
		d.idle()
	}
}

// TestKillDaemon: kill -9 of the daemon. Its programs get errors from their
// device, gorxe run ends as they do, and the next daemon works.
func TestKillDaemon(t *testing.T) {
	besideOthers(t)
	endDaemon(t, "rxe0", max((kills+3)/4, killsOfEach), syscall.SIGKILL)
}

// TestKillDaemonMLX5: the same with programs whose queues are in their own memory, and whose
// doorbells are no calls.
func TestKillDaemonMLX5(t *testing.T) {
	besideOthers(t)
	times := 1
	if full {
		times = 2 * len(victims)
	}
	endDaemon(t, "mlx5_0", times, syscall.SIGKILL)
	endDaemon(t, "mlx5_0", times/2, syscall.SIGTERM)
}

// TestStopDaemon: a daemon that ends tells its programs. Programs that only poll their queues
// notice too.
func TestStopDaemon(t *testing.T) {
	besideOthers(t)
	endDaemon(t, "rxe0", len(victims), syscall.SIGTERM)
}

func endDaemon(t *testing.T, device string, times int, how syscall.Signal) {
	t.Helper()
	need(t, "ib_send_bw", "bash")
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	rng := rand.New(rand.NewPCG(2, uint64(times)))
	for i := range times {
		progress(t, i, times)
		v := victims[i%len(victims)]
		d := startDaemon(t, a, "--device", device+"=eth0")
		// A shell does not notice, and can start programs as before.
		over := d.socket + ".over"
		shell := d.run(t, "bash", "-c", "echo attached; while ! test -e "+over+"; do sleep 0.02; done; cat /etc/hostname; ! ibv_devices")
		tr := d.traffic(t, v.argv...)
		// One that comes later finds no daemon, and has one of its own.
		if !until(programLimit, func() bool { return shell.ended() || strings.Contains(shell.out.String(), "attached") }) || shell.ended() {
			t.Fatalf("%s", shell.describe())
		}
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond) // as above
		if err := d.cmd.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		if code := d.wait(); how == syscall.SIGTERM && code != 0 {
			t.Errorf("the daemon ended with %d\n%s", code, d.out.String())
		}
		for name, p := range map[string]*proc{"server": tr.server, "client": tr.client} {
			if err := p.waitFor(programLimit); err != nil {
				t.Errorf("%v %d: the %s of %v: %v", how, i, name, v.argv, err)
			} else if code := p.wait(); code == 0 {
				t.Errorf("%v %d: the %s of %v ended without an error\n%s", how, i, name, v.argv, p.out.String())
			}
		}
		if err := os.WriteFile(over, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if code := shell.wait(); code != 0 {
			t.Errorf("%v %d: a shell without a device ended with %d\n%s", how, i, code, shell.out.String())
		}
	}
}

// memory is what the daemon occupies, in KiB.
func (d *daemon) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "VmRSS:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmRSS in:\n%s", text)
	return 0
}

// TestStall: a program whose memory never answers blocks no other program, and can be killed.
func TestStall(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	bin := compile(t, "stall")
	d := oneDaemon(t)
	var stalled []*proc
	for i := range 8 {
		p := d.run(t, bin, "rxe0")
		if !until(programLimit, func() bool { return p.ended() || strings.Contains(p.out.String(), "stalled") }) || p.ended() {
			t.Fatalf("%s", p.describe())
		}
		stalled = append(stalled, p)
		if i > 0 && i < 7 && !full {
			continue
		}
		o := topology{server: d.run, client: d.run, host: d.host}
		for _, tool := range []string{"rc", "ud", "srq"} {
			o.exchange(t, "ibv_"+tool+"_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "50", "-s", "1024").good(t)
		}
	}
	for _, p := range stalled {
		for _, pid := range tree(p.cmd.Process.Pid)[1:] {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // its parent may have taken it along
		}
		p.wait()
	}
}

// TestLanding: fork and exec while remote WRITEs land.
func TestLanding(t *testing.T) {
	besideOthers(t)
	if !selection.takes(core) {
		return
	}
	bin := compile(t, "landing")
	rounds := 20
	if race.Enabled {
		rounds = 3
	}
	r := oneHost(t)
	for _, how := range []string{"exec", "fork"} {
		if out := r.start(t, bin, r.device, how, strconv.Itoa(rounds)).ok(); !strings.HasSuffix(out, "ok\n") {
			t.Errorf("%s: %s", how, out)
		}
	}
}

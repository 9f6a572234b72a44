package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// UCX by itself, with its own test program. It uses shared memory for processes of one host,
// whatever the network device is. So each process is in its own namespaces (unshare), as in
// a container, or UCX_TLS=ib leaves only the verbs transports.

// ucxMessages is how many messages each test sends.
const ucxMessages = 100

// ucxTests are the tests of ucx_perftest's protocol layer, with the sizes that they
// are run with: a short message, and one that goes by rendezvous.
var ucxTests = []struct {
	name  string
	sizes []int
}{
	{"tag_lat", []int{8, 65536}},
	{"tag_bw", []int{8, 65536, 1 << 20}},
	{"tag_sync_lat", []int{8}},
	{"stream_lat", []int{8}},
	{"stream_bw", []int{8, 65536}},
	{"ucp_am_lat", []int{8, 65536}},
	{"ucp_am_bw", []int{8, 65536}},
	{"ucp_put_lat", []int{8}},
	{"ucp_put_bw", []int{8, 65536}},
	{"ucp_get", []int{8, 65536}},
	{"ucp_add", []int{4, 8}},
	{"ucp_fadd", []int{4, 8}},
	{"ucp_swap", []int{4, 8}},
	{"ucp_cswap", []int{4, 8}},
}

// ucxPair is this system's ucx_perftest as a server or a client. One that is compiled with MPI, as
// in Debian 13, otherwise expects mpirun if no terminal starts it.
func ucxPair(args ...string) []string {
	argv := []string{"ucx_perftest"}
	if help, _ := exec.Command(argv[0], "-h").CombinedOutput(); strings.Contains(string(help), "MPI mode") {
		argv = append(argv, "-P", "0")
	}
	return append(argv, args...)
}

// ucxCase is one test with one size.
type ucxCase struct {
	test string
	size int
}

func (c ucxCase) String() string { return c.test + "_" + strconv.Itoa(c.size) }

func ucxCases() (cases []ucxCase) {
	for _, test := range ucxTests {
		for _, size := range test.sizes {
			cases = append(cases, ucxCase{test.name, size})
		}
	}
	return cases
}

// ucxDevices is the one setting that a user of UCX needs.
func ucxDevices(devices ...string) string {
	return "UCX_NET_DEVICES=" + strings.Join(devices, ":1,") + ":1"
}

// asContainer are words in front of a command: it gets processes and shared memory
// of its own.
var asContainer = []string{"unshare", "--ipc", "--pid", "--fork", "--kill-child"}

// oneRun is a daemon on a host that has only the loopback interface, with doorbells
// as users get them. Each address gets a device, from rxe0 on.
func oneRun(t *testing.T, addrs ...string) *daemon {
	t.Helper()
	return oneRunOf(t, "rxe", addrs...)
}

// oneRunOf is oneRun with devices of other names: mlx5_0 and so on.
func oneRunOf(t *testing.T, prefix string, addrs ...string) *daemon {
	t.Helper()
	need(t, "ip")
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	args := []string{"--doorbells", "auto"}
	for i, addr := range addrs {
		args = append(args, "--device", fmt.Sprintf("%s%d=%s", prefix, i, addr))
	}
	return startDaemon(t, h, args...)
}

// packets returns how many packets each device has received.
func (b books) packets() (n []uint64) {
	for _, d := range b.Devices {
		n = append(n, d.Counters["rcvd_pkts"])
	}
	return n
}

// carried runs f, and requires that each device of the daemon receives at least so many packets
// meanwhile. So the traffic of f went over these devices.
func (d *daemon) carried(t *testing.T, least func() uint64, f func()) {
	t.Helper()
	before := d.books().packets()
	f()
	for i, after := range d.books().packets() {
		if got, want := after-before[i], least(); got < want {
			t.Errorf("%d packets went over device %d, want %d at least", got, i, want)
		}
	}
}

// messages is the least number of packets for a number of messages.
func messages(n uint64) func() uint64 { return func() uint64 { return n } }

// ucxBatch are the arguments by which ucx_perftest runs the cases one after another, in one
// process.
func ucxBatch(t *testing.T, r release, cases []ucxCase) []string {
	t.Helper()
	var lines strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&lines, "%s -t %s -s %d -n %d -w 10\n", c, c.test, c.size, ucxMessages)
	}
	f, err := os.CreateTemp(scratch, "ucx-batch-")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(lines.String()); err != nil {
		t.Fatal(err)
	}
	return []string{"-b", r.path(f.Name())}
}

// What ucx_perftest prints of a test in a batch: its name in a border, and at its end the
// number of messages and figures.
var (
	ucxTitle = regexp.MustCompile(`^\+(\w+)[-+]`)
	ucxFinal = regexp.MustCompile(`^Final: +\d+ +[\d.]+ +`)
)

// ucxFinished wants every case to have a result in the output. ucx_perftest goes on after
// a test of a batch that failed, and succeeds.
func ucxFinished(t *testing.T, cases []ucxCase, out string) {
	t.Helper()
	finished := make(map[string]bool)
	name := ""
	for line := range strings.Lines(out) {
		if m := ucxTitle.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if ucxFinal.MatchString(line) {
			finished[name] = true
		}
	}
	for _, c := range cases {
		if !finished[c.String()] {
			t.Errorf("%s has no result in\n%s", c, out)
		}
	}
}

// TestUCX: every protocol of UCX's between two processes, in each way that two
// processes can meet.
func TestUCX(t *testing.T) {
	besideOthers(t)
	need(t, "ucx_perftest", "unshare")
	if native != "" {
		return
	}
	ways := topologies(t)
	for j, o := range ways {
		t.Run(o.name, func(t *testing.T) {
			var cases []ucxCase
			for i, c := range ucxCases() {
				if selection.inTurn(ucxRank(c.test), i, j, len(ways)) {
					cases = append(cases, c)
				}
			}
			if len(cases) == 0 {
				return
			}
			argv := slices.Concat([]string{"env", ucxDevices(o.device)}, asContainer, ucxPair(ucxBatch(t, release{}, cases)...), []string{"-p", "PORT"})
			o.daemon.carried(t, messages(ucxMessages*uint64(len(cases))), func() { ucxFinished(t, cases, o.exchange(t, argv...).good(t)) })
		})
	}
	works{"UCX: ucx_perftest", release{}.version(t, "ersion", "ucx_info", "-v"),
		"`UCX_NET_DEVICES=rxe0:1 ucx_perftest -t TEST`", ucxResult}.record(t)
}

// ucxRank: the first test is one for the race detector, too.
func ucxRank(name string) rank {
	if name == ucxTests[0].name {
		return core
	}
	return standard
}

const ucxResult = "tag matching, streams, active messages, put, get, atomics"

// TestUCXNewer is the same with a newer UCX, whose ucx_perftest is started by
// mpirun.
func TestUCXNewer(t *testing.T) {
	if !selection.takes(standard) || native != "" {
		return
	}
	r := newer(t)
	d := oneRun(t, "127.0.0.1")
	cases := ucxCases()
	argv := append([]string{"mpirun.openmpi", "--allow-run-as-root", "-n", "2", "ucx_perftest"}, ucxBatch(t, r, cases)...)
	d.carried(t, messages(ucxMessages*uint64(len(cases))), func() {
		ucxFinished(t, cases, d.run(t, slices.Concat([]string{"env", "UCX_TLS=ib", ucxDevices("rxe0")}, r.argv(argv...))...).ok())
	})
	works{"UCX: ucx_perftest", r.version(t, "ersion", "ucx_info", "-v"),
		"`UCX_TLS=ib UCX_NET_DEVICES=rxe0:1 mpirun -n 2 ucx_perftest -t TEST`", ucxResult}.record(t)
}

// TestUCXTwoDevices: a long message is striped over two devices.
func TestUCXTwoDevices(t *testing.T) {
	need(t, "ucx_perftest", "unshare")
	if !selection.takes(standard) || native != "" {
		return
	}
	const size = 1 << 20
	d := oneRun(t, "127.0.0.1", "127.0.0.2")
	o := topology{both: d.pair, host: d.host}
	least := messages(ucxMessages * size / 4096 * 2 / 5) // two fifths of them at least on each
	d.carried(t, least, func() {
		argv := slices.Concat([]string{"env", ucxDevices("rxe0", "rxe1")}, asContainer,
			ucxPair("-t", "tag_bw", "-s", strconv.Itoa(size), "-n", strconv.Itoa(ucxMessages), "-w", "10", "-p", "PORT"))
		o.exchange(t, argv...).good(t)
	})
	works{"UCX: ucx_perftest", release{}.version(t, "ersion", "ucx_info", "-v"),
		"`UCX_NET_DEVICES=rxe0:1,rxe1:1 ucx_perftest -t tag_bw`", "long messages are striped over both devices"}.record(t)
}

// secondPort is a daemon with rxe0 on the loopback interface, and rxe1 on an interface
// that can be set down.
func secondPort(t *testing.T) *daemon {
	t.Helper()
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	h.ip(t, "link add second type veth peer name cable")
	h.ip(t, "link set cable up")
	h.ip(t, "link set second addrgenmode none")
	h.ip(t, "link set second up")
	h.ip(t, "addr add 10.88.1.1/24 dev second")
	return startDaemon(t, h, "--device", "rxe0=127.0.0.1", "--device", "rxe1=second")
}

// setSecondPort sets the interface of rxe1 up or down, and waits for the port.
func (d *daemon) setSecondPort(t *testing.T, to string) {
	t.Helper()
	d.host.ip(t, "link set second %s", to)
	d.awaitSecondPort(t, map[string]string{"up": "PORT_ACTIVE", "down": "PORT_DOWN"}[to])
}

func (d *daemon) awaitSecondPort(t *testing.T, state string) {
	t.Helper()
	if !until(programLimit, func() bool { return strings.Contains(d.run(t, "ibv_devinfo", "-d", "rxe1").ok(), state) }) {
		t.Fatalf("the port of rxe1 is not %s", state)
	}
}

// TestUCXPortDown: UCX leaves out a device whose port is down when it starts, and what
// two processes of one host exchange goes on when a port goes down meanwhile. Between
// hosts UCX does not move what a lane carried to another one: its operations fail.
func TestUCXPortDown(t *testing.T) {
	besideOthers(t)
	need(t, "ucx_perftest", "unshare", "ip")
	if !selection.takes(standard) || native != "" {
		return
	}
	d := secondPort(t)
	h := d.host
	o := topology{both: d.pair, host: h}
	run := func(messages string) {
		t.Helper()
		argv := slices.Concat([]string{"env", ucxDevices("rxe0", "rxe1")}, asContainer,
			ucxPair("-t", "tag_bw", "-s", "1048576", "-n", messages, "-p", "PORT"))
		o.exchange(t, argv...).good(t)
	}
	t.Run("before", func(t *testing.T) {
		d.setSecondPort(t, "down")
		before := d.books().packets()
		run("100")
		after := d.books().packets()
		if after[0]-before[0] < 100<<20/4096 || after[1] != before[1] {
			t.Errorf("packets of the two devices: %d before, %d after", before, after)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		d.setSecondPort(t, "up")
		first := d.books().packets()[0]
		down := make(chan error, 1)
		go func() {
			until(programLimit, func() bool { return d.books().packets()[0] > first+1000 })
			down <- h.net.IP("link set second down")
		}()
		run("2000")
		if err := <-down; err != nil {
			t.Fatal(err)
		}
		d.awaitSecondPort(t, "PORT_DOWN")
	})
}

package e2e

import (
	"fmt"
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

// ucxArgs is the command line of a test.
func ucxArgs(name string, size int) []string {
	return []string{"ucx_perftest", "-t", name, "-s", strconv.Itoa(size), "-n", strconv.Itoa(ucxMessages), "-w", "10"}
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
	need(t, "ip")
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	args := []string{"--doorbells", "auto"}
	for i, addr := range addrs {
		args = append(args, "--device", fmt.Sprintf("rxe%d=%s", i, addr))
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
			t.Errorf("%d packets went over rxe%d, want %d at least", got, i, want)
		}
	}
}

// messages is the least number of packets for a number of messages.
func messages(n uint64) func() uint64 { return func() uint64 { return n } }

// TestUCX: every protocol of UCX's between two processes, in each way that two
// processes can meet.
func TestUCX(t *testing.T) {
	need(t, "ucx_perftest", "unshare")
	if native != "" {
		return
	}
	ways := topologies(t)
	for j, o := range ways {
		t.Run(o.name, func(t *testing.T) {
			i := 0
			for _, test := range ucxTests {
				for _, size := range test.sizes {
					i++
					if !selection.inTurn(ucxRank(test.name), i, j, len(ways)) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d", test.name, size), func(t *testing.T) {
						argv := slices.Concat([]string{"env", ucxDevices(o.device)}, asContainer, ucxArgs(test.name, size), []string{"-p", "PORT"})
						o.daemon.carried(t, messages(ucxMessages), func() { o.exchange(t, argv...).good(t) })
					})
				}
			}
		})
	}
	works{"UCX: ucx_perftest", release{}.version(t, "Version ", "ucx_info", "-v"),
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
	for _, test := range ucxTests {
		for _, size := range test.sizes {
			t.Run(fmt.Sprintf("%s/%d", test.name, size), func(t *testing.T) {
				argv := append([]string{"mpirun.openmpi", "--allow-run-as-root", "-n", "2"}, ucxArgs(test.name, size)...)
				d.carried(t, messages(ucxMessages), func() {
					d.run(t, slices.Concat([]string{"env", "UCX_TLS=ib", ucxDevices("rxe0")}, r.argv(argv...))...).ok()
				})
			})
		}
	}
	works{"UCX: ucx_perftest", r.version(t, "version: ", "ucx_info", "-v"),
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
		argv := slices.Concat([]string{"env", ucxDevices("rxe0", "rxe1")}, asContainer, ucxArgs("tag_bw", size), []string{"-p", "PORT"})
		o.exchange(t, argv...).good(t)
	})
	works{"UCX: ucx_perftest", release{}.version(t, "Version ", "ucx_info", "-v"),
		"`UCX_NET_DEVICES=rxe0:1,rxe1:1 ucx_perftest -t tag_bw`", "long messages are striped over both devices"}.record(t)
}

// TestUCXPortDown: UCX leaves out a device whose port is down when it starts, and what
// two processes of one host exchange goes on when a port goes down meanwhile. Between
// hosts UCX does not move what a lane carried to another one: its operations fail.
func TestUCXPortDown(t *testing.T) {
	need(t, "ucx_perftest", "unshare", "ip")
	if !selection.takes(standard) || native != "" {
		return
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	h.ip(t, "link add second type veth peer name cable")
	h.ip(t, "link set cable up")
	h.ip(t, "link set second addrgenmode none")
	h.ip(t, "link set second up")
	h.ip(t, "addr add 10.88.1.1/24 dev second")
	d := startDaemon(t, h, "--device", "rxe0=127.0.0.1", "--device", "rxe1=second")
	o := topology{both: d.pair, host: h}
	run := func(messages string) {
		t.Helper()
		argv := slices.Concat([]string{"env", ucxDevices("rxe0", "rxe1")}, asContainer,
			[]string{"ucx_perftest", "-t", "tag_bw", "-s", "1048576", "-n", messages, "-p", "PORT"})
		o.exchange(t, argv...).good(t)
	}
	state := func(want string) {
		t.Helper()
		if !until(programLimit, func() bool { return strings.Contains(d.run(t, "ibv_devinfo", "-d", "rxe1").ok(), want) }) {
			t.Fatalf("the port of rxe1 is not %s", want)
		}
	}
	t.Run("before", func(t *testing.T) {
		h.ip(t, "link set second down")
		state("PORT_DOWN")
		before := d.books().packets()
		run("100")
		after := d.books().packets()
		if after[0]-before[0] < 100<<20/4096 || after[1] != before[1] {
			t.Errorf("packets of the two devices: %d before, %d after", before, after)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		h.ip(t, "link set second up")
		state("PORT_ACTIVE")
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
		state("PORT_DOWN")
	})
}

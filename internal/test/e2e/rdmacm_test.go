package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/early"
)

// cmPair is a server and a client that connect through librdmacm. In their arguments HOST
// stands for the server's address, PORT for a port, MINE for the client's address, and
// SCRATCH for a directory.
type cmPair struct {
	name           string
	rank           rank
	server, client string
	ready          readiness
	forever        bool   // the server does not end by itself
	want           string // a regular expression: what the client prints
	wantServer     string // and the server
}

// limit is how long the client may take.
func (c *cmPair) limit() time.Duration {
	if c.rank == complete {
		return 20 * programLimit // all sizes of rstream: 1.8 million messages, one after another
	}
	return programLimit
}

// readiness is how a test knows that a server waits for its client.
type readiness uint8

const (
	listensCM  readiness = iota // an id listens
	listensTCP                  // a socket listens at PORT
	inGroup                     // a queue pair is in a multicast group
)

// standardPort is where programs without an option for the port listen.
const standardPort = 7174

// cmPrograms are the programs of rdmacm-utils, and others that use RDMA CM. Each once with
// each way of using the library that it has.
var cmPrograms = []cmPair{
	{"rping", core, "rping -s -a HOST -p PORT -C 10 -v", "rping -c -a HOST -p PORT -C 10 -v", listensCM, false, `(?s)ping data: rdma-ping-0.*ping data: rdma-ping-9`, `server ping data: rdma-ping-9`},
	{"rping 1000", standard, "rping -s -a HOST -p PORT -C 1000 -V", "rping -c -a HOST -p PORT -C 1000 -V", listensCM, false, ``, ``},
	{"rping own qp", standard, "rping -s -a HOST -p PORT -C 10 -q -v", "rping -c -a HOST -p PORT -C 10 -q -v", listensCM, false, `ping data: rdma-ping-9`, ``},
	{"rping persistent", standard, "rping -s -P -a HOST -p PORT", "sh -c 'for i in 1 2 3; do rping -c -a HOST -p PORT -C 5 -v || exit; done'", listensCM, true, `(?s)ping-4.*ping-4.*ping-4`, ``},
	{"rping any", standard, "rping -s -p PORT -C 5", "rping -c -a HOST -p PORT -C 5 -v", listensCM, false, `ping-4`, ``},
	{"rping IPv6", standard, "rping -s -a fd88::1 -p PORT -C 10 -v", "rping -c -a fd88::1 -p PORT -C 10 -v", listensCM, false, `ping data: rdma-ping-9`, ``},
	{"rping link-local", standard, "rping -s -a fe80::1%eth0 -p PORT -C 10 -v", "rping -c -a fe80::1%eth0 -p PORT -C 10 -v", listensCM, false, `ping data: rdma-ping-9`, ``},
	{"ucmatose", standard, "ucmatose -p PORT -c 50", "ucmatose -s HOST -p PORT -c 50", listensCM, false, `return status 0`, `return status 0`},
	{"ucmatose migrate", standard, "ucmatose -p PORT -c 5 -m", "ucmatose -s HOST -p PORT -c 5 -m", listensCM, false, `return status 0`, `return status 0`},
	{"ucmatose tos", complete, "ucmatose -p PORT -t 32", "ucmatose -s HOST -p PORT -t 32 -b MINE", listensCM, false, `return status 0`, `return status 0`},
	{"cmtime", standard, "cmtime -p PORT -c 100", "cmtime -s HOST -p PORT -c 100", listensCM, true, `(?m)^connect +`, ``},
	{"udaddy", standard, "udaddy -c 3", "udaddy -s HOST -c 3", listensCM, false, `return status 0`, `return status 0`},
	{"mckey", standard, "mckey -m 239.1.1.1 -b HOST", "mckey -s -m 239.1.1.1 -b MINE", inGroup, false, `return status 0`, `receiving data transfers`},
	{"rdma_client", standard, "rdma_server -p PORT", "rdma_client -s HOST -p PORT", listensCM, false, `rdma_client: end 0`, `rdma_server: end 0`},
	{"rstream", standard, "rstream -p PORT -S 4096 -C 100", "rstream -s HOST -p PORT -S 4096 -C 100", listensCM, false, `4k`, ``},
	{"rstream verified", complete, "rstream -p PORT -S 4096 -C 100 -T v", "rstream -s HOST -p PORT -S 4096 -C 100 -T v", listensCM, false, `4k`, ``},
	{"rstream blocking", complete, "rstream -p PORT -S 4096 -C 100 -T b", "rstream -s HOST -p PORT -S 4096 -C 100 -T b", listensCM, false, `4k`, ``},
	{"rstream nonblocking", standard, "rstream -p PORT -S 4096 -C 100 -T n", "rstream -s HOST -p PORT -S 4096 -C 100 -T n", listensCM, false, `4k`, ``},
	{"riostream", standard, "riostream -p PORT -S 4096 -C 100", "riostream -s HOST -p PORT -S 4096 -C 100", listensCM, false, `4k`, ``},
	{"rcopy", standard, "rcopy -p PORT", "sh -c 'head -c 3000000 /dev/urandom > SCRATCH/from && rcopy SCRATCH/from HOST:SCRATCH/to -p PORT && cmp SCRATCH/from SCRATCH/to && echo same'", listensCM, true, `same`, ``},
	{"ib_write_bw", core, "ib_write_bw -R -p PORT -F -n 100", "ib_write_bw -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_write_lat", standard, "ib_write_lat -R -p PORT -F -n 100", "ib_write_lat -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_read_bw", standard, "ib_read_bw -R -p PORT -F -n 100", "ib_read_bw -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_read_lat", complete, "ib_read_lat -R -p PORT -F -n 100", "ib_read_lat -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_send_bw", standard, "ib_send_bw -R -p PORT -F -n 100", "ib_send_bw -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_send_bw UD", standard, "ib_send_bw -R -c UD -p PORT -F -n 100", "ib_send_bw -R -c UD -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_send_lat", complete, "ib_send_lat -R -p PORT -F -n 100", "ib_send_lat -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_atomic_bw", complete, "ib_atomic_bw -R -p PORT -F -n 100", "ib_atomic_bw -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"ib_atomic_lat", complete, "ib_atomic_lat -R -p PORT -F -n 100", "ib_atomic_lat -R -p PORT -F -n 100 HOST", listensCM, false, tableRow.String(), ``},
	{"qperf", standard, "qperf -lp PORT", "qperf HOST -lp PORT -cm 1 -cp 1 -t 1 rc_bw rc_lat", listensTCP, true, `(?s)rc_bw:.*rc_lat:`, ``},
	// By number, because an alarm may interrupt ibv_req_notify_cq (docs/rdma-cm.md).
	{"qperf events", standard, "qperf -lp PORT", "qperf HOST -lp PORT -cm 1 -n 2000 rc_bw", listensTCP, true, `rc_bw:`, ``},
	{"fi_pingpong", standard, "fi_pingpong -p verbs -e msg -B PORT", "fi_pingpong -p verbs -e msg -P PORT HOST", listensTCP, false, `1m`, ``},
}

// cmAllSizes are the longest runs of rsockets.
var cmAllSizes = []cmPair{
	{"rstream blocking", complete, "rstream -p PORT -S all -T b", "rstream -s HOST -p PORT -S all -T b", listensCM, false, `6m_bw`, ``},
	{"rstream nonblocking", complete, "rstream -p PORT -S all -T n", "rstream -s HOST -p PORT -S all -T n", listensCM, false, `6m_bw`, ``},
	{"riostream blocking", complete, "riostream -p PORT -S all -T b", "riostream -s HOST -p PORT -S all -T b", listensCM, false, `6m_bw`, ``},
	{"riostream nonblocking", complete, "riostream -p PORT -S all -T n", "riostream -s HOST -p PORT -S all -T n", listensCM, false, `6m_bw`, ``},
}

// TestRSocketsAllSizes: rsockets move messages of every size, with the doorbells that users get.
// If both programs poll on two processors, and both have trapped doorbells, a message takes up
// to a millisecond (docs/doorbells.md).
func TestRSocketsAllSizes(t *testing.T) {
	if native != "" || !selection.takes(complete) {
		return
	}
	o := topologies(t, "--doorbells", "auto")[0] // one run
	for _, c := range cmAllSizes {
		t.Run(c.name, func(t *testing.T) { o.connect(t, c) })
	}
}

// TestRDMACM: programs connect by address, in each way that two programs can meet.
func TestRDMACM(t *testing.T) {
	besideOthers(t)
	need(t, "rping", "qperf", "fi_pingpong", "ib_write_bw")
	if native != "" {
		return
	}
	ways := topologies(t)
	for j, o := range ways {
		for i, c := range cmPrograms {
			if !selection.inTurn(c.rank, i, j, len(ways)) {
				continue
			}
			if c.name == newerCMOnly[0].name && rdmaCoreHere(t) >= 56 {
				c = newerCMOnly[0]
			}
			t.Run(o.name+"/"+c.name, func(t *testing.T) { o.connect(t, c) })
		}
	}
	version := func(word string, argv ...string) string { return release{}.version(t, word, argv...) }
	const utils = "rping, ucmatose, cmtime, udaddy, mckey, rdma_client, rstream, riostream, rcopy"
	for _, w := range []works{
		{"rdmacm-utils", version("", "dpkg-query", "-W", "-f", "${Version}", "rdmacm-utils"),
			"`rping -s -a ADDRESS`, and `rping -c -a ADDRESS`", utils},
		{"perftest with RDMA CM", version("Version: ", "sh", "-c", "ib_write_bw --version || true"),
			"`ib_write_bw -R`, and `ib_write_bw -R ADDRESS`", "every bandwidth and latency program; UD, too"},
		{"qperf", version("qperf ", "qperf", "--version"), "`qperf ADDRESS -cm 1 -cp 1 TEST`", "RC bandwidth and latency over RDMA CM"},
		{"libfabric: fi_pingpong", version("libfabric: ", "fi_info", "--version"),
			"`fi_pingpong -p verbs -e msg ADDRESS`", "message endpoints of the verbs provider"},
	} {
		w.record(t)
	}
}

// connect runs a pair.
func (o topology) connect(t *testing.T, c cmPair) {
	t.Helper()
	port := o.host.nextPort()
	if !strings.Contains(c.server, "PORT") {
		port = standardPort
	}
	dir := t.TempDir()
	mine := o.host.addr
	if o.peer != nil {
		mine = o.peer.addr
	}
	fill := func(line string) string {
		return strings.NewReplacer("HOST", o.host.addr, "PORT", strconv.Itoa(port), "MINE", mine, "SCRATCH", dir).Replace(line)
	}
	run := func() outcome {
		if o.both != nil {
			return o.connectInOne(t, c, port, dir, fill(c.server), fill(c.client))
		}
		return o.connectInTwo(t, c, port, fill(c.server), fill(c.client))
	}
	out := run()
	for n := 0; n < early.Runs && early.Client(out.client.Code, out.client.Out); n++ {
		out = run()
	}
	out.good(t)
	for _, x := range []struct{ name, want, got string }{{"client", c.want, out.client.Out}, {"server", c.wantServer, out.server.Out}} {
		if x.want != "" && !regexp.MustCompile(x.want).MatchString(x.got) {
			t.Errorf("the %s did not print %q:\n%s", x.name, x.want, x.got)
		}
	}
}

// connectInTwo runs a pair, each under a `gorxe run` of its own. A server whose client fails
// is killed.
func (o topology) connectInTwo(t *testing.T, c cmPair, port int, server, client string) (out outcome) {
	t.Helper()
	s := o.server(t, words(server)...)
	o.await(t, c.ready, s, port)
	p := o.client(t, words(client)...)
	if err := p.waitFor(c.limit()); err != nil {
		t.Fatal(err)
	}
	out.client = result{Code: p.wait(), Out: p.out.String()}
	if c.forever || out.client.Code != 0 {
		s.killTree()
		s.wait()
	} else {
		out.server.Code = s.wait()
	}
	out.server.Out = s.out.String()
	return out
}

// words splits a command line, which may be one of the shell.
func words(line string) []string {
	if strings.HasPrefix(line, "sh ") {
		return []string{"sh", "-c", "exec " + line}
	}
	return strings.Fields(line)
}

// pairScript runs two command lines, the second when a file appears, and kills the first if
// the second fails. Files get what both write. The script prints their exit statuses.
const pairScript = `server=$1 client=$2 dir=$3 forever=$4
sh -c "exec $server" > "$dir/server" 2>&1 & pid=$!
until test -e "$dir/ready"; do sleep 0.01; done
sh -c "exec $client" > "$dir/client" 2>&1; c=$?
if test "$forever" = true -o $c != 0; then kill $pid; wait $pid 2>/dev/null; s=0; else wait $pid; s=$?; fi
echo result: $s $c`

// connectInOne runs a pair under one `gorxe run`.
func (o topology) connectInOne(t *testing.T, c cmPair, port int, dir, server, client string) (out outcome) {
	t.Helper()
	// of a run before
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	p := o.daemon.run(t, "sh", "-c", pairScript, "sh", server, client, dir, strconv.FormatBool(c.forever))
	o.await(t, c.ready, p, port)
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.waitFor(c.limit()); err != nil {
		t.Fatal(err)
	}
	code := p.wait()
	for name, r := range map[string]*result{"server": &out.server, "client": &out.client} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		r.Out = string(text)
	}
	_, text, _ := strings.Cut(p.out.String(), "result: ")
	if n, err := fmt.Sscan(text, &out.server.Code, &out.client.Code); n != 2 || code != 0 {
		t.Fatalf("%v: exit status %d\n%s", err, code, p.out.String())
	}
	return out
}

// await waits until the server p is ready.
func (o topology) await(t *testing.T, how readiness, p *proc, port int) {
	t.Helper()
	if how == listensTCP {
		p.listening(port)
		return
	}
	ready := func() bool {
		b := o.daemon.books()
		if how == inGroup {
			return b.inGroup()
		}
		return b.listens(port)
	}
	if !until(programLimit, func() bool { return p.ended() || ready() }) || p.ended() {
		t.Fatalf("%s is not ready\n%s", p.name, p.describe())
	}
}

// listens reports whether an id of RDMA CM listens at a port.
func (b books) listens(port int) bool {
	for _, s := range b.Sessions {
		for _, id := range s.CMIDs {
			if id.State == "LISTEN" && strings.HasSuffix(id.Local, ":"+strconv.Itoa(port)) {
				return true
			}
		}
	}
	return false
}

// inGroup reports whether a queue pair is in a multicast group.
func (b books) inGroup() bool {
	for _, s := range b.Sessions {
		for _, p := range s.Processes {
			for _, f := range p.Files {
				for _, q := range f.QPs {
					if len(q.Groups) > 0 {
						return true
					}
				}
			}
		}
	}
	return false
}

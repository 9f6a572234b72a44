package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/early"
	"github.com/gorxe/gorxe/internal/test/interop/agent"
	"github.com/gorxe/gorxe/wire"
)

// cmSection has the cases of RDMA CM in the table.
const cmSection = "RDMA CM"

// cmCase is a server and a client that connect through librdmacm. HOST stands for the
// server's address, PORT for a port, MINE for the client's address, ANY for all addresses of
// the family, SCRATCH for a directory.
type cmCase struct {
	name           string
	server, client string
	ready          readiness
	forever        bool   // the server does not end by itself
	want           string // a regular expression: what the client prints
	check          string // a script on the server's machine, which must succeed
	quick          family // of the quick run; "" for none
	long           bool   // takes minutes in an emulated machine
	ipv4           bool   // the program, or multicast over RoCE v2, has no IPv6
}

// readiness is how a test knows that a server waits for its client.
type readiness uint8

const (
	listensCM  readiness = iota // an id of RDMA CM listens at the port
	listensTCP                  // a socket does
	says                        // the server has printed "receiving"
)

// standardPort is where programs without an option for the port listen.
const standardPort = 7174

// cmCases are the programs of rdmacm-utils, and others that use RDMA CM, once with each way
// of using the library that they have.
var cmCases = []cmCase{
	{name: "rping", server: "rping -s -a HOST -p PORT -C 20 -V", client: "rping -c -a HOST -p PORT -C 20 -V -v", want: `ping data: rdma-ping-19`, quick: ipv4},
	{name: "rping, 1000 times", server: "rping -s -a HOST -p PORT -C 1000 -V", client: "rping -c -a HOST -p PORT -C 1000 -V -v", want: `ping data: rdma-ping-999`},
	{name: "rping, own queue pair", server: "rping -s -a HOST -p PORT -C 5 -q", client: "rping -c -a HOST -p PORT -C 5 -q -v", want: `ping data: rdma-ping-4`, quick: ipv6},
	{name: "rping, wildcard listener", server: "rping -s -a ANY -p PORT -C 5", client: "rping -c -a HOST -p PORT -C 5 -v", want: `ping data: rdma-ping-4`},
	{name: "rping, persistent server", server: "rping -s -P -a HOST -p PORT", client: "sh -c 'for i in 1 2 3; do rping -c -a HOST -p PORT -C 5 -v || exit; done'",
		forever: true, want: `(?s)rdma-ping-4.*rdma-ping-4.*rdma-ping-4`},
	{name: "ucmatose, 10 connections", server: "ucmatose -b HOST -p PORT -c 10", client: "ucmatose -s HOST -p PORT -c 10", want: `return status 0`, quick: ipv4},
	{name: "ucmatose, 50 connections", server: "ucmatose -b HOST -p PORT -c 50", client: "ucmatose -s HOST -p PORT -c 50", want: `return status 0`},
	{name: "ucmatose, migrated ids", server: "ucmatose -b HOST -p PORT -c 3 -m", client: "ucmatose -s HOST -p PORT -c 3 -m", want: `return status 0`},
	{name: "udaddy", server: "udaddy -b HOST -c 3", client: "udaddy -s HOST -c 3", want: `return status 0`, quick: ipv4},
	{name: "mckey, multicast", server: "stdbuf -oL mckey -m 239.1.1.1 -b HOST", client: "mckey -s -m 239.1.1.1 -b MINE", ready: says, want: `return status 0`, ipv4: true},
	{name: "cmtime, 100 connections", server: "cmtime -p PORT -c 100", client: "cmtime -s HOST -p PORT -c 100", forever: true, want: `(?m)^connect +`},
	{name: "rdma_client", server: "rdma_server -p PORT", client: "rdma_client -s HOST -p PORT", want: `rdma_client: end 0`, quick: ipv4, ipv4: true},
	{name: "rstream", server: "rstream -b HOST -p PORT -S 4096 -C 20", client: "rstream -s HOST -p PORT -S 4096 -C 20", want: `4k`, quick: ipv4},
	{name: "rstream, all sizes", server: "rstream -b HOST -p PORT -S all", client: "rstream -s HOST -p PORT -S all", want: `1m`, long: true},
	{name: "rstream, blocking", server: "rstream -b HOST -p PORT -S 65536 -C 20 -T b", client: "rstream -s HOST -p PORT -S 65536 -C 20 -T b", want: `64k`},
	{name: "rstream, non-blocking", server: "rstream -b HOST -p PORT -S 65536 -C 20 -T n", client: "rstream -s HOST -p PORT -S 65536 -C 20 -T n", want: `64k`},
	{name: "rstream, verified", server: "rstream -b HOST -p PORT -S 65536 -C 20 -T v", client: "rstream -s HOST -p PORT -S 65536 -C 20 -T v", want: `64k`},
	{name: "riostream", server: "riostream -b HOST -p PORT -S 4096 -C 20", client: "riostream -s HOST -p PORT -S 4096 -C 20", want: `4k`},
	{name: "riostream, all sizes", server: "riostream -b HOST -p PORT -S all", client: "riostream -s HOST -p PORT -S all", want: `1m`, long: true},
	{name: "rcopy", server: "rcopy -p PORT", client: "rcopy SCRATCH/guest HOST:SCRATCH/copy -p PORT", forever: true,
		check: "cmp SCRATCH/guest SCRATCH/copy && rm SCRATCH/copy", ipv4: true},
	{name: "ib_write_bw -R", server: "ib_write_bw -R -p PORT -F -n 20", client: "ib_write_bw -R -p PORT -F -n 20 HOST", quick: ipv4, ipv4: true},
	{name: "ib_send_bw -R", server: "ib_send_bw -R -p PORT -F -n 20", client: "ib_send_bw -R -p PORT -F -n 20 HOST", quick: ipv4, ipv4: true},
	{name: "ib_send_bw -R -c UD", server: "ib_send_bw -R -c UD -p PORT -F -n 20", client: "ib_send_bw -R -c UD -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_read_bw -R", server: "ib_read_bw -R -p PORT -F -n 20", client: "ib_read_bw -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_atomic_bw -R", server: "ib_atomic_bw -R -p PORT -F -n 20", client: "ib_atomic_bw -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_write_lat -R", server: "ib_write_lat -R -p PORT -F -n 20", client: "ib_write_lat -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_send_lat -R", server: "ib_send_lat -R -p PORT -F -n 20", client: "ib_send_lat -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_send_lat -R -c UD", server: "ib_send_lat -R -c UD -p PORT -F -n 20", client: "ib_send_lat -R -c UD -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_read_lat -R", server: "ib_read_lat -R -p PORT -F -n 20", client: "ib_read_lat -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "ib_atomic_lat -R", server: "ib_atomic_lat -R -p PORT -F -n 20", client: "ib_atomic_lat -R -p PORT -F -n 20 HOST", ipv4: true},
	{name: "qperf -cm 1", server: "qperf -lp PORT", client: "qperf HOST -lp PORT -cm 1 -cp 1 -t 1 rc_bw rc_lat", ready: listensTCP, forever: true, want: `(?s)rc_bw:.*rc_lat:`, ipv4: true},
	{name: "fi_pingpong", server: "fi_pingpong -p verbs -e msg -I 10 -B PORT", client: "fi_pingpong -p verbs -e msg -I 10 -P PORT HOST", ready: listensTCP, want: `1m`, ipv4: true},
}

// TestRDMACM: stock programs connect by address, gorxe to the kernel's rdma_cm and back.
func TestRDMACM(t *testing.T) {
	for _, tc := range cmCases {
		run := func(tr *trial, server, client *machine) { tr.runCM(tc, server, client) }
		if tc.ipv4 {
			if takes(tc.quick == ipv4) {
				eachRole(t, cmSection, tc.name, ipv4, run)
			}
			continue
		}
		eachFamily(t, cmSection, tc.name, tc.quick, run)
	}
}

// runCM runs a server and a client to their ends.
func (tr *trial) runCM(tc cmCase, server, client *machine) {
	tr.Helper()
	if tc.long {
		tr.limit = longTimeout
	}
	s, c := tr.startCM(tc, server, client)
	code, err := c.Wait(tr.limit)
	for n := 0; n < early.Runs && err == nil && early.Client(code, c.Output()); n++ {
		s.Kill()
		s.Wait(tr.limit) //nolint:errcheck // it was killed
		s, c = tr.startCM(tc, server, client)
		code, err = c.Wait(tr.limit)
	}
	if code != 0 || err != nil {
		s.Kill()
		tr.Fatalf("%s, the client: exit status %d, %v", client.name, code, err)
	}
	if !regexp.MustCompile(tc.want).MatchString(c.Output()) {
		tr.Errorf("%s, the client, did not print %q", client.name, tc.want)
	}
	if sent := tr.multicasts(client); tc.ready == says && client.isKernel() && sent < mckeyMessages {
		tr.row.Note = fmt.Sprintf("Linux sent %d of %d datagrams", sent, mckeyMessages)
		s.Kill()
		return
	}
	if tc.check != "" {
		if _, err := server.sh(strings.ReplaceAll(tc.check, "SCRATCH", lab.scratch)); err != nil {
			tr.Error(err)
		}
	}
	if tc.forever {
		s.Kill()
	} else if code, err := s.Wait(tr.limit); code != 0 || err != nil {
		tr.Fatalf("%s, the server: exit status %d, %v", server.name, code, err)
	}
}

// mckeyMessages is how many datagrams mckey sends to the group, unless it is told otherwise.
// Linux 6.12 and 7.3 send fewer, although mckey has a completion of each. The receiver would
// wait for the others.
const mckeyMessages = 10

// multicasts counts the datagrams that a machine has sent to a multicast group.
func (tr *trial) multicasts(m *machine) (n int) {
	tr.Helper()
	for q := range tr.said(m == lab.gorxe) {
		if q.DestQP() == wire.QPNMask {
			n++
		}
	}
	return n
}

// startCM starts a server and, when it listens, a client.
func (tr *trial) startCM(tc cmCase, server, client *machine) (s, c *agent.Proc) {
	tr.Helper()
	port := lab.nextPort()
	if !strings.Contains(tc.server, "PORT") {
		port = standardPort
	}
	f, wildcard := tr.row.Family, "0.0.0.0"
	if f == ipv6 {
		wildcard = "::"
	}
	fill := strings.NewReplacer("ANY", wildcard, "HOST", server.address(f), "PORT", strconv.Itoa(port), "MINE", client.address(f), "SCRATCH", lab.scratch)
	s = tr.verbs(server, words(fill.Replace(tc.server))...)
	tr.awaitCM(tc.ready, server, s, port)
	return s, tr.verbs(client, words(fill.Replace(tc.client))...)
}

// words splits a command line, which may be one of the shell.
func words(line string) []string {
	if strings.HasPrefix(line, "sh ") {
		return []string{"sh", "-c", "exec " + line}
	}
	return strings.Fields(line)
}

// awaitCM waits until a server is ready.
func (tr *trial) awaitCM(how readiness, m *machine, s *agent.Proc, port int) {
	tr.Helper()
	if how == listensTCP {
		if err := m.Listening(port); err != nil {
			tr.Fatalf("%s: %v", m.name, err)
		}
		return
	}
	ready := func() bool {
		if how == says {
			return strings.Contains(s.Output(), "receiving")
		}
		return m.listensCM(port)
	}
	for deadline := time.Now().Add(programTimeout); !ready(); time.Sleep(50 * time.Millisecond) {
		if s.Ended() || time.Now().After(deadline) {
			tr.Fatalf("%s: the server is not ready, at port %d\n%s", m.name, port, m.cmIDs())
		}
	}
}

// listensCM reports whether an id of RDMA CM listens at a port.
func (m *machine) listensCM(port int) bool {
	for record := range strings.SplitSeq(m.cmIDs(), "\n") {
		if strings.Contains(record, "LISTEN") && regexp.MustCompile(fmt.Sprintf(`:%d\b`, port)).MatchString(record) {
			return true
		}
	}
	return false
}

// cmIDs lists the ids of RDMA CM, one a line.
func (m *machine) cmIDs() string {
	if m.isKernel() {
		p := m.Start("rdma", "resource", "show", "cm_id")
		p.Wait(programTimeout) //nolint:errcheck // the caller tries again
		return p.Output()
	}
	p := m.Start(m.under[0], "status", "--socket", m.under[3], "--json")
	p.Wait(programTimeout) //nolint:errcheck // its output says more
	return strings.ReplaceAll(strings.ReplaceAll(p.Output(), "\n", " "), "}", "}\n")
}

// cmMessages returns the messages so far of a machine's connection manager.
func (tr *trial) cmMessages(m *machine) (list []wire.CMMessage) {
	tr.Helper()
	for q := range tr.said(m == lab.gorxe) {
		if q.DestQP() != 1 {
			continue
		}
		if m, err := wire.ParseCM(q.Payload()); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// TestNobodyListens: either connection manager refuses a request for a service that does
// not exist, so the client need not wait for its time limit.
func TestNobodyListens(t *testing.T) {
	eachFamily(t, cmSection, "nobody listens", ipv4, func(tr *trial, server, client *machine) {
		addr := server.addr
		if tr.row.Family == ipv6 {
			addr = server.addr6
		}
		c := tr.verbs(client, "rping", "-c", "-a", addr, "-p", strconv.Itoa(lab.nextPort()), "-C", "1")
		if code, err := c.Wait(tr.limit); code == 0 || err != nil {
			tr.Errorf("the client ends with status %d, %v", code, err)
		}
		if client.isKernel() {
			for q := range tr.said(false) {
				if q.DestQP() == 1 {
					tr.row.Settled = fmt.Sprintf("The BTH of a MAD has AckReq %v.", map[bool]int{false: 0, true: 1}[q.AckReq()])
					break
				}
			}
		}
		for _, m := range tr.cmMessages(server) {
			if rej, ok := m.(wire.CMREJ); ok && rej.Reason() == wire.RejectInvalidServiceID {
				tr.row.Note = "REJ 8"
				return
			}
		}
		tr.Errorf("%s did not send a REJ with reason 8", server.name)
	})
}

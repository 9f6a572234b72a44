package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
	"github.com/gorxe/gorxe/wire"
)

// cmCase is a server and a client that connect through librdmacm. HOST stands for the
// server's address, PORT for a port, MINE for the client's address.
type cmCase struct {
	name           string
	server, client string
	forever        bool   // the server does not end by itself
	want           string // a regular expression: what the client prints
	quick          family // of the quick run; "" for none
}

// standardPort is where programs without an option for the port listen.
const standardPort = 7174

var cmCases = []cmCase{
	{"rping", "rping -s -a HOST -p PORT -C 20 -V", "rping -c -a HOST -p PORT -C 20 -V -v", false, `ping data: rdma-ping-19`, ipv4},
	{"rping, own queue pair", "rping -s -a HOST -p PORT -C 5 -q", "rping -c -a HOST -p PORT -C 5 -q -v", false, `ping data: rdma-ping-4`, ipv6},
	{"rping, wildcard listener", "rping -s -p PORT -C 5", "rping -c -a HOST -p PORT -C 5 -v", false, `ping data: rdma-ping-4`, ""},
	{"ucmatose, 10 connections", "ucmatose -p PORT -c 10", "ucmatose -s HOST -p PORT -c 10", false, `return status 0`, ipv4},
	{"ucmatose, migrated ids", "ucmatose -p PORT -c 3 -m", "ucmatose -s HOST -p PORT -c 3 -m", false, `return status 0`, ""},
	{"udaddy", "udaddy -c 3", "udaddy -s HOST -c 3", false, `return status 0`, ipv4},
	{"cmtime, 20 connections", "cmtime -p PORT -c 20", "cmtime -s HOST -p PORT -c 20", true, `(?m)^connect +`, ""},
	{"rdma_client", "rdma_server -p PORT", "rdma_client -s HOST -p PORT", false, `rdma_client: end 0`, ipv4},
	{"rstream", "rstream -p PORT -S 4096 -C 20", "rstream -s HOST -p PORT -S 4096 -C 20", false, `4k`, ipv4},
	{"riostream", "riostream -p PORT -S 4096 -C 20", "riostream -s HOST -p PORT -S 4096 -C 20", false, `4k`, ""},
	{"ib_write_bw -R", "ib_write_bw -R -p PORT -F -n 20", "ib_write_bw -R -p PORT -F -n 20 HOST", false, ``, ipv4},
	{"ib_send_bw -R", "ib_send_bw -R -p PORT -F -n 20", "ib_send_bw -R -p PORT -F -n 20 HOST", false, ``, ipv4},
	{"ib_read_lat -R", "ib_read_lat -R -p PORT -F -n 20", "ib_read_lat -R -p PORT -F -n 20 HOST", false, ``, ""},
}

// TestRDMACM: stock programs connect by address, gorxe to the kernel's rdma_cm and back.
func TestRDMACM(t *testing.T) {
	for _, tc := range cmCases {
		run := func(tr *trial, server, client *machine) {
			s, c := tr.startCM(tc, server, client)
			if code, err := c.Wait(tr.limit); code != 0 || err != nil {
				tr.Fatalf("%s, the client: exit status %d, %v", client.name, code, err)
			}
			if !regexp.MustCompile(tc.want).MatchString(c.Output()) {
				tr.Errorf("%s, the client, did not print %q", client.name, tc.want)
			}
			if tc.forever {
				s.Kill()
			} else if code, err := s.Wait(tr.limit); code != 0 || err != nil {
				tr.Fatalf("%s, the server: exit status %d, %v", server.name, code, err)
			}
		}
		if strings.HasPrefix(tc.server, "ib_") { // perftest 4.5 resolves IPv4 addresses only
			if takes(tc.quick == ipv4) {
				eachRole(t, "RDMA CM", tc.name, ipv4, run)
			}
			continue
		}
		eachFamily(t, "RDMA CM", tc.name, tc.quick, run)
	}
}

// startCM starts a server and, when it listens, a client.
func (tr *trial) startCM(tc cmCase, server, client *machine) (s, c *agent.Proc) {
	tr.Helper()
	port := lab.nextPort()
	if !strings.Contains(tc.server, "PORT") {
		port = standardPort
	}
	address := func(m *machine) string {
		if tr.row.Family == ipv6 {
			return m.addr6
		}
		return m.addr
	}
	fill := strings.NewReplacer("HOST", address(server), "PORT", strconv.Itoa(port), "MINE", address(client))
	s = tr.verbs(server, strings.Fields(fill.Replace(tc.server))...)
	for deadline := time.Now().Add(programTimeout); !server.listensCM(port); time.Sleep(50 * time.Millisecond) {
		if s.Ended() || time.Now().After(deadline) {
			tr.Fatalf("%s: the server does not listen at %d\n%s", server.name, port, server.cmIDs())
		}
	}
	return s, tr.verbs(client, strings.Fields(fill.Replace(tc.client))...)
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
	p.Wait(programTimeout) //nolint:errcheck // likewise
	return strings.ReplaceAll(strings.ReplaceAll(p.Output(), "\n", " "), "}", "}\n")
}

// cmMessages returns the messages so far of one connection manager, gorxe's or the kernel's.
func (tr *trial) cmMessages(gorxe bool) (list []wire.CMMessage) {
	tr.Helper()
	for q := range tr.said(gorxe) {
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
	eachFamily(t, "RDMA CM", "nobody listens", ipv4, func(tr *trial, server, client *machine) {
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
		for _, m := range tr.cmMessages(!server.isKernel()) {
			if rej, ok := m.(wire.CMREJ); ok && rej.Reason() == wire.RejectInvalidServiceID {
				tr.row.Note = "REJ 8"
				return
			}
		}
		tr.Errorf("%s did not send a REJ with reason 8", server.name)
	})
}

// TestKilledPeer: if a program is killed, the program at the other end learns it at once
// from a DREQ, and ends.
func TestKilledPeer(t *testing.T) {
	for _, dies := range []string{"client", "server"} {
		eachFamily(t, "RDMA CM", "the "+dies+" is killed", ipv4, func(tr *trial, server, client *machine) {
			// Without -C both go on until somebody ends.
			s, c := tr.startCM(cmCase{server: "rping -s -a HOST -p PORT -v", client: "rping -c -a HOST -p PORT -v"}, server, client)
			victim, survivor, killed := c, s, client
			if dies == "server" {
				victim, survivor, killed = s, c, server
			}
			for deadline := time.Now().Add(programTimeout); !strings.Contains(survivor.Output(), "ping data: rdma-ping-3"); time.Sleep(20 * time.Millisecond) {
				if s.Ended() || c.Ended() || time.Now().After(deadline) {
					tr.Fatal("no connection")
				}
			}
			victim.Kill()
			if _, err := survivor.Wait(tr.limit); err != nil {
				tr.Errorf("the survivor: %v", err)
			}
			for _, m := range tr.cmMessages(!killed.isKernel()) {
				if _, ok := m.(wire.CMDREQ); ok {
					return
				}
			}
			tr.Errorf("%s did not send a DREQ", killed.name)
		})
	}
}

// TestCMFaults: connections come about although the link damages the traffic.
func TestCMFaults(t *testing.T) {
	layFaultyLink(t)
	for _, fault := range []struct{ name, netem string }{
		{"loss 10 %", "loss 10%"},
		{"duplication 20 %", "duplicate 20%"},
		{"reordering", "delay 2ms reorder 70% 50%"},
	} {
		for _, direction := range []struct {
			name string
			queue
		}{{"to gorxe", queue{lab.guest, lab.guest.device}}, {"to the kernel", queue{lab.guest, "ifb0"}}} {
			if !takes(fault.name == "loss 10 %") {
				continue
			}
			eachRole(t, "RDMA CM", "ucmatose, "+fault.name+" "+direction.name, ipv4, func(tr *trial, server, client *machine) {
				tr.limit = longTimeout
				if _, err := direction.sh(fmt.Sprintf("tc qdisc add dev %s root netem limit 10000 %s", direction.device, fault.netem)); err != nil {
					tr.Fatal(err)
				}
				defer func() {
					if _, err := direction.sh(fmt.Sprintf("tc qdisc del dev %s root", direction.device)); err != nil {
						tr.Error(err)
					}
				}()
				s, c := tr.startCM(cmCase{server: "ucmatose -p PORT -c 4", client: "ucmatose -s HOST -p PORT -c 4"}, server, client)
				for _, p := range []*agent.Proc{c, s} {
					if code, err := p.Wait(tr.limit); code != 0 || err != nil {
						s.Kill()
						tr.Fatalf("exit status %d, %v", code, err)
					}
				}
			})
		}
	}
}

package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
	"github.com/gorxe/gorxe/wire"
)

// cmMatch returns a filter of tc, for the messages of the connection manager in packets of a
// family, or for one kind of them (0: all). A MAD for queue pair 1 follows the IP header,
// UDP (8 bytes), the BTH (12) and the DETH (8).
func cmMatch(f family, message wire.CMAttribute) string {
	protocol, header, next := "ip", 20, "match ip protocol 17 0xff"
	if f == ipv6 {
		protocol, header, next = "ipv6", 40, "match ip6 protocol 17 0xff"
	}
	text := fmt.Sprintf("protocol %s u32 %s match u16 4791 0xffff at %d match u32 1 0xffffff at %d match u8 7 0xff at %d",
		protocol, next, header+2, header+12, header+29)
	if message != 0 {
		text += fmt.Sprintf(" match u16 %d 0xffff at %d", message, header+44)
	}
	return text
}

// cmKind is a kind of message over one family.
type cmKind struct {
	message wire.CMAttribute
	family
}

// cmLoss loses the first of two messages of each kind, at the guest's end of the cable.
type cmLoss struct {
	*trial
	kinds []cmKind
}

// lose begins a loss in both directions. Every second message passes, so one that is sent
// again arrives. The action is "trap" because the sender would notice a "drop".
func (tr *trial) lose(kinds []cmKind) *cmLoss {
	tr.Helper()
	var script strings.Builder
	priority := 0
	for _, hook := range []string{"ingress", "egress"} {
		for _, k := range kinds {
			priority++
			fmt.Fprintf(&script, "tc filter add dev %s %s prio %d %s action trap random determ pass 2\n",
				lab.guest.device, hook, priority, cmMatch(k.family, k.message))
		}
	}
	if _, err := lab.guest.sh("set -e\n" + script.String()); err != nil {
		tr.Fatal(err)
	}
	return &cmLoss{tr, kinds}
}

// metByFilter finds how many packets each filter has met, in the order of priorities.
var metByFilter = regexp.MustCompile(`Sent \d+ bytes (\d+) pkt`)

// end ends the loss. Each filter must have lost a message and let one pass.
func (l *cmLoss) end() {
	l.Helper()
	for _, hook := range []string{"ingress", "egress"} {
		out, err := lab.guest.sh(fmt.Sprintf("tc -s filter show dev %[1]s %[2]s; tc filter del dev %[1]s %[2]s", lab.guest.device, hook))
		if err != nil {
			l.Fatal(err)
		}
		met := metByFilter.FindAllStringSubmatch(out, -1)
		if len(met) != len(l.kinds) {
			l.Fatalf("%d filters of tc, not %d\n%s", len(met), len(l.kinds), out)
		}
		for i, m := range met {
			if m[1] == "0" || m[1] == "1" {
				l.Errorf("%s of the guest: no %v over %s was lost and sent again\n%s", hook, l.kinds[i].message, l.kinds[i].family, out)
			}
		}
	}
}

// TestCMLost: each message is lost once in either direction, and the connection comes about
// and ends as without a loss. Connections that begin and connections that end do so at the
// same time, because each loss lasts until the sender's time is over.
func TestCMLost(t *testing.T) {
	tr := begin(t, row{Section: cmSection, Case: "each message is lost once", Role: "both", Family: "both"})
	if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc add dev %s clsact", lab.guest.device)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc del dev %s clsact", lab.guest.device)); err != nil {
			t.Error(err)
		}
	})
	const untilRTU = 3 // steps
	left := map[*cmConnection][]cmStep{}
	families := map[*cmConnection]family{}
	for _, f := range []family{ipv4, ipv6} {
		for _, ends := range [][2]*machine{{lab.guest, lab.gorxe}, {lab.gorxe, lab.guest}} {
			if takes(f == ipv4) {
				c, lookup := tr.cmConnect(ends[0], ends[1], f, false), tr.cmConnect(ends[0], ends[1], f, true)
				left[c], left[lookup] = cmSteps[:untilRTU], cmLookupLosses
				families[c], families[lookup] = f, f
			}
			if takes(f == ipv6) {
				c := tr.cmConnect(ends[0], ends[1], f, false)
				c.goOn(cmSteps[:untilRTU])
				left[c], families[c] = []cmStep{cmSteps[untilRTU], cmLostDREP}, f
			}
		}
	}
	for len(left) > 0 {
		var kinds []cmKind
		for c, steps := range left {
			if k := (cmKind{steps[0].message, families[c]}); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		l := tr.lose(kinds)
		for c, steps := range left {
			steps[0].call(c)
		}
		for c, steps := range left {
			steps[0].await(c)
			if left[c] = steps[1:]; len(steps) == 1 {
				delete(left, c)
			}
		}
		l.end()
	}
	tr.row.Note = "REQ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP"
}

// cmLostDREP is the last step under a loss. Linux does not answer a DREQ of an id whose timewait
// is over, as long as the program keeps the id. It is over before the DREQ comes again.
var cmLostDREP = cmStep{wire.AttrDREP, "", func(c *cmConnection) {
	c.Helper()
	c.callDisconnectToo()
	c.server.do("destroy id=%s", c.serverID)
}, (*cmConnection).awaitEnd}

// cmLookupLosses are the steps of datagrams under a loss. A connection manager forgets a
// SIDR_REQ that it has answered, so the server hears of the next one as of a new one.
var cmLookupLosses = []cmStep{
	cmDatagramSteps[0],
	{wire.AttrSIDRREP, "", (*cmConnection).callAccept, func(c *cmConnection) {
		c.Helper()
		c.awaitRequest()
		c.callAccept()
		c.awaitDatagram()
	}},
}

// cmOnlyFaults damage the messages of the connection manager, and no others.
var cmOnlyFaults = []struct {
	name, netem string
	lossy       bool
	again       bool // a request may come again after its answer
}{
	{"a quarter of the messages is lost", "loss 25%", true, true},
	{"each message comes twice", "duplicate 100%", false, true},
	// The data behind an RTU overtake it, and so do messages of other connections.
	{"messages come late and in another order", "delay 60ms 40ms", false, false},
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
			if !full {
				continue // TestCMLost and TestCMOnlyFaults are more exact
			}
			eachRole(t, cmSection, "ucmatose, "+fault.name+" "+direction.name, ipv4, func(tr *trial, server, client *machine) {
				tr.limit, tr.lossy = longTimeout, strings.HasPrefix(fault.name, "loss")
				if _, err := direction.sh(fmt.Sprintf("tc qdisc add dev %s root netem limit 10000 %s", direction.device, fault.netem)); err != nil {
					tr.Fatal(err)
				}
				defer func() {
					if _, err := direction.sh(fmt.Sprintf("tc qdisc del dev %s root", direction.device)); err != nil {
						tr.Error(err)
					}
				}()
				tr.bothEnd(tr.startCM(cmCase{server: "ucmatose -b HOST -p PORT -c 4", client: "ucmatose -s HOST -p PORT -c 4"}, server, client))
			})
		}
	}
}

// bothEnd waits for the success of a server and a client.
func (tr *trial) bothEnd(server, client *agent.Proc) {
	tr.Helper()
	for _, p := range []*agent.Proc{client, server} {
		if code, err := p.Wait(tr.limit); code != 0 || err != nil {
			server.Kill()
			tr.Fatalf("exit status %d, %v", code, err)
		}
	}
}

// endWithLostDREQ is bothEnd for a client that destroys its id without waiting for a DREP. Either
// connection manager then gives up the DREQ (cm.c: cm_destroy_id). If that one was lost, the
// server learns nothing, and waits.
func (tr *trial) endWithLostDREQ(server, client *machine, s, c *agent.Proc) {
	tr.Helper()
	if code, err := c.Wait(tr.limit); code != 0 || err != nil {
		s.Kill()
		tr.Fatalf("%s, the client: exit status %d, %v", client.name, code, err)
	}
	const grace = 30 * time.Second
	code, err := s.Wait(grace)
	if err == nil {
		if code != 0 {
			tr.Fatalf("%s, the server: exit status %d", server.name, code)
		}
		return
	}
	captured := 0
	for _, m := range tr.cmMessages(client) {
		if _, ok := m.(wire.CMDREQ); ok {
			captured++
		}
	}
	// The guest loses messages at its end of the cable. So what it sends is captured behind the
	// loss, and what gorxe sends before it.
	lost := 0
	if server.isKernel() {
		lost = 1
	}
	if captured != lost {
		tr.Fatalf("the server on %s: %v; the capture has %d DREQs of its client", server.name, err, captured)
	}
	tr.row.Note = "the DREQ was lost"
}

// TestCMOnlyFaults: the same with damage to messages of the connection manager only, which
// is heavier.
func TestCMOnlyFaults(t *testing.T) {
	layFaultyLink(t)
	for _, fault := range cmOnlyFaults {
		for _, program := range []cmCase{
			{name: "ucmatose", server: "ucmatose -b HOST -p PORT -c 10", client: "ucmatose -s HOST -p PORT -c 10"},
			{name: "rping", server: "rping -s -a HOST -p PORT -C 20 -V", client: "rping -c -a HOST -p PORT -C 20 -V"},
			{name: "udaddy", server: "udaddy -b HOST -c 3", client: "udaddy -s HOST -c 3"},
		} {
			if fault.again && program.name == "udaddy" {
				// A connection manager forgets a SIDR_REQ that it has answered. So one that comes
				// again is a new request. udaddy counts these, and ends before its last client.
				continue
			}
			quick := family("")
			if program.name == "ucmatose" && !fault.lossy {
				quick = ipv4
			}
			eachFamily(t, cmSection, program.name+", "+fault.name, quick, func(tr *trial, server, client *machine) {
				tr.limit, tr.lossy = longTimeout, fault.lossy
				defer tr.damageCM(fault.netem)()
				s, c := tr.startCM(program, server, client)
				if fault.lossy && program.name == "rping" {
					tr.endWithLostDREQ(server, client, s, c)
				} else {
					tr.bothEnd(s, c)
				}
			})
		}
	}
}

// metByNetem finds how many packets tc-netem has met.
var metByNetem = regexp.MustCompile(`qdisc netem .*\n\s*Sent \d+ bytes (\d+) pkt`)

// damageCM lets tc-netem damage messages of the connection manager in both directions, until
// the function that it returns is called.
func (tr *trial) damageCM(netem string) (end func()) {
	tr.Helper()
	var script strings.Builder
	devices := []string{lab.guest.device, "ifb0"}
	for _, device := range devices {
		fmt.Fprintf(&script, "tc qdisc add dev %[1]s root handle 1: prio\ntc qdisc add dev %[1]s parent 1:3 netem limit 10000 %[2]s\n", device, netem)
		for i, f := range []family{ipv4, ipv6} {
			fmt.Fprintf(&script, "tc filter add dev %s parent 1: prio %d %s flowid 1:3\n", device, i+1, cmMatch(f, 0))
		}
	}
	if _, err := lab.guest.sh("set -e\n" + script.String()); err != nil {
		tr.Fatal(err)
	}
	return func() {
		for _, device := range devices {
			out, err := lab.guest.sh(fmt.Sprintf("tc -s qdisc show dev %[1]s; tc qdisc del dev %[1]s root", device))
			if m := metByNetem.FindStringSubmatch(out); err != nil || m == nil || m[1] == "0" {
				tr.Errorf("tc-netem met no message on %s: %v\n%s", device, err, out)
			}
		}
	}
}

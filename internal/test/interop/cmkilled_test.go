package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestKilledPeer: if a program is killed, the program at the other end learns it at once
// from a DREQ, and ends.
func TestKilledPeer(t *testing.T) {
	for _, dies := range []string{"client", "server"} {
		eachFamily(t, cmSection, "the "+dies+" is killed", "", func(tr *trial, server, client *machine) {
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
			for _, m := range tr.cmMessages(killed) {
				if _, ok := m.(wire.CMDREQ); ok {
					return
				}
			}
			tr.Errorf("%s did not send a DREQ", killed.name)
		})
	}
}

// cmDeath is the end of a program in a state of its connection.
type cmDeath struct {
	steps     int // of the connection, before
	datagrams bool
	dies      string // "client" or "server"
	// says is what the connection manager of that machine sends then, or "".
	says string
	// sees is the next event of the other program's id, or "" for none.
	sees string
	// then is a call by the other program, or nil, and next its next event.
	then  func(*cmConnection)
	next  string
	quick bool // it is in the quick run
}

// cmDeaths has each state at either end.
var cmDeaths = []cmDeath{
	// The request is rejected before its program accepts it. Its id has no event after that.
	{steps: 1, dies: "client", says: "REJ 4", quick: true},
	{steps: 1, dies: "server", says: "REJ 28", sees: "REJECTED 28", quick: true},
	{steps: 2, dies: "client", says: "REJ 28", sees: "REJECTED 28", quick: true},
	{steps: 2, dies: "server", says: "REJ 28", sees: "REJECTED 28", quick: true},
	{steps: 3, dies: "client", says: "DREQ", sees: "DISCONNECTED", then: (*cmConnection).callDisconnectToo, next: "TIMEWAIT_EXIT", quick: true},
	{steps: 3, dies: "server", says: "DREQ", sees: "DISCONNECTED", then: (*cmConnection).callDisconnect, next: "TIMEWAIT_EXIT", quick: true},
	{steps: 4, dies: "client", then: (*cmConnection).callDisconnectToo, next: "TIMEWAIT_EXIT"},
	{steps: 4, dies: "server", says: "DREP", sees: "DISCONNECTED", next: "TIMEWAIT_EXIT"},
	{steps: 5, dies: "client", sees: "TIMEWAIT_EXIT"},
	{steps: 5, dies: "server", sees: "TIMEWAIT_EXIT"},
	{steps: 1, datagrams: true, dies: "client"},
	{steps: 1, datagrams: true, dies: "server", says: "SIDR_REP 2", sees: "UNREACHABLE 2"},
}

// TestCMDeaths kills a program in each state of its connection. What the other program sees
// is the same for gorxe's and the kernel's connection manager, and between two programs on
// the kernel's device.
func TestCMDeaths(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		for _, d := range cmDeaths {
			if !takes(f == ipv4 && d.quick) {
				continue
			}
			name := fmt.Sprintf("%s: the %s is killed", (&cmConnection{datagrams: d.datagrams}).steps()[d.steps-1].state, d.dies)
			eachRole(t, cmSection, name, f, d.run)
			if full {
				t.Run(strings.Join([]string{name, string(f), "kernel"}, "/"), func(t *testing.T) {
					d.run(begin(t, row{Section: cmSection, Case: name, Role: "neither", Family: f}), lab.guest, lab.guest)
				})
			}
		}
	}
}

func (d cmDeath) run(tr *trial, server, client *machine) {
	c := tr.cmConnect(server, client, tr.row.Family, d.datagrams)
	c.goOn(c.steps()[:d.steps])
	victim, survivor, id := c.client, c.server, c.serverID
	if d.dies == "server" {
		victim, survivor, id = c.server, c.client, c.clientID
	}
	sent := len(tr.cmMessages(victim.machine))
	victim.proc.Kill()
	if _, err := victim.proc.Wait(tr.limit); err != nil {
		tr.Fatal(err)
	}
	if d.sees != "" {
		survivor.await(id, d.sees)
	}
	if d.then != nil {
		d.then(c)
	}
	if d.next != "" {
		survivor.await(id, d.next)
	}
	said := tr.cmMessages(victim.machine)[sent:]
	// The other program can connect again, and nothing more happened to the first connection.
	d.again(c)
	if extra := survivor.unread[id]; len(extra) > 0 {
		tr.Errorf("the %s's id has the events %v as well", survivor.machine.name, extra)
	}
	if d.sees == "" && d.says != "" { // no event says that it has arrived
		said = tr.cmMessages(victim.machine)[sent:]
	}
	notes := []string{d.says, d.sees, d.next}
	if server != client {
		d.mustHaveSaid(tr, said, c.steps()[d.steps-1].message)
	} else { // their messages are not on the cable
		notes = notes[1:]
	}
	tr.row.Note = strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

// mustHaveSaid judges what a connection manager said when its program was killed. It may
// have repeated its last message before.
func (d cmDeath) mustHaveSaid(tr *trial, said []wire.CMMessage, last wire.CMAttribute) {
	tr.Helper()
	var texts []string
	for _, m := range said {
		if m.CMAttribute() != last {
			texts = append(texts, cmText(m))
		}
	}
	if d.says == "" && len(texts) > 0 || d.says != "" && !slices.Contains(texts, d.says) {
		tr.Errorf("the connection manager of the %s that is killed says %q, not %q", d.dies, texts, d.says)
	}
}

// again replaces the program that was killed, and makes a connection with all steps.
func (d cmDeath) again(c *cmConnection) {
	c.Helper()
	fresh := &cmConnection{trial: c.trial, server: c.server, client: c.client, listener: "0", clientID: "9", port: c.port, datagrams: c.datagrams}
	if d.dies == "client" {
		fresh.client = c.openCM(c.client.machine)
	} else {
		fresh.server = c.openCM(c.server.machine)
		fresh.port = lab.nextPort()
		fresh.listen(c.row.Family)
	}
	fresh.resolve(c.row.Family)
	fresh.goOn(fresh.steps())
}

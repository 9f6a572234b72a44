package interop

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
	"github.com/gorxe/gorxe/wire"
)

// trial is one case. It owns the output of its programs and the packets on the cable, and
// its end is a row of the table.
type trial struct {
	*testing.T
	row   row
	procs []traced
	// packets are the case's so far.
	packets    []packet
	inspected  int // of them
	complaints int
	// forged are the frames that the case itself has put on the cable.
	forged map[string]bool
	// answered counts a device's answers that nextResponse has seen.
	answered map[*endpoint]int
	// known is the defect of the kernel that may end this case,
	known *faultDefect
	// and moment the conversation in which it shows.
	moment []packet
	// damaged: this case corrupts packets on the guest's side of the capture.
	damaged bool
	// lossy: this case loses packets before the capture, or after it.
	lossy bool
	// limit bounds a program, and the answer of an endpoint.
	limit time.Duration
}

type traced struct {
	machine *machine
	*agent.Proc
}

// begin starts a case, which must be a subtest.
func begin(t *testing.T, r row) *trial {
	t.Helper()
	tr := &trial{T: t, row: r, limit: caseLimit, forged: map[string]bool{}, answered: map[*endpoint]int{}}
	if _, err := lab.wire.take(); err != nil {
		t.Logf("between cases: %v", err)
	}
	t.Cleanup(tr.finish)
	return tr
}

// finish inspects the packets of the case, and saves them.
func (tr *trial) finish() {
	for _, p := range tr.procs {
		if !p.Ended() {
			p.Kill()
		}
	}
	tr.collect()
	tr.inspect()
	switch {
	case tr.lossy, tr.row.Section == mlx5Section:
		tr.irreproachable()
	case tr.row.Section == cmSection:
		tr.checked()
	}
	dir := filepath.Join(lab.out, strings.NewReplacer("/", "_", " ", "-").Replace(tr.Name()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tr.Error(err)
	}
	if err := save(filepath.Join(dir, "tap0.pcapng"), tr.packets); err != nil {
		tr.Error(err)
	}
	curate(tr)
	for i, p := range tr.procs {
		text := strings.Join(p.Argv, " ") + "\n" + p.Output()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s.txt", i, p.machine.name)), []byte(text), 0o644); err != nil {
			tr.Error(err)
		}
		if tr.Failed() {
			tr.Logf("%s: %s", p.machine.name, text)
		}
	}
	tr.row.Passed = !tr.Failed()
	results.add(tr.row)
}

// collect takes the packets on the cable since the last call.
func (tr *trial) collect() {
	tr.Helper()
	packets, err := lab.wire.take()
	if err != nil {
		tr.Error(err)
	}
	tr.packets = append(tr.packets, packets...)
}

// said returns the packets so far of one device, gorxe's or the kernel's, without damaged
// ones.
func (tr *trial) said(gorxe bool) iter.Seq[wire.Packet] {
	tr.Helper()
	tr.collect()
	return func(yield func(wire.Packet) bool) {
		for _, p := range tr.packets {
			r, err := parseRoCE(p.data)
			if r == nil || err != nil || p.sent != gorxe || r.intact() != nil {
				continue
			}
			if q, _ := wire.Parse(r.body()); !yield(q) {
				return
			}
		}
	}
}

// naks returns the answers so far of gorxe or of the kernel, without ACKs.
func (tr *trial) naks(gorxe bool) []wire.Syndrome {
	tr.Helper()
	var list []wire.Syndrome
	for q := range tr.said(gorxe) {
		if q.Opcode() == wire.RCAck && !q.Syndrome().IsACK() {
			list = append(list, q.Syndrome())
		}
	}
	return list
}

// inspect checks every packet that gorxe sent, against the IP header that it had on the
// cable. If nothing damages them, it checks the kernel's packets too. It leaves out packets
// that it has inspected before.
func (tr *trial) inspect() {
	for ; tr.inspected < len(tr.packets); tr.inspected++ {
		p := tr.packets[tr.inspected]
		r, err := parseRoCE(p.data)
		if r == nil && err == nil || tr.forged[string(p.data)] {
			continue
		}
		if err == nil {
			err = r.intact()
		}
		if p.sent {
			tr.row.Sent++
		} else {
			tr.row.Received++
		}
		if tr.row.Section == cmSection && !p.sent {
			lab.reader.add(p)
		}
		switch {
		case p.sent && !kernels:
			lab.reader.add(p)
			if r != nil {
				results.count(r.opcode())
			}
		case tr.damaged || err != nil && r != nil && r.flushOfKernel():
			err = nil
		case err == nil:
			tr.row.Habits.see(r)
		}
		if err != nil && tr.complaints < 5 {
			tr.complaints++
			tr.Errorf("packet %d of the cable, from %s: %v\n%x", tr.row.Sent+tr.row.Received, sender(p), err, p.data)
		}
	}
}

// streamed is how many packets a long case keeps.
const streamed = 20_000

// stream inspects packets while the case runs, and keeps only the last ones, until the
// function that it returns is called.
func (tr *trial) stream() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Second):
			}
			tr.collect()
			tr.inspect()
			if old := len(tr.packets) - streamed; old > 0 {
				tr.packets = slices.Delete(tr.packets, 0, old)
				tr.inspected -= old
			}
		}
	}()
	return func() { close(end); <-ended }
}

func sender(p packet) string {
	if p.sent {
		return "gorxe"
	}
	return "the kernel"
}

// verbs starts a verbs program of this case.
func (tr *trial) verbs(m *machine, argv ...string) *agent.Proc {
	p := m.verbs(argv...)
	tr.procs = append(tr.procs, traced{m, p})
	return p
}

// exchange runs a server and, when it listens, a client with the same arguments and the server's
// address. In argv, PORT stands for a TCP port, DEVICE for the machine's device, and GID for the
// index of its GID in that family.
func (tr *trial) exchange(server, client *machine, argv ...string) {
	tr.Helper()
	port := lab.nextPort()
	fill := func(m *machine) []string {
		args := slices.Clone(argv)
		for i := range args {
			switch args[i] {
			case "PORT":
				args[i] = strconv.Itoa(port)
			case "DEVICE":
				args[i] = m.rdma
			case "GID":
				args[i] = strconv.Itoa(m.gid[tr.row.Family])
			}
		}
		return args
	}
	s := tr.verbs(server, fill(server)...)
	if err := server.Listening(port); err != nil {
		tr.Fatalf("%s: %v", server.name, err)
	}
	c := tr.verbs(client, append(fill(client), server.addr)...)
	if code, err := c.Wait(tr.limit); code != 0 || err != nil {
		// The server would wait for a client that has gone.
		s.Kill()
		tr.Fatalf("%s, the client: exit status %d, %v", client.name, code, err)
	}
	if code, err := s.Wait(tr.limit); code != 0 || err != nil {
		tr.Fatalf("%s, the server: exit status %d, %v", server.name, code, err)
	}
}

// eachFamily runs a case in both roles over IPv4 and IPv6; the quick run has one
// family, or none ("").
func eachFamily(t *testing.T, section, name string, quick family, run func(tr *trial, server, client *machine)) {
	t.Helper()
	for _, f := range []family{ipv4, ipv6} {
		if takes(f == quick) {
			eachRole(t, section, name, f, run)
		}
	}
}

// eachRole runs a case with gorxe as client and as server.
func eachRole(t *testing.T, section, name string, f family, run func(tr *trial, server, client *machine)) {
	t.Helper()
	for _, role := range []string{"client", "server"} {
		t.Run(strings.Join([]string{name, string(f), role}, "/"), func(t *testing.T) {
			server, client := lab.guest, lab.gorxe
			if role == "server" {
				server, client = client, server
			}
			run(begin(t, row{Section: section, Case: name, Role: role, Family: f}), server, client)
		})
	}
}

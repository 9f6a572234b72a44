package interop

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// The faults, as tc-netem's arguments.
var faults = []struct{ name, netem string }{
	{"loss 1 %", "loss 1%"},
	{"loss 5 %", "loss 5%"},
	{"duplication 5 %", "duplicate 5%"},
	{"reordering", "delay 2ms reorder 90% 50%"},
	{"corruption 2 %", "corrupt 2%"},
	{"delay 600 ms, above the timeout", "delay 600ms"},
}

// TestFaults: in each direction, in both roles, all data is right and every
// completion is a success.
func TestFaults(t *testing.T) {
	layFaultyLink(t)
	// Packets from the guest pass its eth0, before the capture. Packets to the guest pass its
	// ifb0, after the capture. A second guest in gorxe's place damages what it sends, so the
	// capture has the packets that the first kernel got.
	toKernel := queue{lab.guest, "ifb0"}
	if kernels {
		toKernel = queue{lab.gorxe, lab.gorxe.device}
	}
	for _, direction := range []struct {
		name string
		queue
	}{{"to gorxe", queue{lab.guest, lab.guest.device}}, {"to the kernel", toKernel}} {
		for _, fault := range faults {
			name := fault.name + " " + direction.name
			t.Run(name, func(t *testing.T) {
				tr := begin(t, row{Section: "Faults", Case: name, Role: "both", Family: "both"})
				tr.damaged = direction.device != "ifb0" && strings.HasPrefix(fault.name, "corruption")
				switch {
				case strings.HasPrefix(fault.name, "delay") && direction.name == "to gorxe":
					tr.known = &defectZeroWrite
				case direction.name == "to the kernel":
					tr.known = &defectEmptyRead
				}
				n := faultOperations(t)
				if strings.HasPrefix(fault.name, "delay") && !full {
					n /= 4 // each of these waits for 600 ms
				}
				underFault(tr, direction.queue, fault.netem, n)
			})
		}
	}
}

// layFaultyLink prepares the devices whose outgoing packets tc-netem can damage.
func layFaultyLink(t *testing.T) {
	t.Helper()
	// Otherwise the faults would hit the resolution of addresses, which is not repeated
	// during a case.
	for m, peer := range map[*machine]*machine{lab.gorxe: lab.guest, lab.guest: lab.gorxe} {
		for _, addr := range []string{peer.addr, peer.addr6} {
			if _, err := m.sh(fmt.Sprintf("ip neigh replace %s lladdr %s dev %s nud permanent", addr, peer.mac, m.device)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := lab.guest.sh(`set -e
ip link set ifb0 mtu 4200 up
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := lab.guest.sh("tc qdisc del dev eth0 ingress"); err != nil {
			t.Error(err)
		}
	})
}

// queue is a device whose outgoing packets tc-netem can damage.
type queue struct {
	*machine
	device string
}

// faultTimeout is 537 ms. The queue pair ends after eight timeouts, so an emulated machine
// may pause for four seconds. (rdma_rxe itself never gives up at retry_cnt 7, which is not
// in the specification.)
const faultTimeout = "timeout=17 retry=7"

// faultOperations is how many a fault gets in one direction.
func faultOperations(t *testing.T) int {
	if text := os.Getenv("GORXE_INTEROP_FAULT_OPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("GORXE_INTEROP_FAULT_OPS: %v", err)
		}
		return n
	}
	if full {
		return 10_000
	}
	return 1000
}

// underFault runs the operations while tc-netem damages the packets that leave a device.
func underFault(tr *trial, at queue, netem string, most int) {
	tr.Helper()
	operations := allOperations(tr, most, func() (end func()) {
		if _, err := at.sh(fmt.Sprintf("tc qdisc add dev %s root netem limit 10000 %s", at.device, netem)); err != nil {
			tr.Fatal(err)
		}
		return func() {
			if _, err := at.sh(fmt.Sprintf("tc qdisc del dev %s root", at.device)); err != nil {
				tr.Error(err)
			}
		}
	})
	tr.row.Note = fmt.Sprintf("%d operations", operations)
	if tr.row.Defect {
		tr.row.Note += "; " + tr.known.String()
		tr.irreproachable()
	}
}

// allOperations runs the operations on four connections at once, so some connection works while
// another one waits for a timeout. Each end is the requester of two connections, one over
// IPv4 and one over IPv6. The fault begins when all are connected.
func allOperations(tr *trial, most int, begin func() (end func())) (operations int) {
	tr.Helper()
	const pairs = 4
	shapes := []struct {
		family
		mtu, max int // messages of up to 8 packets
	}{{ipv4, 1024, 8000}, {ipv6, 256, 2000}}
	// messages: written, read and counted; and as many sent
	n := (most + 4*pairs - 1) / (4 * pairs)
	tr.limit = longTimeout
	var all []connection
	for i := range pairs {
		requester, responder := lab.gorxe, lab.guest
		if i%2 == 1 {
			requester, responder = responder, requester
		}
		a, b := tr.pair(requester, responder, shapes[i/2].family, 1<<18, path{kind: typeRC, mtu: shapes[i/2].mtu, more: faultTimeout})
		all = append(all, connection{a: a, b: b, max: shapes[i/2].max})
	}
	defer begin()()
	limits := fmt.Sprintf("n=%d ms=%d", n, longTimeout.Milliseconds())
	for i, c := range all {
		c.a.begin("loop qp=0 mr=0 raddr=%d rkey=%s seed=%d max=%d %s", c.b.addr, c.b.rkey, i, c.max, limits)
	}
	for i, c := range all {
		if all[i].dead = c.defective("loop"); all[i].dead {
			continue
		}
		operations += 3 * n
		if count := c.b.do("get mr=0 off=%d", 8*c.max).number(c.b, "is"); count != uint64(n) {
			tr.Errorf("%d atomics took effect, not %d", count, n)
		}
	}
	all = slices.DeleteFunc(all, func(c connection) bool { return c.dead })
	for i, c := range all {
		c.b.begin("sink qp=0 mr=0 seed=%d max=%d %s", i, c.max, limits)
		c.a.begin("stream qp=0 mr=0 seed=%d max=%d %s", i, c.max, limits)
	}
	for _, c := range all {
		if c.defective("stream") {
			continue
		}
		operations += n
		if got := c.b.reply("sink").number(c.b, "n"); got != uint64(n) {
			tr.Errorf("%d messages arrived, not %d", got, n)
		}
	}
	return operations
}

// connection is a requester and a responder under a fault.
type connection struct {
	a, b *endpoint
	max  int // bytes of a message
	dead bool
}

// defective waits for the end of the requester's work. It must be a success, or the end that
// a known defect of the kernel causes. The other connections continue in that case.
func (c *connection) defective(command string) bool {
	tr := c.a.trial
	tr.Helper()
	text := c.a.line(command)
	if d := tr.known; d == nil || !c.a.machine.isKernel() || !lab.has(d.from) || !strings.Contains(text, d.ends) {
		c.a.parse(command, text)
		return false
	}
	tr.Logf("%s: %s: %s", c.a.machine.name, command, text)
	tr.row.Defect = true
	tr.moment = ending(tr.conversation(c.a, c.b))
	return true
}

// conversation returns the packets between queue pair 0 of one endpoint and that of another.
func (tr *trial) conversation(a, b *endpoint) (packets []packet) {
	tr.Helper()
	tr.collect()
	to := map[string]string{} // an address and a number
	for _, e := range []*endpoint{a, b} {
		for _, addr := range []string{e.machine.addr, e.machine.addr6} {
			to[addr] = e.qpn[0]
		}
	}
	for _, p := range tr.packets {
		if r, err := parseRoCE(p.data); r == nil || err != nil || r.intact() != nil {
			continue
		} else if q, err := wire.Parse(r.body()); err == nil && to[r.route.Dst.String()] == fmt.Sprint(q.DestQP()) {
			packets = append(packets, p)
		}
	}
	return packets
}

// TestCongestion: one packet in ten is marked on its way. gorxe, whose ECN is on, answers marked
// packets with CNPs. rdma_rxe neither sends CNPs nor obeys them. All data is right, every
// completion is a success, and the checker finds no violation.
func TestCongestion(t *testing.T) {
	if kernels {
		return // a kernel has no rules
	}
	for _, direction := range []string{"to gorxe", "to the kernel"} {
		t.Run(direction, func(t *testing.T) {
			tr := begin(t, row{Section: "Faults", Case: "marks 10 % " + direction, Role: "both", Family: "both"})
			rule := "packet mark,p=10%,direction=" + map[string]string{"to gorxe": "in", "to the kernel": "out"}[direction]
			plain := *lab.gorxe
			lab.gorxe.under = slices.Insert(slices.Clone(plain.under), len(plain.under)-1, "--fault", rule)
			defer func() { lab.gorxe.under = plain.under }()
			before, handled := plain.counter(t, "np_cnp_sent"), plain.counter(t, "rp_cnp_handled")
			operations := allOperations(tr, faultOperations(t), func() (end func()) { return func() {} })
			notes := plain.counter(t, "np_cnp_sent") - before
			tr.row.Note = fmt.Sprintf("%d operations, %d CNPs of gorxe", operations, notes)
			if (notes > 0) != (direction == "to gorxe") {
				t.Errorf("gorxe has sent %d CNPs", notes)
			}
			if n := plain.counter(t, "rp_cnp_handled") - handled; n != 0 {
				t.Errorf("the kernel has sent %d CNPs", n)
			}
			tr.collect()
			for _, x := range tr.findings() {
				if x.Severity == conformance.Violation {
					t.Errorf("%v", &x)
				}
			}
		})
	}
}

// counter reads a counter of the machine's device.
func (m *machine) counter(t *testing.T, name string) uint64 {
	t.Helper()
	p := m.verbs("cat", "/sys/class/infiniband/rxe0/ports/1/hw_counters/"+name)
	if code, err := p.Wait(programTimeout); code != 0 || err != nil {
		t.Fatalf("%s: %d %v", name, code, err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(p.Output()), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

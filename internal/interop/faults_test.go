package interop

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
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
	// Or the faults would hit the resolution of addresses, which nobody repeats
	// for the length of a case.
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
	// What comes to the guest passes ifb0, what it sends eth0.
	for _, direction := range []struct{ name, device string }{{"to gorxe", "eth0"}, {"to the kernel", "ifb0"}} {
		for _, fault := range faults {
			name := fault.name + " " + direction.name
			t.Run(name, func(t *testing.T) {
				tr := begin(t, row{Section: "Faults", Case: name, Role: "both", Family: "both"})
				tr.damaged = direction.device == "eth0" && strings.HasPrefix(fault.name, "corruption")
				underFault(tr, direction.device, fault.netem)
			})
		}
	}
}

// faultTimeout is 537 ms. Eight of them in vain are the end: so an emulated
// machine may stand still for four seconds. (rdma_rxe itself never gives up at
// retry_cnt 7, which the specification does not have.)
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

// underFault does the operations on four connections at once, so that one is at
// work while another waits for a timeout. Each end is the requester of two, one over
// IPv4 and one over IPv6.
func underFault(tr *trial, device, netem string) {
	const (
		max   = 8000 // up to 8 packets
		pairs = 4
	)
	n := (faultOperations(tr.T) + 4*pairs - 1) / (4 * pairs) // messages: written, read and counted; and as many sent
	tr.limit = longPatience
	type connection struct{ a, b *endpoint }
	var all []connection
	for i := range pairs {
		requester, responder := lab.gorxe, lab.guest
		if i%2 == 1 {
			requester, responder = responder, requester
		}
		a, b := tr.pair(requester, responder, []family{ipv4, ipv6}[i/2], 1<<18, path{kind: typeRC, more: faultTimeout})
		all = append(all, connection{a, b})
	}
	if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc add dev %s root netem limit 10000 %s", device, netem)); err != nil {
		tr.Fatal(err)
	}
	defer func() {
		if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc del dev %s root", device)); err != nil {
			tr.Error(err)
		}
	}()
	limits := fmt.Sprintf("n=%d max=%d ms=%d", n, max, longPatience.Milliseconds())
	for i, c := range all {
		c.a.begin("loop qp=0 mr=0 raddr=%d rkey=%s seed=%d %s", c.b.addr, c.b.rkey, i, limits)
	}
	for _, c := range all {
		c.a.reply("loop")
		if count := c.b.do("get mr=0 off=%d", 8*max).number(c.b, "is"); count != uint64(n) {
			tr.Errorf("%d atomics took effect, not %d", count, n)
		}
	}
	for i, c := range all {
		c.b.begin("sink qp=0 mr=0 seed=%d %s", i, limits)
		c.a.begin("stream qp=0 mr=0 seed=%d %s", i, limits)
	}
	for _, c := range all {
		c.a.reply("stream")
		if got := c.b.reply("sink").number(c.b, "n"); got != uint64(n) {
			tr.Errorf("%d messages arrived, not %d", got, n)
		}
	}
	tr.row.Note = fmt.Sprintf("%d operations", 4*n*pairs)
}

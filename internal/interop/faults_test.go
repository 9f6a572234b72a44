package interop

import (
	"fmt"
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
	{"delay 300 ms, above the timeout", "delay 300ms"},
}

// TestFaults: in each direction, in both roles, all data is right and every
// completion is a success.
func TestFaults(t *testing.T) {
	// Or the faults would hit the resolution of addresses, which nobody repeats
	// for the length of a case.
	for m, peer := range map[*machine][2]string{lab.gorxe: {tap, "02:00:00:00:77:02"}, lab.guest: {"eth0", "02:00:00:00:77:01"}} {
		addr := map[*machine]string{lab.gorxe: guestIPv4, lab.guest: hostIPv4}[m]
		if _, err := m.sh(fmt.Sprintf("ip neigh replace %s lladdr %s dev %s nud permanent", addr, peer[1], peer[0])); err != nil {
			t.Fatal(err)
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
			if fault.name == "loss 1 %" && !full {
				continue
			}
			eachRole(t, "Faults", fault.name+" "+direction.name, ipv4, func(tr *trial, server, client *machine) {
				tr.damaged = direction.device == "eth0" && strings.HasPrefix(fault.name, "corruption")
				underFault(tr, server, client, direction.device, fault.netem)
			})
		}
	}
}

// faultTimeout is 268 ms. Eight of them in vain are the end: so an emulated
// machine may stand still for two seconds. (rdma_rxe itself never gives up at
// retry_cnt 7, which the specification does not have.)
const faultTimeout = "timeout=16 retry=7"

// faultMessages is how many messages are written, read and counted, and how many
// are sent.
func faultMessages() int {
	if full {
		return 2500 // 10,000 operations
	}
	return 100
}

func underFault(tr *trial, server, client *machine, device, netem string) {
	const max = 8000 // up to 8 packets
	n := faultMessages()
	tr.limit = longPatience
	a, b := tr.pair(client, server, ipv4, 1<<18, path{kind: typeRC, more: faultTimeout})
	if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc add dev %s root netem limit 10000 %s", device, netem)); err != nil {
		tr.Fatal(err)
	}
	defer func() {
		if _, err := lab.guest.sh(fmt.Sprintf("tc qdisc del dev %s root", device)); err != nil {
			tr.Error(err)
		}
	}()
	a.do("loop qp=0 mr=0 n=%d max=%d raddr=%d rkey=%s ms=%d", n, max, b.addr, b.rkey, longPatience.Milliseconds())
	if count := b.do("get mr=0 off=%d", 8*max).number(b, "is"); count != uint64(n) {
		tr.Errorf("%d atomics took effect, not %d", count, n)
	}
	sink := b.begin("sink qp=0 mr=0 n=%d max=%d ms=%d", n, max, longPatience.Milliseconds())
	a.do("stream qp=0 mr=0 n=%d max=%d ms=%d", n, max, longPatience.Milliseconds())
	b.reply(sink)
	tr.row.Note = fmt.Sprintf("%d operations", 4*n)
}

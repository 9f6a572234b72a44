package interop

import (
	"fmt"
	"testing"
)

// TestLinkMTU: the path MTU is more than the links can carry. No packet may be fragmented,
// so long ones do not arrive.
func TestLinkMTU(t *testing.T) {
	setMTU := func(mtu int) {
		t.Helper()
		for _, m := range []*machine{lab.gorxe, lab.guest} {
			if _, err := m.sh(fmt.Sprintf("ip link set %s mtu %d", m.device, mtu)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { setMTU(linkMTU) })
	setMTU(1500)
	eachFamily(t, "Mistakes", "path MTU 4096 on links of 1500 bytes", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC, mtu: 4096, more: "timeout=16 retry=3"})
		for id := range 2 {
			b.do("recv qp=0 id=%d mr=0 off=0 len=8192", id)
		}
		request(opSend, 1024, 0)(a, b)
		a.polled("a short SEND", statusSuccess)
		request(opSend, 4096, 0)(a, b)
		how := "does not complete"
		if list := a.do("poll n=1 ms=10000").completions; len(list) == 1 {
			how = "ends with " + statusName[list[0].status]
		}
		tr.row.Note = "taken by ibv_modify_qp; SEND of 1 KiB arrives, of 4 KiB " + how
		switch {
		case client.isKernel():
			tr.row.Settled = "It takes a path MTU of 4096 on a link of 1500 bytes; a SEND of 4 KiB " + how + "."
		case how != "ends with RETRY_EXC_ERR":
			tr.Error(how)
		}
	})
}

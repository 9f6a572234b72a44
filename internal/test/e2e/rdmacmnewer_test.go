package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// newerCM are the pairs of cmPrograms that run with a newer rdma-core. Those that are not
// here need a shell, or are no programs of the unpacked release.
var newerCM = map[string]rank{
	"rping": complete, "rping 1000": standard, "rping own qp": complete, "rping any": complete, "rping IPv6": complete,
	"rping link-local": complete, "ucmatose": complete, "ucmatose migrate": standard, "ucmatose tos": complete, "udaddy": standard,
	"mckey": complete, "rdma_client": complete, "rstream": standard, "rstream all": complete, "rstream nonblocking": complete,
	"rstream blocking": complete, "rstream async": complete, "riostream": complete, "riostream all": complete, "ib_write_bw": complete,
	"ib_write_lat": complete, "ib_read_bw": complete, "ib_read_lat": complete, "ib_send_bw": complete, "ib_send_bw UD": complete,
	"ib_send_lat": complete, "ib_atomic_bw": complete, "ib_atomic_lat": complete,
}

// newerCMOnly are pairs with options that only the newer programs have. cmtime makes up queue
// pair numbers, from 1000 on at both ends. Within one device that is a conflict, also in
// Linux (cm.c: cm_insert_remote_qpn), so the client begins elsewhere.
var newerCMOnly = []cmPair{
	{"cmtime", standard, "cmtime -p PORT -c 50", "cmtime -s HOST -p PORT -c 50 -q 500000", listensCM, false, `(?s)cm_conn +50.*establish `, ``},
	{"ib_write_bw IPv6", standard, "ib_write_bw -R -p PORT -F -n 100 --ipv6-addr", "ib_write_bw -R -p PORT -F -n 100 --ipv6-addr fd88::1", listensCM, false, tableRow.String(), ``},
	{"cmtime threads", complete, "cmtime -p PORT -c 50 -n 4", "cmtime -s HOST -p PORT -c 50 -n 4 -q 500000", listensCM, false, `(?s)cm_conn +50.*establish `, ``},
	{"ib_send_lat IPv6", complete, "ib_send_lat -R -p PORT -F -n 100 --ipv6-addr", "ib_send_lat -R -p PORT -F -n 100 --ipv6-addr fd88::1", listensCM, false, tableRow.String(), ``},
}

// TestRDMACMNewer: programs of a newer rdma-core connect by address, with each other and with
// those of this system.
func TestRDMACMNewer(t *testing.T) {
	besideOthers(t)
	need(t, "rping", "ib_write_bw")
	if native != "" || !selection.takes(standard) {
		return
	}
	r := newer(t)
	if _, err := os.Stat(filepath.Join(r.root, "usr/bin/rping")); err != nil {
		testenv.Missing(t, "the newer rdma-core has no rdmacm-utils (scripts/setup.sh unpacks them): %v", err)
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	pairs := slices.Clone(newerCMOnly)
	for _, c := range cmPrograms {
		if r, ok := newerCM[c.name]; ok {
			c.rank = r
			pairs = append(pairs, c)
		}
	}
	for j, o := range []topology{
		{name: "one daemon", server: r.beside(da.run), client: r.beside(da.run), host: a, daemon: da},
		{name: "two daemons", server: r.beside(da.run), client: r.beside(db.run), host: a, peer: b, daemon: da},
		{name: "newer to older", server: r.beside(da.run), client: db.run, host: a, peer: b, daemon: da},
		{name: "older to newer", server: da.run, client: r.beside(db.run), host: a, peer: b, daemon: da},
	} {
		for i, c := range pairs {
			if i < len(newerCMOnly) && j >= 2 || !selection.inTurn(c.rank, i, j, 4) {
				continue
			}
			t.Run(o.name+"/"+c.name, func(t *testing.T) { o.connect(t, c) })
		}
	}
}

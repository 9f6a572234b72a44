package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// xrcExchanges are pairs of stock programs with XRC. perftest uses SRQs with XRC, whether it is
// told to or not.
func xrcExchanges() (cases []perftest) {
	add := func(r rank, tool, args string) { cases = append(cases, perftest{tool: tool, args: args, rank: r}) }
	const options = " -x 1 -F -c XRC -n 100"
	add(standard, "ibv_xsrq_pingpong", "-g 1 -n 100 -s 100000")
	add(complete, "ibv_xsrq_pingpong", "-g 1 -n 100 -e")
	add(complete, "ibv_xsrq_pingpong", "-g 1 -n 100 -o")
	add(standard, "ib_send_bw", options+" --use-srq -q 4")
	for _, op := range []string{"send", "write", "read", "atomic"} {
		add(complete, "ib_"+op+"_bw", options)
		add(complete, "ib_"+op+"_bw", options+" -b -q 4")
		r := complete
		if op == "write" {
			r = standard
		}
		add(r, "ib_"+op+"_lat", options)
		if op != "atomic" {
			add(complete, "ib_"+op+"_bw", options+" -a")
			add(complete, "ib_"+op+"_lat", options+" -a")
		}
	}
	add(complete, "ib_send_bw", options+" -e")
	add(complete, "ib_send_lat", options+" -e")
	return cases
}

// TestXRC: stock programs with XRC, within one daemon and between two.
func TestXRC(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_xsrq_pingpong", "ib_send_bw", "rdma_xserver")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "mlx5_0=eth0"), startDaemon(t, b, "--device", "mlx5_0=eth0")
	ways := []topology{
		{name: "one daemon", server: da.run, client: da.run, host: a},
		{name: "two daemons", server: da.run, client: db.run, host: a, peer: b},
	}
	exchangeXRC(t, ways, xrcExchanges())
	connected := ways[1]
	connected.daemon = da
	for _, c := range xrcCM {
		if selection.takes(c.rank) {
			t.Run(connected.name+"/"+c.name, func(t *testing.T) { connected.connect(t, c) })
		}
	}
	t.Run("three clients", func(t *testing.T) {
		port := strconv.Itoa(a.nextPort())
		argv := []string{"ibv_xsrq_pingpong", "-d", "mlx5_0", "-g", "1", "-n", "100", "-e", "-p", port}
		server := da.run(t, append(argv, "-c", "3")...)
		server.listening(must.Get[int](t)(strconv.Atoi(port)))
		for command, wants := range map[string][]string{
			"rdma resource show srq": {"type XRC", "cqn "},
			"rdma resource show qp":  {"type XRC_INI", "type XRC_TGT"},
			gorxe + " status":        {"XRCDS", "XRC_TGT"},
			gorxe + " status --json": {`"xrcds": 1`, `"xrc_srq_num"`},
		} {
			out := da.run(t, strings.Fields(command)...).ok()
			for _, want := range wants {
				if !strings.Contains(out, want) {
					t.Errorf("%s: no %s in\n%s", command, want, out)
				}
			}
		}
		all := []*proc{server}
		for range 3 { // on one device: the server reaches each SRQ through each target
			all = append(all, db.run(t, append(argv, a.addr)...))
		}
		for _, p := range all {
			p.ok()
		}
	})
	if !full {
		return
	}
	for _, r := range []release{newer(t), newest(t)} {
		exchangeXRC(t, []topology{
			{name: "one daemon, " + r.name, server: r.beside(da.run), client: r.beside(da.run), host: a},
			{name: "two daemons, " + r.name, server: r.beside(da.run), client: r.beside(db.run), host: a, peer: b},
		}, xrcExchanges())
	}
}

func exchangeXRC(t *testing.T, ways []topology, cases []perftest) {
	t.Helper()
	for j, o := range ways {
		for i, c := range cases {
			if !selection.inTurn(c.rank, i, j, len(ways)) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s %s", o.name, c.tool, c.args), func(t *testing.T) {
				o.exchange(t, append(append([]string{c.tool}, strings.Fields(c.args)...), "-d", "mlx5_0", "-p", "PORT")...).good(t)
			})
		}
	}
}

// xrcTests are rdma-core's tests of XRC. A run that is not full has the first ones.
var xrcTests = []string{
	"test_cqex.CqExTestCase.test_xrc_traffic_cq_ex", "test_odp.OdpTestCase.test_odp_xrc_traffic",
	"test_qpex.QpExTestCase.test_qp_ex_xrc_send_imm",

	"test_atomic.AtomicTest.test_xrc_atomic_cmp_and_swap", "test_atomic.AtomicTest.test_xrc_atomic_fetch_and_add",
	"test_qpex.QpExTestCase.test_qp_ex_xrc_send", "test_relaxed_ordering.RoTestCase.test_ro_xrc_traffic",
}

// TestRDMACoreXRC: they pass on an adapter.
func TestRDMACoreXRC(t *testing.T) { passByName(t, xrcTests, 3) }

// passByName requires that tests of rdma-core pass on an adapter. A run that is not full has the
// first few.
func passByName(t *testing.T, names []string, few int) {
	t.Helper()
	besideOthers(t)
	need(t, "/usr/bin/python3")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	on := runner{startDaemon(t, a, "--device", "mlx5_0=eth0").run, "mlx5_0"}
	if !full {
		names = names[:few]
	}
	check := func(name string, r release, directory string) {
		t.Run(name, func(t *testing.T) {
			got := runRDMACore(t, on, r, directory, names...)
			for _, name := range names {
				if v := got[name]; v.Result != "pass" {
					t.Errorf("%s: %s %q", name, v.Result, v.Detail)
				}
			}
		})
	}
	check("44", release{}, rdmacoreTests(t))
	if full {
		check("56", newer(t), "/usr/share/doc/rdma-core/tests")
		check("65", newest(t), "/usr/share/doc/rdma-core/tests")
	}
}

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// mlx5CM are the programs of cmPrograms that a run that is not full has with an adapter, each in
// one way: of each kind of connection one.
var mlx5CM = []struct{ way, name string }{
	{"one run", "rping"}, {"with rxe0", "udaddy"}, {"to an adapter", "riostream"},
}

// xrcCM are programs that connect XRC queue pairs, and the same ones with RC.
var xrcCM = []cmPair{
	{"rdma_xserver", standard, "rdma_xserver -p PORT -c x", "rdma_xclient -s HOST -p PORT -c x", listensCM, false, `rdma_xclient: end 0`, `rdma_xserver: end 0`},
	{"rdma_xserver with RC", complete, "rdma_xserver -p PORT -c r", "rdma_xclient -s HOST -p PORT -c r", listensCM, false, `rdma_xclient: end 0`, `rdma_xserver: end 0`},
}

// toAdapter is a pair whose server is on the second host, with rxe0, and whose client has an
// adapter. rxe0 offers to answer 128 READs at a time, and an adapter sends 16 at most: the program
// has to ask for no more, as with a kernel (mlx5_ib_modify_qp).
func toAdapter(c cmPair) cmPair {
	other := strings.NewReplacer("fd88::1", "fd88::2", "fe80::1%", "fe80::2%")
	if strings.HasPrefix(c.name, "ib_read") || strings.HasPrefix(c.name, "ib_atomic") {
		other = strings.NewReplacer(" -F ", " -F -o 16 ")
	}
	c.server, c.client = other.Replace(c.server), other.Replace(c.client)
	return c
}

// TestMLX5RDMACM: programs connect by address, with an adapter at both ends or at one. The full
// run has each program in each way.
func TestMLX5RDMACM(t *testing.T) {
	besideOthers(t)
	need(t, "rping", "qperf", "fi_pingpong", "ib_write_bw", "rdma_xserver")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "mlx5_0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	for _, o := range []topology{
		{name: "one run", both: da.pair, host: a, daemon: da},
		{name: "one daemon", server: da.run, client: da.run, host: a, daemon: da},
		{name: "with rxe0", server: da.run, client: db.run, host: a, peer: b, daemon: da},
		{name: "to an adapter", server: db.run, client: da.run, host: b, peer: a, daemon: db},
	} {
		programs := cmPrograms
		if o.peer == nil {
			programs = slices.Concat(programs, xrcCM)
		}
		for _, c := range programs {
			quick := slices.ContainsFunc(mlx5CM, func(q struct{ way, name string }) bool { return q.way == o.name && q.name == c.name })
			if !quick && !selection.takes(complete) {
				continue
			}
			if o.host == b {
				c = toAdapter(c)
			}
			t.Run(o.name+"/"+c.name, func(t *testing.T) { o.connect(t, c) })
		}
	}
	t.Run("gorxe pair", func(t *testing.T) {
		argv := []string{gorxe, "pair", "--private", "--like", "connectx6", "--device", "mlx5_0=lo",
			"rdma_xserver", "-c", "x", "--", "rdma_xclient", "-s", "127.0.0.1", "-c", "x"}
		start(t, a, nil, argv...).ok()
	})
}

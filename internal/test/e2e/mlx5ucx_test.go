package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMLX5TwoRails: UCX stripes a long message over two adapters by itself.
func TestMLX5TwoRails(t *testing.T) {
	need(t, "ucx_perftest", "unshare")
	if !selection.takes(complete) || native != "" {
		return
	}
	const size, count = 1 << 20, 32
	d := oneRunOf(t, "mlx5_", "127.0.0.1", "127.0.0.2")
	o := topology{both: d.pair, host: d.host}
	least := messages(count * size / 4096 * 2 / 5) // two fifths of them at least on each
	d.carried(t, least, func() {
		argv := slices.Concat([]string{"env", ucxDevices("mlx5_0", "mlx5_1"), "UCX_MAX_RNDV_RAILS=2", "UCX_LOG_LEVEL=info"}, asContainer,
			ucxPair("-t", "tag_bw", "-s", strconv.Itoa(size), "-n", strconv.Itoa(count), "-w", "1", "-p", "PORT"))
		pair := o.exchange(t, argv...)
		out := pair.good(t) + pair.client.Out + pair.server.Out
		for _, lane := range []string{"rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_1:1"} {
			if !strings.Contains(out, lane) {
				t.Errorf("UCX did not choose %s:\n%s", lane, out)
			}
		}
	})
}

// TestMLX5UCXAll: all tests of ucx_perftest over the transport that UCX chooses, which is rc_mlx5
// or ud_mlx5.
func TestMLX5UCXAll(t *testing.T) {
	need(t, "ucx_perftest", "unshare")
	if !selection.takes(complete) || native != "" {
		return
	}
	cases := ucxCases()
	for _, tt := range []struct{ name, tls, lane string }{
		{"default", "", "rc_mlx5/mlx5_0:1"},
		{"ud", "UCX_TLS=ud_mlx5", "ud_mlx5/mlx5_0:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := oneRunOf(t, "mlx5_", "127.0.0.1")
			o := topology{both: d.pair, host: d.host}
			env := []string{"env", ucxDevices("mlx5_0"), "UCX_LOG_LEVEL=info"}
			if tt.tls != "" {
				env = append(env, tt.tls)
			}
			argv := slices.Concat(env, asContainer, ucxPair(ucxBatch(t, release{}, cases)...), []string{"-p", "PORT"})
			d.carried(t, messages(ucxMessages*uint64(len(cases))), func() {
				pair := o.exchange(t, argv...)
				ucxFinished(t, cases, pair.good(t))
				if out := pair.client.Out + pair.server.Out; !strings.Contains(out, tt.lane) {
					t.Errorf("UCX did not choose %s:\n%s", tt.lane, out)
				}
			})
		})
	}
}

// TestMLX5UCXNewer is the same with a newer UCX, whose ucx_perftest is started by mpirun. The
// newest Debian's libucx0 has no transport for verbs.
func TestMLX5UCXNewer(t *testing.T) {
	if !selection.takes(complete) || native != "" {
		return
	}
	r, cases := newer(t), ucxCases()
	for tls, lane := range map[string]string{"ib": "rc_mlx5/mlx5_0:1", "ud_mlx5": "ud_mlx5/mlx5_0:1"} {
		t.Run(tls, func(t *testing.T) {
			d := oneRunOf(t, "mlx5_", "127.0.0.1")
			argv := append([]string{"mpirun.openmpi", "--allow-run-as-root", "-n", "2", "ucx_perftest"}, ucxBatch(t, r, cases)...)
			d.carried(t, messages(ucxMessages*uint64(len(cases))), func() {
				out := d.run(t, slices.Concat([]string{"env", "UCX_TLS=" + tls, ucxDevices("mlx5_0"), "UCX_LOG_LEVEL=info"}, r.argv(argv...))...).ok()
				ucxFinished(t, cases, out)
				if !strings.Contains(out, lane) {
					t.Errorf("UCX did not choose %s:\n%s", lane, out)
				}
			})
		})
	}
}

// TestMLX5MPI: Open MPI, MPICH and OpenSHMEM choose UCX for an adapter, and UCX the adapter and its
// GID, without a word. Only Debian's configuration of Open MPI excludes UCX (pml = ^ucx).
func TestMLX5MPI(t *testing.T) {
	if native != "" || !selection.takes(complete) {
		return
	}
	d := oneRunOf(t, "mlx5_", "127.0.0.1")
	for _, r := range releases(t) {
		for _, p := range parallels {
			t.Run(p.name+"/"+r.name, func(t *testing.T) {
				if p.name == openMPI.name {
					p.start = []string{"mpirun.openmpi", "--oversubscribe", "--mca", "pml", "^v", "--mca", "osc", "^pt2pt"}
				}
				p.silent = true
				p.run(t, d, r, 2, "mlx5_0")
			})
		}
	}
}

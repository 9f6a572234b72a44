package interop

import (
	"strings"
	"testing"
)

// mlx5Section has the cases in which gorxe's device is mlx5_0. What it sends must obey the protocol
// in each.
const mlx5Section = "mlx5_0"

// TestMLX5: programs with libmlx5 on gorxe's adapter, and with librxe on the kernel's device. An
// adapter has 16 READs and atomics under way, and perftest's two ends must agree.
func TestMLX5(t *testing.T) {
	if kernels {
		return
	}
	begun := lab.gorxe.rdma
	if err := lab.startGorxe("mlx5_0"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.startGorxe(begun); err != nil {
			t.Fatal(err)
		}
	}()
	for _, tc := range []struct {
		argv  string
		quick family // of the quick run; "" for none
	}{
		{"ibv_rc_pingpong -c -n 100", ""},
		{"ibv_rc_pingpong -c -n 50 -e -m 256 -s 5001", ""},
		{"ibv_rc_pingpong -c -n 50 -N", ""},
		{"ibv_srq_pingpong -c -n 200 -q 16", ""},
		{"ibv_uc_pingpong -c -n 100", ""},
		{"ibv_ud_pingpong -c -n 100 -s 1000", ""},
		{"ib_send_bw -n 20 -s 65536", ""},
		{"ib_send_bw -n 20 -q 4 --use-srq -s 4096", ""},
		{"ib_send_bw -n 20 -c UD -s 1024", ""},
		{"ib_send_lat -n 20 -s 64", ""},
		{"ib_write_bw -n 20 -c UC -s 3000", ""},
		{"ib_write_bw -n 5 -s 1048576 -m 4096", ""},
		{"ib_write_lat -n 20 -s 2", ""},
		{"ib_read_bw -n 5 -s 1048576 -m 1024 -o 16", ""},
		{"ib_read_lat -n 20 -s 64 -o 16", ""},
		{"ib_atomic_bw -n 20 -A FETCH_AND_ADD -o 16", ""},
		{"ib_atomic_lat -n 20 -A CMP_AND_SWAP -o 16", ""},
	} {
		argv := append(strings.Fields(tc.argv), "-d", "DEVICE", "-p", "PORT")
		if strings.HasPrefix(tc.argv, "ibv_") {
			argv = append(argv, "-g", "GID")
		} else {
			argv = append(argv, "-x", "GID", "-F", "-u", "18")
		}
		eachFamily(t, mlx5Section, tc.argv, tc.quick, func(tr *trial, server, client *machine) {
			tr.exchange(server, client, argv...)
		})
	}
	for _, tc := range []struct {
		kind  int
		name  string
		quick family
	}{
		{typeRC, "RC, every operation and size", ipv4},
		{typeUC, "UC, every operation and size", ""},
	} {
		eachFamily(t, mlx5Section, tc.name, tc.quick, func(tr *trial, server, client *machine) {
			const mtu = 1024
			a, b := tr.pair(client, server, tr.row.Family, 1<<18, path{kind: tc.kind, mtu: mtu})
			for i, size := range []int{0, 1, 3, mtu, 3*mtu + 7, 65536} {
				transfers(a, b, tc.kind, size, 100*i)
			}
		})
	}
}

package interop

import (
	"strings"
	"testing"
)

// TestPingPong: rdma-core's own programs, which compare every byte with -c.
func TestPingPong(t *testing.T) {
	for _, tc := range []struct {
		name  string
		argv  string
		quick family // of the quick run; "" for none
	}{
		{"RC", "ibv_rc_pingpong -c -n 100", ipv4},
		{"RC, events", "ibv_rc_pingpong -c -n 50 -e", ipv4},
		{"RC, MTU 256, odd size", "ibv_rc_pingpong -c -n 50 -m 256 -s 5001", ipv6},
		{"RC, MTU 4096, 1 MiB", "ibv_rc_pingpong -c -n 5 -m 4096 -s 1048576", ""},
		{"RC, SRQ, 16 QPs", "ibv_srq_pingpong -c -n 200 -q 16", ipv4},
		{"UC", "ibv_uc_pingpong -c -n 100", ipv6},
		{"UC, MTU 256, odd size", "ibv_uc_pingpong -c -n 20 -m 256 -s 5001", ""},
		{"UD", "ibv_ud_pingpong -c -n 100 -s 1000", ipv4},
	} {
		argv := append(strings.Fields(tc.argv), "-d", "DEVICE", "-g", "GID", "-p", "PORT")
		eachFamily(t, "Ping-pong", tc.name, tc.quick, func(tr *trial, server, client *machine) {
			tr.exchange(server, client, argv...)
		})
	}
}

// TestPerftest runs the eight programs. Their figures mean nothing here. It leaves out the
// latency tests with -e. perftest 4.5 reads a completion that it does not have if an event
// comes for one that it polled before.
func TestPerftest(t *testing.T) {
	for _, tc := range []struct {
		argv  string
		quick family // of the quick run; "" for none
	}{
		{"ib_send_bw -n 20 -s 65536", ipv4},
		{"ib_send_bw -n 20 -s 4097 -m 256", ""},
		{"ib_send_bw -n 20 -c UC -s 8192", ""},
		{"ib_send_bw -n 20 -c UD -s 1024", ""},
		{"ib_send_bw -n 20 -q 4 --use-srq -s 4096", ipv4},
		{"ib_send_bw -n 20 -b -q 2 -s 4096", ""},
		{"ib_send_lat -n 20 -s 64", ipv6},
		{"ib_send_lat -n 20 -c UD -s 64", ""},
		{"ib_write_bw -n 20 -s 65536", ipv6},
		{"ib_write_bw -n 20 -c UC -s 3000", ipv4},
		{"ib_write_bw -n 5 -s 1048576 -m 4096", ""},
		{"ib_write_lat -n 20 -s 2", ipv4},
		{"ib_read_bw -n 20 -s 65536", ipv4},
		{"ib_read_bw -n 5 -s 1048576 -m 1024", ""},
		{"ib_read_lat -n 20 -s 64", ipv6},
		{"ib_atomic_bw -n 20 -A FETCH_AND_ADD", ipv6},
		{"ib_atomic_lat -n 20 -A CMP_AND_SWAP", ipv4},
	} {
		// An ACK timeout of a second, because an emulated machine pauses.
		argv := append(strings.Fields(tc.argv), "-d", "DEVICE", "-x", "GID", "-p", "PORT", "-F", "-u", "18")
		eachFamily(t, "perftest", tc.argv, tc.quick, func(tr *trial, server, client *machine) {
			tr.exchange(server, client, argv...)
		})
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vmaPort is where the programs of TestLibvma meet.
const vmaPort = "18222"

// vmaRules tell a host to leave the traffic of that port to libvma. The packet socket of a daemon
// gets a copy of each frame, and the host's own TCP would answer, too.
const vmaRules = `table inet libvma {
	chain input {
		type filter hook input priority 0
		iif eth0 meta l4proto { tcp, udp } th dport ` + vmaPort + ` drop
		iif eth0 meta l4proto { tcp, udp } th sport ` + vmaPort + ` drop
	}
}
`

// vmaPrograms are a server, what it says when it is ready, a client, and what that says at its end.
var vmaPrograms = []struct{ name, server, ready, client, end string }{
	{"sockperf UDP", "sockperf server -i 10.88.0.1 -p " + vmaPort, "using recvfrom",
		"sockperf ping-pong -t 2 -i 10.88.0.1 -p " + vmaPort, "# dropped messages = 0; # duplicated messages = 0"},
	{"sockperf TCP", "sockperf server --tcp -i 10.88.0.1 -p " + vmaPort, "using recvfrom",
		"sockperf ping-pong --tcp -t 2 -i 10.88.0.1 -p " + vmaPort, "# dropped messages = 0; # duplicated messages = 0"},
	{"sockperf multicast", "sockperf server --mc-loopback-enable -i 224.4.4.4 -p " + vmaPort, "using recvfrom",
		"sockperf ping-pong --mc-loopback-enable -t 2 -i 224.4.4.4 -p " + vmaPort, "# dropped messages = 0; # duplicated messages = 0"},
	{"iperf3 TCP", "iperf3 -s -1 --forceflush -B 10.88.0.1 -p " + vmaPort, "Server listening",
		"iperf3 -t 2 -c 10.88.0.1 -p " + vmaPort, "iperf Done."},
	{"iperf3 UDP", "iperf3 -s -1 --forceflush -B 10.88.0.1 -p " + vmaPort, "Server listening",
		"iperf3 -u -b 10M -t 2 -c 10.88.0.1 -p " + vmaPort, "iperf Done."},
}

// TestLibvma: sockets over raw packet queue pairs, of two programs of an ordinary user, and across
// a veth. GORXE_LIBVMA has the path of the library (make libvma).
func TestLibvma(t *testing.T) {
	library := os.Getenv("GORXE_LIBVMA")
	if native != "" || library == "" {
		return
	}
	need(t, "sockperf", "iperf3", "nft")
	b, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	library = filepath.Join(scratch, "libvma.so") // where other users may read it
	if err := os.WriteFile(library, b, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("one machine", func(t *testing.T) {
		a, _ := twoHosts(t, 1500)
		a.ip(t, "route add 224.0.0.0/4 dev eth0")
		user, env := nobody(t, a)
		run := func(t *testing.T, argv ...string) *proc {
			return start(t, user, env, append([]string{gorxe, "run", "--like", "connectx6", "--device", "mlx5_0=eth0", "--"}, argv...)...)
		}
		keep := run(t, "sleep", "1000") // the daemon, for its counters
		if !until(programLimit, func() bool { return start(t, user, env, gorxe, "status").wait() == 0 }) || keep.ended() {
			t.Fatal("the daemon does not start")
		}
		for _, p := range vmaPrograms {
			t.Run(p.name, func(t *testing.T) {
				vmaMeets(t, library, p.server, p.ready, p.client, p.end, run, run, func() uint64 {
					var b books
					if err := json.Unmarshal([]byte(start(t, user, env, gorxe, "status", "--json").ok()), &b); err != nil {
						t.Fatal(err)
					}
					return b.Devices[0].Counters["raw_sent_frames"]
				})
			})
		}
	})
	t.Run("across a veth", func(t *testing.T) {
		a, b := twoHosts(t, 1500)
		rules := filepath.Join(t.TempDir(), "rules")
		if err := os.WriteFile(rules, []byte(vmaRules), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*host{a, b} {
			h.ip(t, "route add 224.0.0.0/4 dev eth0")
			start(t, h, nil, "nft", "-f", rules).ok()
		}
		file := filepath.Join(t.TempDir(), "vma.pcapng")
		da := startDaemon(t, a, "--device", "mlx5_0=eth0", "--pcap", file)
		db := startDaemon(t, b, "--device", "mlx5_0=eth0")
		// libvma reads the interface's address in sysfs, and that has those of the namespace where
		// it was mounted.
		runAt := func(d *daemon) func(*testing.T, ...string) *proc {
			return func(t *testing.T, argv ...string) *proc {
				return start(t, d.host, d.env(), append([]string{"unshare", "-m", "sh", "-c", `mount -t sysfs sysfs /sys && exec "$@"`, "sh",
					gorxe, "run", "--"}, argv...)...)
			}
		}
		for _, p := range vmaPrograms {
			t.Run(p.name, func(t *testing.T) {
				vmaMeets(t, library, p.server, p.ready, p.client, p.end, runAt(da), runAt(db), func() uint64 {
					return db.books().Devices[0].Counters["raw_sent_frames"]
				})
			})
		}
		da.end(t)
		for _, protocol := range []string{"udp", "tcp"} {
			filter := fmt.Sprintf("%s.dstport == %s && eth.src == 02:00:00:00:00:02", protocol, vmaPort)
			if out := start(t, a, nil, "tshark", "-r", file, "-Y", filter, "-c", "5000").ok(); strings.Count(out, "10.88.0.2") < 200 {
				t.Errorf("tshark reads of %s\n%s", protocol, tail(out))
			}
		}
	})
}

// vmaMeets runs a server and a client with libvma. Each has sent its traffic as frames.
func vmaMeets(t *testing.T, library, server, ready, client, end string, serve, meet func(*testing.T, ...string) *proc, frames func() uint64) {
	t.Helper()
	with := func(command string) []string {
		return append([]string{"env", "LD_PRELOAD=" + library, "VMA_TRACELEVEL=1"}, strings.Fields(command)...)
	}
	s := serve(t, with(server)...)
	if !until(programLimit, func() bool { return s.ended() || strings.Contains(s.out.String(), ready) }) || s.ended() {
		t.Fatalf("the server does not begin:\n%s", s.out.String())
	}
	before := frames()
	if out := meet(t, with(client)...).ok(); !strings.Contains(out, end) {
		t.Errorf("the client says\n%s", out)
	}
	if n := frames() - before; n < 200 {
		t.Errorf("%d frames were sent", n)
	}
	s.killTree()
	<-s.done
}

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// mlx5Exchanges are pairs of programs that together use each kind of queue, completion and event of
// libmlx5. Each is one of pingpongs and perftests with another device.
var mlx5Exchanges = []string{
	"ibv_rc_pingpong -g 1 -c -t",
	"ibv_rc_pingpong -g 1 -c -N -e",
	"ibv_uc_pingpong -g 1 -c -e",
	"ibv_ud_pingpong -g 1 -c -s 1024",
	"ibv_srq_pingpong -g 1 -c -e",
	"ib_write_bw -x 1 -F -s 64 -n 200 -q 4 --post_list=8",
	"ib_send_bw -x 1 -F -s 64 -n 100 -e",
	"ib_read_bw -x 1 -F -a -n 20",
	"ib_atomic_bw -x 1 -F -n 100",
}

// mlx5Alone are those that rxe0 cannot run: XRC, on-demand paging with explicit requests, and
// device memory.
var mlx5Alone = []string{
	"ibv_xsrq_pingpong -g 1 -e",
	"ibv_rc_pingpong -g 1 -c -o",
	"ibv_rc_pingpong -g 1 -c -N -j",
}

// TestMLX5: stock programs with libmlx5, this system's and a newer one, over two daemons. The
// first daemon has an adapter for its programs. The second one has rxe0, for every other exchange.
func TestMLX5(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw", "rdma", "prometheus-node-exporter")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 4500)
	da, db := startDaemon(t, a, "--device", "mlx5_0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	devinfo, err := exec.LookPath("ibv_devinfo") // a newer loader does not look for it
	must.OK(t, err)
	for name, run := range map[string]launch{"this Debian's": da.run, "newer": newerLibraries(t, da.run)} {
		out := run(t, devinfo, "-d", "mlx5_0").ok()
		if !strings.Contains(out, "0x02c9") || !strings.Contains(out, "PORT_ACTIVE") {
			t.Errorf("%s: %s", name, out)
		}
	}
	ways := []topology{
		{name: "one daemon", server: da.run, client: da.run, host: a, device: "mlx5_0"},
		{name: "with rxe0", server: da.run, client: mlx5AsRXE(db.run), host: a, peer: b, device: "mlx5_0"},
	}
	exchange := func(o topology, line string) {
		t.Run(o.name+"/"+line, func(t *testing.T) {
			argv := append(strings.Fields(line), "-d", o.device, "-p", "PORT")
			if strings.HasPrefix(line, "ibv") {
				argv = append(argv, "-n", "200")
			}
			o.exchange(t, argv...).good(t)
		})
	}
	for i, line := range mlx5Exchanges {
		exchange(ways[i%len(ways)], line)
	}
	for _, line := range mlx5Alone {
		exchange(ways[0], line)
	}
	t.Run("counters", func(t *testing.T) { mlx5Counted(t, da) })
}

// mlx5Counted requires that the counters have what the exchanges did, by mlx5's names and in both
// places, and that node_exporter takes the device for an adapter.
func mlx5Counted(t *testing.T, d *daemon) {
	statistic := " " + d.run(t, "rdma", "statistic").ok()
	for name, least := range map[string]int{"rx_write_requests": 200, "rx_read_requests": 20, "rx_atomic_requests": 100} {
		text := strings.TrimSpace(d.run(t, "cat", "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/"+name).ok())
		if n, err := strconv.Atoi(text); err != nil || n < least || !strings.Contains(statistic, " "+name+" "+text+" ") {
			t.Errorf("%s is %q, less than %d, or not in%s", name, text, least, statistic)
		}
	}
	d.host.ip(t, "link set lo up")
	port := d.host.nextPort()
	exporter := d.run(t, "prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband",
		"--web.listen-address=127.0.0.1:"+strconv.Itoa(port))
	exporter.listening(port)
	defer exporter.killTree()
	want := `node_infiniband_info{board_id="MT_0000000223",device="mlx5_0",firmware_version="20.39.2048",hca_type="MT4123"} 1`
	if page := start(t, d.host, nil, "bash", "-c", fetch, strconv.Itoa(port)).ok(); !strings.Contains(page, want) {
		t.Errorf("no %s in\n%s", want, page)
	}
}

// mlx5AsRXE runs a command line for mlx5_0 with rxe0.
func mlx5AsRXE(run launch) launch {
	return func(t *testing.T, argv ...string) *proc {
		return run(t, strings.Split(strings.ReplaceAll(strings.Join(argv, "\x00"), "mlx5_0", "rxe0"), "\x00")...)
	}
}

// TestMLX5WithUCX: UCX takes its own path to the adapter, which writes work requests itself, and
// carries short and long messages with it.
func TestMLX5WithUCX(t *testing.T) {
	need(t, "ucx_perftest")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 4500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	if out := d.run(t, "ucx_info", "-d").ok(); !strings.Contains(out, "rc_mlx5") || !strings.Contains(out, "ud_mlx5") {
		t.Fatalf("UCX does not know the adapter:\n%s", out)
	}
	run := func(t *testing.T, argv ...string) *proc {
		return d.run(t, append([]string{"env", ucxDevices("mlx5_0"), "UCX_TLS=rc_mlx5,ud_mlx5", "UCX_IB_GID_INDEX=1"}, argv...)...)
	}
	o := topology{server: run, client: run, host: a}
	cases := []ucxCase{{"tag_lat", 8}, {"tag_bw", 1 << 20}, {"ucp_am_bw", 5000}, {"ucp_get", 4096}, {"ucp_fadd", 8}}
	args := append(ucxBatch(t, release{}, cases), "-p", "PORT")
	ucxFinished(t, cases, o.exchange(t, ucxPair(args...)...).good(t))
}

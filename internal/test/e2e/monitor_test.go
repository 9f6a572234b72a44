package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fetch reads a page of a local server, without a program for it.
const fetch = `exec 3<>/dev/tcp/127.0.0.1/$0 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`

// metric is one line of what an exporter says of the device.
var metric = regexp.MustCompile(`(?m)^node_infiniband_(\w+)\{[^}]*device="rxe0"[^}]*\} (\S+)$`)

// TestNodeExporter: prometheus-node-exporter reports what sysfs says, before and
// after there was traffic.
func TestNodeExporter(t *testing.T) {
	besideOthers(t)
	need(t, "prometheus-node-exporter", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	for _, r := range releases(t) {
		t.Run(r.name, func(t *testing.T) {
			a, b := twoHosts(t, 1500)
			a.ip(t, "link set lo up")
			d, far := startDaemon(t, a, "--device", "rxe0=eth0", "--speed", "100"), startDaemon(t, b, "--device", "rxe0=eth0")
			port := strconv.Itoa(a.nextPort())
			exporter := d.run(t, r.argv("prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband",
				"--web.listen-address=127.0.0.1:"+port)...)
			n, _ := strconv.Atoi(port)
			exporter.listening(n)
			for range 2 {
				page := start(t, a, nil, "bash", "-c", fetch, port).ok()
				checkMetrics(t, d, page)
				o := topology{server: d.run, client: far.run, host: a}
				o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
			}
			exporter.killTree()
			works{
				program: "prometheus-node-exporter", version: r.version(t, "version", "prometheus-node-exporter", "--version"),
				started: "`prometheus-node-exporter --collector.infiniband`", result: "the device, with the values of sysfs",
			}.record(t)
		})
	}
}

// checkMetrics compares a page of the exporter with the sysfs files.
func checkMetrics(t *testing.T, d *daemon, page string) {
	t.Helper()
	if info := `node_infiniband_info{board_id="gorxe",device="rxe0",firmware_version="",hca_type="rxe"} 1`; !strings.Contains(page, info) {
		t.Errorf("no %s in\n%s", info, page)
	}
	// The exporter's names, and how many bytes a unit of the file is.
	files := map[string]struct {
		path string
		unit float64
	}{
		"state_id":                          {"state", 1},
		"physical_state_id":                 {"phys_state", 1},
		"rate_bytes_per_second":             {"rate", 1e9 / 8},
		"port_data_transmitted_bytes_total": {"counters/port_xmit_data", 4},
		"port_data_received_bytes_total":    {"counters/port_rcv_data", 4},
		"port_packets_transmitted_total":    {"counters/port_xmit_packets", 1},
		"port_packets_received_total":       {"counters/port_rcv_packets", 1},
		"link_downed_total":                 {"counters/link_downed", 1},
	}
	found := 0
	for _, m := range metric.FindAllStringSubmatch(page, -1) {
		f, ok := files[m[1]]
		if !ok {
			continue
		}
		found++
		text := d.run(t, "cat", "/sys/class/infiniband/rxe0/ports/1/"+f.path).ok()
		var want float64
		if _, err := fmt.Sscan(strings.TrimSuffix(strings.Fields(text)[0], ":"), &want); err != nil {
			t.Fatalf("%s: %q: %v", f.path, text, err)
		}
		if got, err := strconv.ParseFloat(m[2], 64); err != nil || got != want*f.unit {
			t.Errorf("%s is %s, and %s is %q", m[1], m[2], f.path, text)
		}
	}
	if found != len(files) {
		t.Errorf("%d of %d values in\n%s", found, len(files), page)
	}
}

// TestLstopo: hwloc shows the device, as one of OpenFabrics, and takes it for no PCI
// device.
func TestLstopo(t *testing.T) {
	need(t, "lstopo-no-graphics")
	if !selection.takes(standard) {
		return
	}
	for _, r := range releases(t) {
		t.Run(r.name, func(t *testing.T) {
			d := oneDaemon(t)
			out := d.run(t, r.argv("lstopo-no-graphics", "--of", "xml")...).ok()
			device := regexp.MustCompile(`(?s)<object type="OSDev"[^>]* name="rxe0"[^>]*osdev_type="([^"]*)">(.*?)</object>`).FindStringSubmatch(out)
			if device == nil {
				t.Fatalf("no rxe0 in\n%s", out)
			}
			guid := regexp.MustCompile(`name="NodeGUID" value="([^"]*)"`).FindStringSubmatch(device[2])
			want := strings.TrimSpace(d.run(t, "cat", "/sys/class/infiniband/rxe0/node_guid").ok())
			if guid == nil || guid[1] != want || !strings.Contains(device[2], `name="Port1State" value="4"`) {
				t.Errorf("want the GUID %s and state 4 in\n%s", want, device[2])
			}
			before, _, _ := strings.Cut(out, `name="rxe0"`)
			if open := strings.Count(before, `<object type="PCIDev"`); open > 0 && strings.LastIndex(before, "</object>") < strings.LastIndex(before, `<object type="PCIDev"`) {
				t.Errorf("rxe0 belongs to a PCI device:\n%s", out)
			}
			works{
				program: "hwloc: lstopo", version: r.version(t, "lstopo-no-graphics", "lstopo-no-graphics", "--version"),
				started: "`lstopo`", result: "the device, with GUIDs and port",
			}.record(t)
		})
	}
}

// TestParentDevice reads the device's parent as UCX and NCCL do, with two devices.
func TestParentDevice(t *testing.T) {
	need(t, "bash")
	if !selection.takes(core) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--device", "rxe1=127.0.0.1")
	// NCCL (net_ib: ncclIbGetPciPath, topo: ncclTopoGetSubsystem) treats two devices whose
	// paths differ in the last character only as two ports of one adapter. It gives a
	// device on another bus than pci no place. UCX (uct_ib_device) takes vendor and device
	// as those of an adapter, and has a default where numa_node is -1.
	const look = `
set -eu
cd /
for d in rxe0 rxe1; do
	p=$(realpath /sys/class/infiniband/$d/device)
	echo "$p $(basename $(realpath $p/subsystem)) $(basename $(readlink $p/driver))"
	echo $(cat $p/class $p/vendor $p/device $p/subsystem_vendor $p/subsystem_device $p/numa_node $p/uevent)
	test "$(cat $p/local_cpulist)" = "$(cat /sys/devices/system/cpu/present)"
	ls $p/net
	test ! -e $p/modalias
done`
	const want = `/sys/devices/platform/rxe0.gorxe platform gorxe
0x020000 0xffff 0x0000 0xffff 0x0000 -1 DRIVER=gorxe
eth0
/sys/devices/platform/rxe1.gorxe platform gorxe
0x020000 0xffff 0x0000 0xffff 0x0000 -1 DRIVER=gorxe
lo
`
	if out := d.run(t, "bash", "-c", look).ok(); out != want {
		t.Errorf("the parents are\n%s, want\n%s", out, want)
	}
}

// TestSpeed: one speed, wherever a program asks.
func TestSpeed(t *testing.T) {
	need(t, "ibv_devinfo")
	if !selection.takes(core) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0,speed=200", "--device", "rxe1=127.0.0.1")
	for dev, want := range map[string][3]string{
		"rxe0": {"200 Gb/sec (4X HDR)\n", "4X (2)", "50.0 Gbps (64)"},
		"rxe1": {"40 Gb/sec (4X FDR10)\n", "4X (2)", "10.0 Gbps (8)"},
	} {
		rate := d.run(t, "cat", "/sys/class/infiniband/"+dev+"/ports/1/rate").ok()
		info := devinfo(d.run(t, "ibv_devinfo", "-v", "-d", dev).ok())
		if got := [3]string{rate, info["port.1/active_width"], info["port.1/active_speed"]}; got != want {
			t.Errorf("%s: %q, want %q", dev, got, want)
		}
	}
	status := start(t, a, d.env(), gorxe, "status").ok()
	if !strings.Contains(status, "200 Gb/s") || !strings.Contains(status, "40 Gb/s") {
		t.Errorf("gorxe status:\n%s", status)
	}
	if top := start(t, a, d.env(), gorxe, "top", "--count", "1").ok(); !strings.Contains(top, "rxe0: ") || !strings.Contains(top, "rxe1: ") {
		t.Errorf("gorxe top:\n%s", top)
	}
}

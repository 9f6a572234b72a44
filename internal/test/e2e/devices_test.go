package e2e

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// twoDevices are devices of one daemon that reach each other through the host's
// loopback interface.
func twoDevices(t *testing.T) (*daemon, topology) {
	t.Helper()
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	d := startDaemon(t, h, "--device", "rxe0=127.0.0.2", "--device", "rxe1=127.0.0.3")
	other := func(t *testing.T, argv ...string) *proc {
		t.Helper()
		argv = slices.Clone(argv)
		for i, arg := range argv {
			if arg == "rxe0" {
				argv[i] = "rxe1"
			}
		}
		return d.run(t, argv...)
	}
	return d, topology{server: d.run, client: other, host: h}
}

// TestTwoDevices: both devices of a daemon are there, and talk to each other.
func TestTwoDevices(t *testing.T) {
	need(t, "ibv_devices", "ibv_rc_pingpong")
	if !selection.takes(core) {
		return
	}
	d, o := twoDevices(t)
	list := d.run(t, "ibv_devices").ok()
	guids := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\s+rxe([01])\s+([0-9a-f]{16})$`).FindAllStringSubmatch(list, -1) {
		guids[m[2]] = true
	}
	if len(guids) != 2 {
		t.Errorf("not two devices with GUIDs of their own:\n%s", list)
	}
	for i, addr := range []string{"127.0.0.2", "127.0.0.3"} {
		if out := d.run(t, "ibv_devinfo", "-v", "-d", "rxe"+strconv.Itoa(i)).ok(); !strings.Contains(out, "::ffff:"+addr+",") {
			t.Errorf("rxe%d has no GID of %s:\n%s", i, addr, out)
		}
	}
	for tool, r := range map[string]rank{"rc": core, "uc": standard, "ud": standard, "srq": standard} {
		if !selection.takes(r) {
			continue
		}
		t.Run(tool, func(t *testing.T) {
			o.exchange(t, "ibv_"+tool+"_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100", "-s", "1024").good(t)
		})
	}
}

// TestPortCounters: perftest's own reading of the port's counters, which it keeps
// open and reads before and after.
func TestPortCounters(t *testing.T) {
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	const messages, size = 100, 65536
	_, o := twoDevices(t)
	out := o.exchange(t, "ib_write_bw", "-d", "rxe0", "-p", "PORT", "-x", "1", "-F", "-n", strconv.Itoa(messages), "-s", strconv.Itoa(size),
		"--report-counters=counters/port_xmit_data,counters/port_xmit_packets,hw_counters/sent_pkts")
	text := out.good(t)
	// No more than the data, the headers, and what had to be sent again.
	for name, least := range map[string]int{
		"counters/port_xmit_data": messages * size / 4, "counters/port_xmit_packets": messages * size / 4096, "hw_counters/sent_pkts": messages * size / 4096,
	} {
		m := regexp.MustCompile(name + `=(\d+)`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("no %s in:\n%s", name, text)
			continue
		}
		if n, err := strconv.Atoi(m[1]); err != nil || n < least || n > 4*least {
			t.Errorf("%s grew by %s, want %d or somewhat more (%v)", name, m[1], least, err)
		}
	}
}

// TestEightDevices: --devices 8 makes eight devices, which talk to themselves and to
// each other, in a run of its own and in a daemon.
func TestEightDevices(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_devices", "ibv_rc_pingpong", "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	user, env := nobody(t, h)
	eight := regexp.MustCompile(`(?m)^\s+rxe[0-7]\s`)
	list := start(t, user, env, gorxe, "run", "--devices", "8", "--", "ibv_devices").ok()
	if n := len(eight.FindAllString(list, -1)); n != 8 || strings.Count(list, "rxe") != 8 {
		t.Errorf("a run with --devices 8 sees\n%s", list)
	}
	if !until(programLimit, func() bool { return start(t, user, env, gorxe, "status").wait() != 0 }) {
		t.Fatal("the engine of the last gorxe run still answers")
	}
	d := startDaemon(t, h, "--devices", "8")
	on := func(device string) launch {
		return func(t *testing.T, argv ...string) *proc {
			t.Helper()
			argv = slices.Clone(argv)
			argv[slices.Index(argv, "DEVICE")] = device
			return d.run(t, argv...)
		}
	}
	across := topology{server: on("rxe0"), client: on("rxe7"), host: h}
	across.exchange(t, "ib_write_bw", "-d", "DEVICE", "-p", "PORT", "-F", "-x", "1", "-n", "100").good(t)
	for i := range 8 {
		name := "rxe" + strconv.Itoa(i)
		if out := d.run(t, "ibv_devinfo", "-v", "-d", name).ok(); !strings.Contains(out, "::ffff:127.0.0."+strconv.Itoa(i+1)+",") {
			t.Errorf("%s is not on 127.0.0.%d:\n%s", name, i+1, out)
		}
		within := topology{server: on(name), client: on(name), host: h}
		within.exchange(t, "ibv_rc_pingpong", "-d", "DEVICE", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "100").good(t)
	}
}

// TestDevicesOfInterface: --devices INTERFACE makes a device on each address.
func TestDevicesOfInterface(t *testing.T) {
	need(t, "ibv_devices", "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	a.ip(t, "addr add 10.88.0.11/24 dev eth0")
	d := startDaemon(t, a, "--devices", "eth0")
	for i, addr := range []string{"::ffff:10.88.0.1", "::ffff:10.88.0.11", "fd88::1"} {
		if out := d.run(t, "ibv_devinfo", "-v", "-d", "rxe"+strconv.Itoa(i)).ok(); !strings.Contains(out, addr+",") {
			t.Errorf("rxe%d is not on %s:\n%s", i, addr, out)
		}
	}
	if list := d.run(t, "ibv_devices").ok(); strings.Count(list, "rxe") != 3 {
		t.Errorf("not three devices:\n%s", list)
	}
}

// TestBadDevices: what is wrong with the devices of a command line is said of the
// argument, with what would be right.
func TestBadDevices(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo down")
	h.ip(t, "addr flush dev lo")
	user, env := nobody(t, h)
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--devices 0", 2, "--devices 0: invalid device: want a count from 1 to 32"},
		{"--devices 33", 2, "--devices 33: invalid device: want a count from 1 to 32"},
		{"--devices eth7", 125, "--devices eth7: there is no interface of that name"},
		{"--devices lo", 125, "ip address add … dev lo"},
		{"--devices 2", 125, "gorxe: --devices 2: device rxe0=127.0.0.1: bind UDP port 4791 on 127.0.0.1: no usable address"},
		{"--device rxe0=127.0.0.1 --device rxe1=127.0.0.1", 2, "--device rxe1=127.0.0.1: invalid device: rxe0=127.0.0.1 is on that address already"},
		{"--devices 2 --device rxe1=127.0.0.9", 2, "--device rxe1=127.0.0.9: invalid device: rxe1=127.0.0.2 has that name already: name this one rxe2"},
		{"--device rxe0=eth7", 125, "gorxe: --device rxe0=eth7: open interface eth7: no such interface"},
		{"--device rxe0=lo,speed=100", 125, "gorxe: --device rxe0=lo,speed=100: open interface lo: "},
		{"--device rxe0=lo", 125, "gorxe: --device rxe0=lo: open interface lo: no usable address: it is down; set it up with `ip link set lo up`"},
	} {
		for _, command := range []string{"run", "daemon"} {
			code := c.code
			if code == 125 && command == "daemon" {
				code = 1
			}
			argv := append([]string{gorxe, command}, strings.Fields(c.flags)...)
			if command == "run" {
				argv = append(argv, "--", "true")
			}
			p := start(t, user, env, argv...)
			if got := p.wait(); got != code || !strings.Contains(p.out.String(), c.want) {
				t.Errorf("gorxe %s %s: exit status %d, want %d and %q:\n%s", command, c.flags, got, code, c.want, p.out.String())
			}
		}
	}
}

// TestRails: hwloc and UCX see eight rails, and no two with the same parent.
func TestRails(t *testing.T) {
	besideOthers(t)
	need(t, "lstopo-no-graphics", "ucx_info")
	if !selection.takes(standard) || native != "" {
		return
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	out := start(t, h, nil, gorxe, "run", "--private", "--rails", "8", "--", "sh", "-c",
		"lstopo-no-graphics --of console; ucx_info -d; readlink -f /sys/class/infiniband/*/device").ok()
	distinct := func(pattern string) int {
		found := regexp.MustCompile(pattern).FindAllString(out, -1)
		slices.Sort(found)
		return len(slices.Compact(found))
	}
	hwloc, ucx, parents := strings.Count(out, "OpenFabrics"), distinct(`Device: rxe\d:1`), distinct(`(?m)^/sys/devices/.*$`)
	if hwloc != 8 || ucx != 8 || parents != 8 {
		t.Errorf("hwloc sees %d devices, UCX %d, and there are %d parents:\n%s", hwloc, ucx, parents, out)
	}
}

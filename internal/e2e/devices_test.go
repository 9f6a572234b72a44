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

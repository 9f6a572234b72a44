package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// captured are the programs whose traffic is checked: each transport, each operation. Where
// nothing is retransmitted, the amount is small enough for a busy receiver.
var captured = []string{
	"ib_send_bw -c RC -s 65536 -n 20",
	"ib_send_bw -c UC -s 8192 -n 10",
	"ib_send_bw -c UD -s 1024 -n 20",
	"ib_write_bw -c RC -s 65536 -n 20 -q 2",
	"ib_write_bw -c UC -s 8192 -n 10",
	"ib_read_bw -s 65536 -n 20",
	"ib_atomic_bw -A FETCH_AND_ADD -n 20",
	"ib_write_lat -s 8 -n 20",
}

// perftestArgs are those with which one of them meets another.
func perftestArgs(command string) []string {
	return append(strings.Fields(command), "-d", "rxe0", "-p", "PORT", "-F", "-x", strconv.Itoa(gidIPv4))
}

// judged is what the tests read of `gorxe pcap check --json`.
type judged []struct {
	File       string `json:"file"`
	Packets    int    `json:"packets"`
	Violations int    `json:"violations"`
	Flows      []struct {
		Service  string `json:"service"`
		Peer     int    `json:"peer"`
		Requests int    `json:"requests"`
		Bytes    int    `json:"bytes"`
	} `json:"flows"`
}

// check requires that captures have no violation, and traffic of every service in each.
func check(t *testing.T, files ...string) {
	t.Helper()
	p := start(t, &host{}, nil, append([]string{gorxe, "pcap", "check", "--json"}, files...)...)
	code := p.wait()
	var all judged
	if err := json.Unmarshal([]byte(p.out.String()), &all); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, p.out.String())
	}
	if code != 0 || len(all) != len(files) {
		t.Errorf("%s: exit status %d\n%s", p.name, code, p.out.String())
	}
	for _, v := range all {
		bytes, paired := make(map[string]int), 0
		for _, f := range v.Flows {
			bytes[f.Service] += f.Bytes
			if f.Service == "RC" && f.Peer != 0 {
				paired++
			}
		}
		t.Logf("%s: %d packets, %d flows, %d of RC paired, payload %v", filepath.Base(v.File), v.Packets, len(v.Flows), paired, bytes)
		if v.Violations > 0 {
			t.Errorf("%s: %d violations", v.File, v.Violations)
		}
		// What each program sends at least, all of them together.
		for service, least := range map[string]int{"RC": 4 * 20 * 65536, "UC": 2 * 10 * 8192, "UD": 20 * 1024} {
			if bytes[service] < least {
				t.Errorf("%s: %d bytes of %s, want %d", v.File, bytes[service], service, least)
			}
		}
		if paired == 0 {
			t.Errorf("%s: no response was held to its request", v.File)
		}
	}
}

// TestCapture: gorxe's own captures of perftest have no violation, on one device and from
// either end of a network.
func TestCapture(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	notNative(t, "--pcap")
	if !selection.takes(seenIn("TestFaultyNetwork")) {
		return
	}
	files := func(t *testing.T, names ...string) (paths []string) {
		dir := t.TempDir()
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name+".pcapng"))
		}
		return paths
	}
	t.Run("gorxe run", func(t *testing.T) {
		a, _ := twoHosts(t, 4500)
		file := files(t, "run")
		socket := filepath.Join(filepath.Dir(file[0]), "gorxe.sock")
		argv := []string{gorxe, "run", "--socket", socket, "--device", "rxe0=eth0", "--pcap", file[0], "--", "sh", "-c", pairs(t, a)}
		text := start(t, a, nil, argv...).ok()
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			var r [2]result
			if err := json.Unmarshal([]byte(line), &r); err != nil || r[0].Code != 0 || r[1].Code != 0 {
				t.Errorf("%v: %s", err, line)
			}
		}
		if _, err := os.Stat(socket); err == nil {
			t.Error("gorxe run has returned, and its daemon is left")
		}
		check(t, file...)
	})
	t.Run("two daemons", func(t *testing.T) {
		a, b := twoHosts(t, 4500)
		file := files(t, "server", "client")
		da := startDaemon(t, a, "--device", "rxe0=eth0", "--pcap", file[0])
		db := startDaemon(t, b, "--device", "rxe0=eth0", "--pcap", file[1])
		two := topology{name: "two daemons", server: da.run, client: db.run, host: a, device: "rxe0"}
		for _, command := range captured {
			two.exchange(t, perftestArgs(command)...).good(t)
		}
		da.end(t)
		db.end(t)
		check(t, file...)
	})
}

// pairs is a shell script that runs each program as server and client.
func pairs(t *testing.T, h *host) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var script []string
	for _, command := range captured {
		port := strconv.Itoa(h.nextPort())
		line := strings.Join(append([]string{roleEnv + "=pair", self, port, h.addr}, perftestArgs(command)...), " ")
		script = append(script, strings.ReplaceAll(line, "PORT", port))
	}
	return strings.Join(script, " && ")
}

// end stops a daemon, which completes what it writes.
func (d *daemon) end(t *testing.T) {
	t.Helper()
	d.idle()
	if err := syscall.Kill(d.pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(); code != 0 {
		t.Errorf("gorxe daemon: exit status %d\n%s", code, d.out.String())
	}
}

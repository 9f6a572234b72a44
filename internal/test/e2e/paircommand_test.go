package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPairCommand: gorxe pair starts the client when the server listens, on one device and
// on two hosts, and its exit code is the worse one.
func TestPairCommand(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw", "sh", "readlink")
	if !selection.takes(core) {
		return
	}
	h, _ := twoHosts(t, 1500)
	socket := filepath.Join(t.TempDir(), "gorxe.sock")
	pair := func(words ...string) *proc {
		return start(t, h, nil, append([]string{gorxe, "pair"}, words...)...)
	}
	onDevice := func(words ...string) *proc {
		return pair(append([]string{"--socket", socket, "--device", "rxe0=lo"}, words...)...)
	}
	// The machine may be busy: a long timeout, and -F, because perftest fails without it if it cannot measure its clock.
	const server = "exec ib_write_bw -F -d rxe0 -x 1 -n 20 -u 20"
	if out := onDevice("sh", "-c", server, "--", "sh", "-c", server+" 127.0.0.1").ok(); strings.Count(out, "BW average") != 2 {
		t.Errorf("on one device:\n%s", out)
	}
	ns := "readlink /proc/self/ns/net; "
	out := pair("--hosts", "sh", "-c", ns+server, "--", "sh", "-c", ns+server+" 192.0.2.1").ok()
	spaces := make(map[string]string) // of the server, and of the client
	for line := range strings.Lines(out) {
		if end, space, ok := strings.Cut(line, ": net:["); ok {
			spaces[space] = end
		}
	}
	if strings.Count(out, "BW average") != 2 || len(spaces) != 2 {
		t.Errorf("on two hosts:\n%s", out)
	}
	for _, c := range []struct {
		name string
		argv []string
		code int
	}{
		{"the client fails, and the server would wait", []string{"sh", "-c", server, "--", "sh", "-c", "exit 7"}, 7},
		{"the server fails", []string{"sh", "-c", strings.TrimPrefix(server, "exec ") + "; exit 9", "--", "sh", "-c", server + " 127.0.0.1"}, 9},
		{"the server does not listen", []string{"false", "--", "true"}, 125},
		{"the server takes too long", []string{"--timeout", "100ms", "sleep", "1000", "--", "true"}, 125},
		{"the server does not end by itself", []string{"--stop-server", "sh", "-c", server, "--", "true"}, 0},
	} {
		p := onDevice(c.argv...)
		if code := p.wait(); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.name, code, c.code, p.out.String())
		}
	}
}

// TestPairVerdict: one verdict is about both ends of a pair. On two hosts each end has its own, and with
// --verdict-on-failure only the end that failed keeps it.
func TestPairVerdict(t *testing.T) {
	besideOthers(t)
	need(t, "ibv_rc_pingpong")
	if !selection.takes(standard) {
		return
	}
	j := newTrial(t)
	server := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-n", "20"}
	pair := func(flags []string, more ...string) *proc {
		return start(t, j.host, nil, slices.Concat([]string{gorxe, "pair"}, flags, server, []string{"--"}, server, more)...)
	}
	onDevice := []string{"--socket", j.socket, "--device", "rxe0=eth0", "--verdict", j.dir}
	pair(onDevice, j.addr).ok()
	j.has(t, "# Verdict: the program ended well\n", " packets in 2 flows.", " obeyed it, in ")

	j.dir += "-hosts"
	failing := slices.Concat([]string{gorxe, "pair", "--hosts", "--verdict-on-failure", j.dir}, server,
		[]string{"--", "sh", "-c", strings.Join(server, " ") + " 192.0.2.1; exit 7"})
	if code := start(t, j.host, nil, failing...).wait(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(j.dir, "server")); !os.IsNotExist(err) {
		t.Errorf("the server ended well, and has a verdict: %v", err)
	}
	j.dir = filepath.Join(j.dir, "client")
	j.has(t, "# Verdict: the program failed with exit status 7\n", " obeyed it, in ")
}

package e2e

import (
	"fmt"
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
	// The machine may be busy: a long timeout, and -F, because perftest fails without it if it
	// cannot measure its clock.
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
	if !selection.takes(seenIn("TestPrivateDaemon")) {
		return // and cmd/internal/pair has tests of what the command itself does at once
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
		{"a fault rule loses a message", []string{"--fault", "packet drop,opcode=RC_RDMA_WRITE_LAST,first=1", "sh", "-c", server, "--", "sh", "-c", server + " 127.0.0.1"}, 0},
		{"a fault rule never fires", []string{"--fault", "packet drop,opcode=UD_SEND_ONLY", "sh", "-c", server, "--", "sh", "-c", server + " 127.0.0.1"}, 3},
		{"the server does not end by itself", []string{"--stop-server", "sh", "-c", server, "--", "true"}, 0},
	} {
		p := onDevice(c.argv...)
		if code := p.wait(); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.name, code, c.code, p.out.String())
		}
	}
}

// TestPairReady: gorxe pair knows a server that listens by RDMA CM, also on two hosts and under one
// run, or on a Unix socket, or that writes a line. If there is no sign, it says what it has looked
// for.
func TestPairReady(t *testing.T) {
	besideOthers(t)
	need(t, "rping", "ib_write_bw", "python3")
	notNative(t, "gorxe pair")
	if !selection.takes(standard) {
		return
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	dir := t.TempDir()
	rping := func(flag string) []string { return []string{"rping", flag, "-a", "{address}", "-C", "2", "-v"} }
	unix := fmt.Sprintf("import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('%s/unix'); s.listen(); time.sleep(1000)", dir)
	for i, c := range []struct {
		name           string
		flags          []string
		server, client []string
		code           int
		says           string
	}{
		{"RDMA CM", nil, rping("-s"), rping("-c"), 0, "rdma-ping-1"},
		{"RDMA CM with 127.0.0.1", []string{"--private"}, []string{"rping", "-s", "-a", "127.0.0.1", "-C", "2"}, []string{"rping", "-c", "-a", "127.0.0.1", "-C", "2", "-v"}, 0, "rdma-ping-1"},
		{"RDMA CM on two hosts", []string{"--hosts"}, rping("-s"), rping("-c"), 0, "rdma-ping-1"},
		{"RDMA CM under one run", []string{"--private", "--verdict", filepath.Join(dir, "verdict")}, rping("-s"), rping("-c"), 0, "rdma-ping-1"},
		{"perftest", []string{"--private"}, []string{"ib_write_bw", "-R", "-F", "-n", "20"}, []string{"ib_write_bw", "-R", "-F", "-n", "20", "{address}"}, 0, "BW average"},
		{"a Unix socket", []string{"--private", "--stop-server"}, []string{"python3", "-c", unix}, []string{"echo", "the client ran"}, 0, "the client ran"},
		{"a line", []string{"--private", "--stop-server", "--ready-when", "on port [0-9]+"}, []string{"sh", "-c", "echo up on port 7; exec sleep 1000"}, []string{"echo", "the client ran"}, 0, "the client ran"},
		{"no sign", []string{"--private", "--timeout", "200ms"}, []string{"sleep", "1000"}, []string{"true"}, 125, "neither on a TCP port, nor on a Unix socket, nor by RDMA CM (rdma_listen): the client was not started. Give it more time with --timeout, or tell with --ready-when"},
		{"no such line", []string{"--private", "--timeout", "200ms", "--ready-when", "up"}, []string{"sleep", "1000"}, []string{"true"}, 125, `no line of the server's output matches --ready-when "up"`},
		{"no regular expression", []string{"--ready-when", "("}, []string{"true"}, []string{"true"}, 2, "is not a regular expression"},
	} {
		socket := []string{fmt.Sprintf("GORXE_SOCKET=%s/s%d", dir, i)}
		if slices.Contains(c.flags, "--private") || slices.Contains(c.flags, "--hosts") {
			socket = nil
		}
		p := start(t, h, socket, slices.Concat([]string{gorxe, "pair"}, c.flags, c.server, []string{"--"}, c.client)...)
		if code := p.wait(); code != c.code || !strings.Contains(p.out.String(), c.says) {
			t.Errorf("%s: exit status %d, want %d and %q\n%s", c.name, code, c.code, c.says, p.out.String())
		}
	}
}

// TestPairVerdict: one verdict is about both ends of a pair. On two hosts each end has its own, and
// with --verdict-on-failure only the end that failed keeps it.
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
	j.has(t, "# Verdict: the pair ended well\n", "\n`"+gorxe+" pair --socket ", " packets in 2 flows.", " obeyed it, in ")

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
	j.has(t, "# Verdict: the client failed with exit status 7\n", " obeyed it, in ")
}

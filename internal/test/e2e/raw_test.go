package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The addresses of programs. The device's own need not be known.
const rawServer, rawClient = "02:00:00:00:00:02", "02:00:00:00:00:01"

// TestRawEthernet: perftest's programs for raw packets, within a daemon and across a veth. Frames
// that find no receive are lost, as with an adapter, and the programs do not tell when they have
// posted theirs. So a short run has a client that nobody hears, and rdma-core's tests have traffic
// (shortOnMLX5).
func TestRawEthernet(t *testing.T) {
	besideOthers(t)
	need(t, "raw_ethernet_bw", "raw_ethernet_lat", "stdbuf")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	da := startDaemon(t, a, "--device", "mlx5_0=eth0")
	client, server := rawArgs("client"), rawArgs("server")
	alone := append([]string{"raw_ethernet_bw", "-s", "1000", "-n", "1000"}, client...)
	if out := da.run(t, alone...).ok(); !strings.Contains(out, "MsgRate") {
		t.Errorf("no rate in\n%s", out)
	}
	if !selection.takes(complete) {
		return
	}
	db := startDaemon(t, b, "--device", "mlx5_0=eth0")
	for _, way := range []struct {
		name string
		peer *daemon
	}{{"one daemon", da}, {"across a veth", db}} {
		for _, program := range [][]string{{"raw_ethernet_lat", "-n", "100"}, {"raw_ethernet_bw", "-D", "2"}} {
			t.Run(way.name+"/"+program[0], func(t *testing.T) {
				s := da.run(t, append(append([]string{"stdbuf", "-oL"}, program...), server...)...)
				if !until(programLimit, func() bool { return s.ended() || strings.Contains(s.out.String(), "MAC attached") }) {
					t.Fatal("the server does not begin")
				}
				way.peer.run(t, append(program, client...)...).ok()
				s.ok()
			})
		}
	}
}

// TestRawToSocket: a program that writes the queues of a raw packet queue pair itself (libvma does)
// exchanges datagrams with an ordinary socket at the other end of a veth. Its queues are memory of
// its own, though it prefers those of the device's file. Both kinds of capture have each frame.
func TestRawToSocket(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	const datagrams = 600 // more than either queue has room for
	a, b := twoHosts(t, 1500)
	bin, dir := compile(t, "rawdv"), t.TempDir()
	file, live := filepath.Join(dir, "daemon.pcapng"), filepath.Join(dir, "live.pcapng")
	exchange := func(t *testing.T, d *daemon) {
		t.Helper()
		peer := start(t, b, nil, bin, "echo", fmt.Sprint(datagrams))
		if !until(programLimit, func() bool { return strings.Contains(peer.out.String(), "listens") }) {
			t.Fatal("the socket does not listen")
		}
		want := fmt.Sprintf("%d datagrams came back, 0 without checksums\n", datagrams)
		if got := d.run(t, bin, "mlx5_0", fmt.Sprint(datagrams)).ok(); got != want {
			t.Errorf("the program says\n%sand not\n%s", got, want)
		}
		peer.ok()
		d.end(t)
	}
	t.Run("--pcap", func(t *testing.T) {
		exchange(t, startDaemon(t, a, "--device", "mlx5_0=eth0", "--pcap", file))
		checkFrames(t, file, datagrams)
	})
	t.Run("extcap", func(t *testing.T) {
		d := startDaemon(t, a, "--device", "mlx5_0=eth0")
		p := start(t, a, d.env(), gorxe, "extcap", "--capture", "--extcap-interface", "gorxe", "--fifo", live)
		if !until(programLimit, func() bool { i, err := os.Stat(live); return err == nil && i.Size() > 0 }) {
			t.Fatal("the capture does not begin")
		}
		exchange(t, d)
		p.ok()
		checkFrames(t, live, datagrams)
	})
}

// checkFrames requires that a capture has the datagrams of rawdv.c, both ways.
func checkFrames(t *testing.T, file string, datagrams int) {
	t.Helper()
	sent, back := framesOf(t, file, "\x0a\x58\x00\x01"), framesOf(t, file, "\x0a\x58\x00\x02")
	if sent != datagrams || back != datagrams {
		t.Errorf("the capture has %d frames out and %d in", sent, back)
	}
}

// framesOf counts the datagrams of rawdv.c in a capture, by their source.
func framesOf(t *testing.T, file, source string) (n int) {
	t.Helper()
	for p := range packetsOf(t, file) {
		if len(p.Frame) > 42 && string(p.Frame[26:30]) == source && bytes.Equal(p.Frame[34:38], []byte("\x12\x67\x12\x67")) {
			n++
		}
	}
	return n
}

// rawArgs are the arguments of an end of perftest's programs for raw packets.
func rawArgs(end string) []string {
	from, to := rawClient, rawServer
	if end == "server" {
		from, to = to, from
	}
	return []string{"-d", "mlx5_0", "--" + end, "-B", from, "-E", to}
}

// TestRawPair: frames of gorxe pair --hosts reach the other host: over the veth, and without
// CAP_NET_RAW over the segments of the two daemons, which are joined. Some may be lost.
func TestRawPair(t *testing.T) {
	besideOthers(t)
	need(t, "raw_ethernet_bw", "stdbuf", "setpriv")
	notNative(t, "gorxe pair")
	if !selection.takes(standard) {
		return
	}
	h, _ := twoHosts(t, 1500)
	figures := regexp.MustCompile(`server: +\d+ +(\d+) +[\d.]+ +[\d.]+`)
	without := []string{"setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"}
	for name, under := range map[string][]string{"over the veth": nil, "over joined segments": without} {
		argv := []string{gorxe, "pair", "--hosts", "--like", "connectx6", "--ready-when", "MAC attached"}
		argv = append(append(argv, under...), append([]string{"stdbuf", "-oL", "raw_ethernet_bw", "-D", "2"}, rawArgs("server")...)...)
		argv = append(append(append(argv, "--"), under...), append([]string{"raw_ethernet_bw", "-D", "2"}, rawArgs("client")...)...)
		out := start(t, h, nil, argv...).ok()
		f := figures.FindStringSubmatch(out)
		if f == nil {
			t.Errorf("%s: no figures of the server in\n%s", name, out)
		} else if n, err := strconv.Atoi(f[1]); err != nil || n == 0 {
			t.Errorf("%s: the server received %d frames (%v)\n%s", name, n, err, out)
		}
	}
}

// TestRawUsers: of two users of a daemon, neither hears what the other sends, also not with a flow
// rule for its address. The same user does.
func TestRawUsers(t *testing.T) {
	need(t, "raw_ethernet_bw", "stdbuf")
	if !selection.takes(standard) || oneUser || native != "" {
		return
	}
	h, _ := twoHosts(t, 1500)
	d := startDaemon(t, h, "--device", "mlx5_0=eth0", "--socket-mode", "0666")
	ann, bob := h.as(65533, 65533), h.as(65534, 65534)
	server := d.runAs(t, ann, append([]string{"stdbuf", "-oL", "raw_ethernet_bw", "-D", "600"}, rawArgs("server")...)...)
	if !until(programLimit, func() bool { return server.ended() || strings.Contains(server.out.String(), "MAC attached") }) || server.ended() {
		t.Fatalf("the server does not begin\n%s", server.describe())
	}
	const frames = 1000
	client := append([]string{"raw_ethernet_bw", "-n", strconv.Itoa(frames)}, rawArgs("client")...)
	d.runAs(t, bob, client...).ok()
	if sent, heard := d.counter("raw_sent_frames"), d.counter("raw_rcvd_frames"); sent != frames || heard != 0 {
		t.Errorf("another user has sent %d frames, and %d were heard", sent, heard)
	}
	d.runAs(t, ann, client...).ok()
	if heard := d.counter("raw_rcvd_frames"); heard != frames {
		t.Errorf("of the same user's %d frames, %d were heard", frames, heard)
	}
	server.killTree()
}

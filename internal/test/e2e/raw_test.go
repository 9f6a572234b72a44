package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
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
	client := []string{"-d", "mlx5_0", "--client", "-B", rawClient, "-E", rawServer}
	server := []string{"-d", "mlx5_0", "--server", "-B", rawServer, "-E", rawClient}
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
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for p := (capture.Packet{}); ; {
		if err := r.Next(&p); err == io.EOF {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.Frame) > 42 && string(p.Frame[26:30]) == source && bytes.Equal(p.Frame[34:38], []byte("\x12\x67\x12\x67")) {
			n++
		}
	}
}

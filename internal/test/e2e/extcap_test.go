package e2e

import (
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// TestExtcap: tshark finds gorxe among its extcaps. It captures from a running daemon what two
// programs of this host exchange. A comment names the work request of each request.
func TestExtcap(t *testing.T) {
	notNative(t, "daemon")
	need(t, "tshark", "ibv_rc_pingpong", "mount", "unshare")
	besideOthers(t)
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	d := startDaemon(t, h, "--device", "rxe0=lo")
	both := topology{name: "one run", both: d.pair, host: h, daemon: d, device: "rxe0"}
	dir := t.TempDir()
	if err := os.Symlink(gorxe, filepath.Join(dir, "gorxe-extcap")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "live.pcapng")
	// Debian's tshark looks nowhere else than where its package has them.
	over := `for to in /usr/lib*/wireshark/extcap /usr/lib/*/wireshark/extcap; do [ ! -d $to ] || mount --bind "$0" $to; done && exec "$@"`
	tshark := func(args ...string) *proc {
		return start(t, h, append(d.env(), "HOME="+dir), append([]string{"unshare", "-m", "sh", "-c", over, dir, "tshark"}, args...)...)
	}
	if list := tshark("-D").ok(); !strings.Contains(list, "gorxe (RDMA devices of gorxe)") {
		t.Fatalf("tshark has the interfaces\n%s", list)
	}
	const packets = 20
	live := tshark("-i", "gorxe", "-c", strconv.Itoa(packets), "-w", file)
	for !live.ended() { // programs that ran before the capture began are not in it
		both.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", "PORT", "-n", "10").good(t)
	}
	live.ok()
	seen, requests := 0, 0
	for p := range packetsOf(t, file) {
		seen++
		// an acknowledgement
		if len(p.Transport) == 0 || wire.Opcode(p.Transport[0]) > wire.RCSendOnly {
			continue
		}
		requests++
		if !strings.HasPrefix(string(p.Comment), "wr_id 0x2 of queue pair 0x") {
			t.Errorf("packet %d: comment %q", p.Number, p.Comment)
		}
	}
	if requests == 0 || seen < packets {
		t.Errorf("%d packets, %d requests", seen, requests)
	}
}

// packetsOf are the packets of a capture, each until the next one.
func packetsOf(t *testing.T, file string) iter.Seq[*capture.Packet] {
	return func(yield func(*capture.Packet) bool) {
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
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if !yield(&p) {
				return
			}
		}
	}
}

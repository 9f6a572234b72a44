package daemon

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/segment/uplink"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rxe"
)

// kind is the type of the test's frames. The host sends others.
var kind = []byte{0x88, 0xb5}

// heard are the frames of that type that a receiver has.
type heard chan []byte

func (h heard) ReceiveFrame(b []byte, _ rxe.FrameInfo) { h.hear(b) }

func (h heard) hear(b []byte) {
	if bytes.Equal(b[12:14], kind) && len(h) < cap(h) {
		h <- bytes.Clone(b)
	}
}

// TestRawRights: raw packets of a program with CAP_NET_RAW reach the network, and those of others
// only the same user's.
func TestRawRights(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	for _, line := range []string{"link add here type veth peer name there", "link set here up", "link set there up", "addr add 10.9.0.1/24 dev here"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	d := must.Get[*device](t)(startDevice(proto.Spec{Name: "mlx5_0", Interface: "here"}, 0, common{log: slog.New(slog.DiscardHandler)}))
	defer d.close() //nolint:errcheck // checked elsewhere
	if d.station(nil, nil) != nil {
		t.Error("a station without a segment")
	}
	var users segment.Users
	station := d.station(&users, nil)
	network := must.Get[*uplink.Uplink](t)(uplink.Open("there"))
	defer network.Close()
	onWire := make(heard, 16)
	network.Receive(onWire.hear)
	all := []byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1}
	frame := func(who string) []byte { return append(append(bytes.Clone(all), kind...), who...) }

	ann, bob, root := station("ann", false), station("bob", false), station("root", true)
	defer ann.Release()
	defer bob.Release()
	defer root.Release()
	if station("toor", true) != root {
		t.Error("the network has two stations of one device")
	}
	root.Release()
	got := map[*segment.Station]heard{}
	for _, s := range []*segment.Station{ann, bob, root} {
		got[s] = make(heard, 16)
		must.OK(t, s.AddFlow(&ether.Rule{Type: ether.AllDefault, To: got[s]}))
	}
	ann.SendFrames(nil, []rxe.FrameOut{{Data: frame("ann")}})
	// An interface that is up may lose packets for a moment, so they are sent until they arrive.
	arrives := func(h heard, who string, send func()) {
		t.Helper()
		must.Eventually(t, who+" is heard", func() bool {
			send()
			select {
			case b := <-h:
				if bytes.HasSuffix(b, []byte("ann")) {
					t.Error("another user's frame")
				}
				return bytes.HasSuffix(b, []byte(who))
			default:
				return false
			}
		})
	}
	fromRoot := func() { root.SendFrames(nil, []rxe.FrameOut{{Data: frame("root")}}) }
	arrives(onWire, "root", fromRoot)
	arrives(got[root], "network", func() { network.Send([][]byte{frame("network")}) })
	if d.raw.Sent.Load() < 2 {
		t.Errorf("the device counts %d frames", d.raw.Sent.Load())
	}
	if len(got[ann]) != 1 || len(got[bob]) != 0 {
		t.Errorf("ann hears %d, bob %d", len(got[ann]), len(got[bob]))
	}
}

// TestSegmentOf: a daemon joins the segment of its own user, and of no other, and leaves nothing in
// the directory.
func TestSegmentOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "segment")
	s := startTest(t, Config{Devices: []proto.Spec{testSpec("mlx5_0")}, Segment: dir}, nil)
	own, other := s.tenants.Of(uint32(os.Geteuid())).Budget, s.tenants.Of(nobody).Budget
	if got := s.segmentOf(own); got != (joined{}) {
		t.Errorf("the segment of the daemon's user is that of %v", got)
	}
	if got := s.segmentOf(other); got != other {
		t.Errorf("the segment of another user is that of %v", got)
	}
	there := must.Get[[]os.DirEntry](t)(os.ReadDir(dir))
	if len(there) != 1 {
		t.Fatalf("%d sockets", len(there))
	}
	peer := must.Get[net.Conn](t)(net.Dial("unixpacket", filepath.Join(dir, there[0].Name())))
	defer peer.Close()
	must.Eventually(t, "the daemon's user pays for the peer", func() bool { return own.Used().Memory > 1<<20 })
	if other.Used() != (quota.Cost{}) {
		t.Errorf("another user pays %+v", other.Used())
	}
	must.OK(t, s.stop())
	if own.Used() != (quota.Cost{}) {
		t.Errorf("the daemon's user still pays %+v", own.Used())
	}
	if there := must.Get[[]os.DirEntry](t)(os.ReadDir(dir)); len(there) != 0 {
		t.Errorf("%d sockets are left", len(there))
	}
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	if _, err := Start(Config{Devices: []proto.Spec{testSpec("mlx5_0")}, Socket: filepath.Join(t.TempDir(), "s"), Segment: file}); err == nil || !strings.Contains(err.Error(), "segment "+file) {
		t.Errorf("a file as a segment: %v", err)
	}
}

// TestWantedSegment: a session may name the segment that the daemon is on, and no other.
func TestWantedSegment(t *testing.T) {
	for _, tt := range []struct{ have, want, err string }{
		{"", "", ""}, {"/a", "", ""}, {"/a", "/a", ""},
		{"/a", "/b", "--segment /b: it is running already with --segment /a"},
		{"", "/b", "--segment /b: it is running already without --segment"},
	} {
		err := (&Server{cfg: Config{Segment: tt.have}}).suits(&proto.Wanted{Segment: tt.want})
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%q on %q: %v", tt.want, tt.have, err)
		}
	}
}

package rocev2

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// TestTapFrame: Ethernet frames are in the capture beside the packets, for Wireshark and for our
// own reader, and the limit holds for them.
func TestTapFrame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mixed.pcapng")
	tap := must.Get[*Tap](t)(OpenTap(file, "gorxe"))
	arp := []byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1,
		2, 0, 0, 0, 0, 1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2}
	out := burst(&wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.1"), SrcPort: 0xc001}, 1, 1040, 0)
	tap.Frame(arp)
	tap.WriteOut(out.Route, out.Buf, 0, 0)
	tap.Frame(arp)
	tap.Limit(10)
	tap.Frame(arp)
	if tap.LeftOut() != 1 {
		t.Error("a frame beyond the limit")
	}
	must.OK(t, tap.Close())
	tap.Frame(arp) // dropped
	rows := testenv.Tshark(t, file, "eth.src", "arp.dst.proto_ipv4", "infiniband.bth.opcode")
	if len(rows) != 3 || rows[0][0] != "02:00:00:00:00:01" || rows[0][1] != "10.9.0.2" || rows[1][2] == "" || rows[2][1] != "10.9.0.2" {
		t.Errorf("tshark reads %q", rows)
	}
	r := must.Get[*capture.Reader](t)(capture.NewReader(bytes.NewReader(must.Get[[]byte](t)(os.ReadFile(file)))))
	var links []capture.LinkType
	for p := (capture.Packet{}); r.Next(&p) == nil; {
		links = append(links, p.Link)
		if p.Link == capture.LinkEthernet && !bytes.Equal(p.Frame, arp) {
			t.Errorf("% x", p.Frame)
		}
	}
	if len(links) != 3 || links[0] != capture.LinkEthernet || links[1] != capture.LinkRaw {
		t.Errorf("%v", links)
	}
}

// TestFollowFrames: live copies have Ethernet frames, those that begin before the first one and
// those that begin after it.
func TestFollowFrames(t *testing.T) {
	tap := must.Get[*Tap](t)(NewLiveTap("x"))
	early := tap.Follow()
	defer early.Stop()
	frame := make([]byte, 60)
	tap.Frame(frame)
	late := tap.Follow()
	defer late.Stop()
	tap.Frame(frame)
	for f, want := range map[*Follower]int{early: 2, late: 1} {
		r := must.Get[*capture.Reader](t)(capture.NewReader(bytes.NewReader(f.Read(nil))))
		got := 0
		for p := (capture.Packet{}); r.Next(&p) == nil; got++ {
			if p.Link != capture.LinkEthernet || !bytes.Equal(p.Frame, frame) {
				t.Errorf("%v: % x", p.Link, p.Frame)
			}
		}
		if got != want {
			t.Errorf("%d frames, not %d", got, want)
		}
	}
}

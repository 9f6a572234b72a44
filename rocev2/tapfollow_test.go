package rocev2

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// liveBurst is a packet with a PSN to a queue pair.
func liveBurst(t *testing.T, dest wire.QPN, psn wire.PSN) (*wire.Route, []byte) {
	t.Helper()
	route := &wire.Route{Src: netip.MustParseAddr("127.0.0.1"), Dst: netip.MustParseAddr("127.0.0.2"), SrcPort: 49152}
	h := wire.Headers{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey, DestQP: dest, PSN: psn}
	return route, append(append(h.Append(nil), "data"...), make([]byte, wire.ICRCLen)...)
}

// readLive reads the packets of pcapng: their comments, and the drops.
func readLive(t *testing.T, text []byte) (comments []string, r *capture.Reader) {
	t.Helper()
	r = must.Get[*capture.Reader](t)(capture.NewReader(bytes.NewReader(text)))
	for {
		var p capture.Packet
		err := r.Next(&p)
		if err == io.EOF {
			return comments, r
		}
		must.OK(t, err)
		comments = append(comments, string(p.Comment))
	}
}

// TestFollow: a follower of a capture gets the head, and each packet with its work request. The
// file has neither these comments nor what came after its limit.
func TestFollow(t *testing.T) {
	var file bytes.Buffer
	tap := must.Get[*Tap](t)(NewTap(&file, "x"))
	route, pkt := liveBurst(t, 0x22, 5)
	tap.Limit(uint64(len(pkt)))
	tap.Work(route, 0x11, 0x22, false, 5, 5, 1) // nobody follows
	f := tap.Follow()
	tap.WriteOut(route, pkt, 0, 0)
	tap.Work(route, 0x11, 0x22, false, 4, 6, 0xab)
	tap.WriteNoted(route, pkt, 0, 0, "a rule")
	tap.WriteOut(route, pkt, 0, 0)
	_, other := liveBurst(t, 0x22, 7)
	tap.WriteOut(route, other, 0, 0)
	got, _ := readLive(t, f.Read(nil))
	if want := "|gorxe: a rule|wr_id 0xab of queue pair 0x000011|"; strings.Join(got, "|") != want {
		t.Errorf("comments %q, want %q", got, want)
	}
	if f.Stop() || len(f.Read(nil)) != 0 {
		t.Error("the capture goes on after its end")
	}
	must.OK(t, tap.Close())
	if got, _ := readLive(t, file.Bytes()); len(got) != 1 || got[0] != "" || tap.LeftOut() != 3 {
		t.Errorf("the file has %q, and %d packets are left out", got, tap.LeftOut())
	}
}

// TestFollowSlow: what waits for a reader that does not read is bounded, and the capture says how
// many packets it lacks.
func TestFollowSlow(t *testing.T) {
	tap := must.Get[*Tap](t)(NewLiveTap("x"))
	f := tap.Follow()
	route, pkt := liveBurst(t, 0x22, 5)
	pkt = append(pkt, make([]byte, 4096)...)
	const sent = followerBytes/4096 + 10
	for range sent {
		tap.WriteOut(route, pkt, 0, 0)
	}
	text := f.Read(nil)
	if len(text) > followerBytes+64 {
		t.Errorf("%d bytes wait", len(text))
	}
	got, r := readLive(t, text)
	if r.Drops() == 0 || uint64(len(got))+r.Drops() != sent {
		t.Errorf("%d packets and %d drops of %d", len(got), r.Drops(), sent)
	}
	second := tap.Follow()
	if !f.Stop() {
		t.Error("the second follower is gone")
	}
	second.Stop()
}

// TestTapWorkBounds: datagrams to one queue pair are told apart by their senders, and a Tap
// remembers a bounded number.
func TestTapWorkBounds(t *testing.T) {
	if n := unsafe.Sizeof(tapRequest{}); n != tapRequestBytes {
		t.Errorf("a request takes %d bytes", n)
	}
	tap := must.Get[*Tap](t)(NewLiveTap("x"))
	f := tap.Follow()
	defer f.Stop()
	route, _ := liveBurst(t, 0x22, 5)
	for i := range uint32(tapRequests + 5) {
		tap.Work(route, 0x11, 0x22, true, wire.PSN(i), wire.PSN(i), uint64(i))
		tap.Work(route, 0x12, 0x22, true, wire.PSN(i), wire.PSN(i), uint64(i)+1000)
	}
	of := func(sender wire.QPN, psn wire.PSN) string {
		h := wire.Headers{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: 0x22, PSN: psn, SrcQP: sender}
		return tap.work.of(&tapPacket{src: route.Src, dst: route.Dst, pkt: append(h.Append(nil), make([]byte, wire.ICRCLen)...)})
	}
	if got := of(0x11, 9); got != "wr_id 0x9 of queue pair 0x000011" {
		t.Errorf("%q", got)
	}
	if got := of(0x12, 9); got != "wr_id 0x3f1 of queue pair 0x000012" {
		t.Errorf("%q", got)
	}
	if got := of(0x11, 0); got != "" {
		t.Errorf("the oldest request is remembered: %q", got)
	}
	if got := tap.work.of(&tapPacket{pkt: binary.BigEndian.AppendUint64(nil, 0)}); got != "" {
		t.Errorf("of eight bytes: %q", got)
	}
	for i := range wire.QPN(tapPeers + 5) {
		tap.Work(route, i, i, false, 0, 0, 0)
	}
	if n := len(tap.work.peers); n > tapPeers {
		t.Errorf("%d queue pairs are remembered", n)
	}
}

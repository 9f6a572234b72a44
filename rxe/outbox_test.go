package rxe

import (
	"fmt"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/wire"
)

type captureLink struct{ bursts []wire.Burst }

func (l *captureLink) Send(b []wire.Burst) {
	for _, x := range b {
		x.Buf = append([]byte(nil), x.Buf...)
		l.bursts = append(l.bursts, x)
	}
}
func (l *captureLink) Join(wire.GID) error  { return nil }
func (l *captureLink) Leave(wire.GID) error { return nil }

// Packets join a burst while they go the same way at the same size; a shorter
// one may only be the last.
func TestOutboxBursts(t *testing.T) {
	r1 := &wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	r2 := &wire.Route{Src: r1.Src, Dst: netip.MustParseAddr("10.0.0.3")}
	type pkt struct {
		r *wire.Route
		n int
	}
	for name, tc := range map[string]struct {
		pkts []pkt
		want []int // packets per burst
	}{
		"one size":        {[]pkt{{r1, 100}, {r1, 100}, {r1, 100}}, []int{3}},
		"short last":      {[]pkt{{r1, 100}, {r1, 100}, {r1, 40}, {r1, 100}}, []int{3, 1}},
		"longer":          {[]pkt{{r1, 100}, {r1, 104}, {r1, 104}}, []int{1, 2}},
		"other way":       {[]pkt{{r1, 100}, {r2, 100}, {r1, 100}}, []int{1, 1, 1}},
		"two short ones":  {[]pkt{{r1, 100}, {r1, 40}, {r1, 40}}, []int{2, 1}},
		"message of many": {[]pkt{{r1, 116}, {r1, 100}, {r1, 100}, {r1, 100}}, []int{2, 2}},
	} {
		link := &captureLink{}
		d, err := New(Config{Name: "rxe0", Link: link, Clock: &armRecorder{}})
		if err != nil {
			t.Fatal(err)
		}
		st := d.newStep()
		for i, p := range tc.pkts {
			b := st.packet(p.r, 12, p.n)
			if len(b) != p.n {
				t.Fatalf("%s: packet of %d bytes, want %d", name, len(b), p.n)
			}
			clear(b)
			b[0] = byte(i)
		}
		st.done()
		var got []int
		i := 0
		for _, b := range link.bursts {
			n := 0
			for at := 0; at < len(b.Buf); at += b.Seg {
				if b.Buf[at] != byte(i) {
					t.Errorf("%s: packet %d out of order", name, i)
				}
				n++
				i++
			}
			got = append(got, n)
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: bursts of %v packets, want %v", name, got, tc.want)
			continue
		}
		for j := range got {
			if got[j] != tc.want[j] {
				t.Errorf("%s: bursts of %v packets, want %v", name, got, tc.want)
				break
			}
		}
	}
}

// rewind leaves no trace of what it takes back, and keeps what was there before.
func TestOutboxRewind(t *testing.T) {
	r := &wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	link := &captureLink{}
	d, err := New(Config{Name: "rxe0", Link: link, Clock: &armRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	st := d.newStep()
	clear(st.packet(r, 12, 60))
	m := st.mark()
	clear(st.packet(r, 12, 60))
	clear(st.packet(r, 12, 20))
	clear(st.packet(r, 12, 60))
	st.rewind(m)
	clear(st.packet(r, 12, 60))
	st.done()
	if len(link.bursts) != 1 || len(link.bursts[0].Buf) != 2*(60+wire.ICRCLen) {
		t.Fatalf("sent %d bursts, want one of two packets", len(link.bursts))
	}
}

// TestPayloadAligned: payload begins at a cache line, whatever headers precede it. See align.go.
func TestPayloadAligned(t *testing.T) {
	aligned := func(what string, b []byte) {
		t.Helper()
		if off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % lineBytes; off != 0 {
			t.Errorf("%s begins %d bytes into a cache line", what, off)
		}
	}
	r := &wire.Route{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	d, err := New(Config{Name: "rxe0", Link: &captureLink{}, Clock: &armRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []wire.Opcode{wire.RCSendOnly, wire.RCSendOnlyImm, wire.RCWriteOnly, wire.RCReadResponseOnly, wire.UDSendOnly} {
		st := d.newStep()
		h := wire.Headers{Opcode: op}
		for _, size := range []int{8, 1024, 4096} {
			aligned(fmt.Sprintf("%v in the outbox", op), st.packet(r, h.Len(), h.Len()+size)[h.Len():])
			item := newItem(superPacketBytes(2 * size))
			item.beginSuperPacket(r, &h, superPacket{count: 2, mtu: 4096}, 2*size)
			aligned(fmt.Sprintf("%v of a super-packet", op), item.superPacketPayload(2*size))
			item.free()
			st.flush()
		}
		st.done()
	}
}

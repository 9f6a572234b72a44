package rxe

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// A queue pair reaches the one that it is connected to only if that one is connected to it.
// Number, PSN and rkey are not enough for a queue pair of the same device.
func TestForgedWrite(t *testing.T) {
	const at, n = 500_000, 5000
	for _, size := range []uint32{n, 200_000} { // packets, and super-packets
		for _, tap := range []func(*wire.Burst){nil, func(*wire.Burst) {}} {
			d := newLocalPair(t, 2, 1<<20, 1024, func(c *Config) { c.Tap = tap })
			fill(d.mem.b)
			before := bytes.Clone(d.mem.b)
			victim, attacker := d.qps[1], d.qps[2]
			must.OK(t, attacker.Modify(&QPAttr{State: QPReset}, QPAttrState))
			connect(t, attacker, victim, d.gid, 1024)
			_, err := attacker.PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RemoteAddr: at, RKey: d.mr.RKey(),
				SGL: []SGE{{Addr: 0, Length: size, LKey: d.mr.LKey()}}}})
			must.OK(t, err)
			d.dev.Deliver()
			if !bytes.Equal(d.mem.b, before) {
				t.Fatalf("%d bytes written by a queue pair that is not the peer", size)
			}
			if d.dev.counters.BadSrcQP.Load() == 0 {
				t.Error("drop_bad_src_qp is 0")
			}
			// The victim's connection has lost nothing by it.
			_, err = d.qps[0].PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, RemoteAddr: at, RKey: d.mr.RKey(),
				SGL: []SGE{{Addr: 0, Length: size, LKey: d.mr.LKey()}}}})
			must.OK(t, err)
			d.dev.Deliver()
			d.take(t, 1)
			equal(t, "WRITE", d.mem.b[at:][:size], before[:size])
		}
	}
}

// A program of the host cannot bind a socket to the device's address and pretend to be the
// peer.
func TestForgedSource(t *testing.T) {
	const at = 500_000
	d := newLocalPair(t, 1, 1<<20, 1024, nil)
	victim := d.qps[1]
	h := wire.Headers{Opcode: wire.RCWriteOnly, PKey: wire.DefaultPKey, DestQP: victim.Num(), PSN: 0xfffff0,
		VA: at, RKey: d.mr.RKey(), DMALen: 4}
	forged := wire.Datagram{Data: append(h.Append(nil), 1, 2, 3, 4), Src: d.gid.Addr(), Dst: d.gid.Addr()}
	stranger := forged
	stranger.Src = netip.MustParseAddr("10.0.0.9")
	d.dev.Receive([]wire.Datagram{forged, stranger, forged})
	if !bytes.Equal(d.mem.b[at:][:4], make([]byte, 4)) {
		t.Error("written by a packet from a socket")
	}
	if c := &d.dev.counters; c.OwnAddr.Load() != 2 || c.BadAddr.Load() != 1 || c.RcvdPkts.Load() != 1 {
		t.Errorf("drop_own_addr %d, drop_bad_addr %d, rcvd_pkts %d", c.OwnAddr.Load(), c.BadAddr.Load(), c.RcvdPkts.Load())
	}
}

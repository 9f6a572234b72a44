package rxe

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// bare is a packet in an inbox item, or seen by the tap, without its ICRC.
type bare struct {
	from wire.Datagram
	data []byte
}

// waiting empties a QP's inbox. It returns the packets in it, and the number of
// super-packets, which it segments.
func waiting(q *QP) (pkts []bare, supers int) {
	in, _ := q.gate.takeInbox()
	for item := in.first; item != nil; item = item.next {
		c := item
		if item.super.count > 0 {
			supers++
			c = item.segment()
		}
		at := 0
		for _, end := range c.ends {
			pkts = append(pkts, bare{c.from, c.buf[at:end]})
			at = int(end) + c.trailer
		}
	}
	return pkts, supers
}

// Segmenting a super-packet gives exactly the packets that are formed when a tap is
// on, bit for bit, whatever the message and its place in the stream.
func TestSuperPacketSegmented(t *testing.T) {
	const half = 300_000
	flags := SendSolicited | SendSignaled
	for _, mtu := range []MTU{256, 1024, 4096} {
		for _, op := range []WROpcode{WRSend, WRSendImm, WRSendInv, WRWrite, WRWriteImm, WRRead} {
			for _, size := range []uint32{1, uint32(mtu), uint32(mtu) + 1, 3*uint32(mtu) - 1, 64 << 10, 64<<10 + 3, 200_001} {
				t.Run(fmt.Sprintf("%v/mtu=%d/size=%d", op, mtu, size), func(t *testing.T) {
					var seen []bare
					tap := func(b *wire.Burst) {
						for i := range b.N() {
							p := append([]byte(nil), b.Packet(i)...)
							seen = append(seen, bare{datagramFor(b.Route), p[:len(p)-wire.ICRCLen]})
						}
					}
					var got [2][]bare
					for i, tap := range []func(*wire.Burst){nil, tap} {
						d := newLocalPair(t, 1, 2*half, mtu, func(c *Config) { c.Tap = tap })
						fill(d.mem.b)
						requester, responder := d.qps[0], d.qps[1]
						receiver := responder
						responder.lock()
						_, err := requester.PostSend([]SendWR{
							{Op: op, Flags: flags, Imm: 7, InvRKey: 9, RemoteAddr: half, RKey: d.mr.RKey(),
								SGL: []SGE{{Addr: 5, Length: size / 3, LKey: d.mr.LKey()}, {Addr: 99_999, Length: size - size/3, LKey: d.mr.LKey()}}}})
						must.OK(t, err)
						if op == WRRead {
							receiver = requester
							requester.lock()
							responder.unlock(nil) // answers
						}
						seen = withoutRead(seen)
						pkts, supers := waiting(receiver)
						if (supers > 0) != (tap == nil && size > uint32(mtu)) {
							t.Errorf("%d trains", supers)
						}
						got[i] = pkts
						receiver.unlock(nil)
					}
					for name, other := range map[string][]bare{"inbox": got[1], "tap": seen} {
						if len(got[0]) != len(other) {
							t.Fatalf("%d packets in super-packets, %d in the %s", len(got[0]), len(other), name)
						}
						for i := range other {
							if a, b := got[0][i], other[i]; !bytes.Equal(a.data, b.data) || a.from.Src != b.from.Src ||
								a.from.Dst != b.from.Dst || a.from.SrcPort != b.from.SrcPort {
								t.Fatalf("packet %d of %d differs from that in the %s:\n%x\n%x", i, len(other), name,
									head(a.data), head(b.data))
							}
						}
					}
				})
			}
		}
	}
}

func head(b []byte) []byte { return b[:min(len(b), 40)] }

// withoutRead drops READ requests, because the test is about data.
func withoutRead(pkts []bare) []bare {
	return slices.DeleteFunc(pkts, func(p bare) bool { return wire.Opcode(p.data[0]) == wire.RCReadRequest })
}

// A receiver that is not as the sender expects gets packets.
func TestSuperPacketNotAcceptedWhole(t *testing.T) {
	for name, change := range map[string]func(q *QP, item *inboxItem){
		"path MTU":     func(q *QP, item *inboxItem) { q.attr.PathMTU = 2048 },
		"state":        func(q *QP, item *inboxItem) { q.attr.State = QPErr },
		"P_Key":        func(q *QP, item *inboxItem) { q.pkey = 0x1234 },
		"address":      func(q *QP, item *inboxItem) { item.from.Src = benchThere },
		"PSN":          func(q *QP, item *inboxItem) { q.resp.psn++ },
		"PSN behind":   func(q *QP, item *inboxItem) { q.resp.psn-- },
		"rights":       func(q *QP, item *inboxItem) { q.attr.Access = 0 },
		"other kind":   func(q *QP, item *inboxItem) { q.resp.openMessage = wire.OpSend },
		"key":          func(q *QP, item *inboxItem) { item.buf[wire.BTHLen+11]++ },
		"length":       func(q *QP, item *inboxItem) { item.buf[wire.BTHLen+15]++ },
		"other packet": func(q *QP, item *inboxItem) { item.buf[0] = byte(wire.RCReadResponseOnly) },
		"nothing":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := newLocalPair(t, 1, 1<<20, 1024, nil)
			q := d.qps[1]
			q.lock()
			_, err := d.qps[0].PostSend([]SendWR{{Op: WRWrite, RKey: d.mr.RKey(), SGL: []SGE{{Length: 5000, LKey: d.mr.LKey()}}}})
			must.OK(t, err)
			in, _ := q.gate.takeInbox()
			item := in.first
			if change != nil {
				change(q, item)
			}
			st := d.dev.newStep()
			if took := q.receiveSuperPacket(item, st); took != (change == nil) {
				t.Errorf("taken as a whole: %v", took)
			}
			q.endVisit(st)
			if n := q.tallies.stats.RcvdPackets.Load(); change != nil && n != 0 {
				t.Errorf("%d packets counted of a super-packet that was not accepted", n)
			}
		})
	}
}

// badRing has one receive work request, which is malformed.
type badRing struct{ taken bool }

func (r *badRing) Pop(w *RecvWQE) (ok, bad bool) {
	ok, r.taken = !r.taken, true
	w.ID, w.SGL = 77, w.SGL[:0]
	return ok, ok
}

// A malformed receive work request ends the connection in the same way for a
// packet, for packets and for a super-packet.
func TestRecvMalformed(t *testing.T) {
	for _, size := range []uint32{0, 8, 5000} {
		for name, tap := range map[string]func(*wire.Burst){"super-packets": nil, "packets": func(*wire.Burst) {}} {
			d := newLocalPair(t, 1, 1<<20, 1024, func(c *Config) { c.Tap = tap })
			d.qps[1].rq, d.qps[1].rring = &badRing{}, nil
			_, err := d.qps[0].PostSend([]SendWR{{ID: 1, Op: WRSend, Flags: SendSignaled,
				SGL: []SGE{{Length: size, LKey: d.mr.LKey()}}}})
			must.OK(t, err)
			wcs := make([]WC, 4)
			n, _ := d.cq.Poll(wcs)
			if n != 2 || wcs[0].ID != 77 || wcs[0].Status != WCLocQPOpErr || wcs[1].ID != 1 || wcs[1].Status != WCRemOpErr {
				t.Errorf("%d bytes, %s: completions %+v", size, name, wcs[:n])
			}
		}
	}
}

// The window of a requester that lost something opens with the packets that come
// back, whatever form they have.
func TestSuperPacketWindow(t *testing.T) {
	var windows [2]int32
	for i, tap := range []func(*wire.Burst){nil, func(*wire.Burst) {}} {
		d := newLocalPair(t, 1, 1<<20, 1024, func(c *Config) { c.Tap = tap })
		q := d.qps[0]
		q.send.window = minWindow
		_, err := q.PostSend([]SendWR{{Op: WRRead, Flags: SendSignaled, RKey: d.mr.RKey(), RemoteAddr: 1 << 19,
			SGL: []SGE{{Length: 40_000, LKey: d.mr.LKey()}}}})
		must.OK(t, err)
		d.take(t, 1)
		windows[i] = q.send.window
	}
	if windows[0] != windows[1] || windows[0] < minWindow+40 {
		t.Errorf("after 40 packets the window is %d with super-packets, %d with packets", windows[0], windows[1])
	}
}

// Between QPs of one device a steady state allocates nothing either, except under
// the race detector, where pools drop things at random.
func TestLocalAllocatesNothing(t *testing.T) {
	for _, op := range []WROpcode{WRSend, WRWrite, WRRead} {
		d := newLocalPair(t, 1, 1<<20, 1024, nil)
		wr := []SendWR{{Op: op, RemoteAddr: 8, RKey: d.mr.RKey(), Flags: SendSignaled,
			SGL: []SGE{{Addr: 4096, Length: 100_000, LKey: d.mr.LKey()}}}}
		recv := []RecvWR{{SGL: []SGE{{Addr: 200_000, Length: 100_000, LKey: d.mr.LKey()}}}}
		wcs := make([]WC, 4)
		once := func() {
			if op == WRSend {
				if _, err := d.qps[1].PostRecv(recv); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := d.qps[0].PostSend(wr); err != nil {
				t.Fatal(err)
			}
			if n, _ := d.cq.Poll(wcs); n == 0 || wcs[0].Status != WCSuccess {
				t.Fatalf("%v: %d completions, %+v", op, n, wcs[0])
			}
		}
		for range 2 * 64 {
			once()
		}
		if n := testing.AllocsPerRun(200, once); n >= 1 && !race.Enabled {
			t.Errorf("%v: %v allocations per work request", op, n)
		}
	}
}

// BenchmarkLocal is two QPs of one device, with super-packets and (with a tap) with
// packets.
func BenchmarkLocal(b *testing.B) {
	for _, op := range []WROpcode{WRWrite, WRRead} {
		for _, mtu := range []MTU{256, 1024, 4096} {
			for _, size := range []int{8, 64 << 10, 1 << 20} {
				for _, tap := range []bool{false, true} {
					b.Run(fmt.Sprintf("%v/mtu=%d/size=%d/tap=%v", op, mtu, size, tap), func(b *testing.B) {
						d := newLocalPair(b, 1, 4<<20, mtu, func(c *Config) {
							if tap {
								c.Tap = func(*wire.Burst) {}
							}
						})
						wr := []SendWR{{Op: op, Flags: SendSignaled, RemoteAddr: 2 << 20, RKey: d.mr.RKey(),
							SGL: []SGE{{Addr: 0, Length: uint32(size), LKey: d.mr.LKey()}}}}
						wcs := make([]WC, 4)
						b.SetBytes(int64(size))
						b.ReportAllocs()
						for b.Loop() {
							if _, err := d.qps[0].PostSend(wr); err != nil {
								b.Fatal(err)
							}
							if n, _ := d.cq.Poll(wcs); n != 1 || wcs[0].Status != WCSuccess {
								b.Fatalf("%d completions, %+v", n, wcs[0])
							}
						}
					})
				}
			}
		}
	}
}

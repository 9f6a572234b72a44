package rocev2

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// Follower is a live copy of a capture, as pcapng. Packets wait in memory until Read takes them;
// those that there is no room for are left out and counted. One goroutine may call Read.
type Follower struct {
	tap *Tap

	mu      sync.Mutex // a leaf
	wake    sync.Cond
	waiting []byte
	ended   bool
	missed  uint64 // packets left out
	said    uint64 // of them, in blocks that Read returned
}

// FollowerCost is how many bytes of memory a Follower takes at most.
const FollowerCost = 2*followerBytes + tapPeers*tapRequests*tapRequestBytes

// Follow begins a live copy. Its packets have comments that name their work requests. Stop ends it.
func (t *Tap) Follow() *Follower {
	f := &Follower{tap: t}
	f.wake.L = &f.mu
	t.mu.Lock()
	defer t.mu.Unlock()
	f.waiting = slices.Clone(t.head)
	t.followers = append(t.followers, f)
	return f
}

// Stop ends the copy. Read returns what waits, and then nothing. It reports whether the Tap has
// other followers.
func (f *Follower) Stop() (more bool) {
	f.tap.mu.Lock()
	f.tap.followers = slices.DeleteFunc(f.tap.followers, func(o *Follower) bool { return o == f })
	if more = len(f.tap.followers) > 0; !more {
		f.tap.work = tapWork{}
	}
	f.tap.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.wake.Broadcast()
	return more
}

// add adds a packet, unless too much waits.
func (f *Follower) add(block []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if len(f.waiting)+len(block) > followerBytes {
		f.missed++
		return
	}
	f.waiting = append(f.waiting, block...)
	f.wake.Signal()
}

// describe adds the description of an interface, even if too much waits: later packets name it.
func (f *Follower) describe(block []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, block...)
}

// Read waits for packets and returns them all, in place of buf, which it keeps. It returns nothing
// after Stop.
func (f *Follower) Read(buf []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) == 0 && !f.ended {
		f.wake.Wait()
	}
	out := f.waiting
	f.waiting = buf[:0]
	if f.missed > f.said {
		f.said = f.missed
		out = appendDrops(out, f.missed)
	}
	return out
}

// appendDrops appends an Interface Statistics Block that says how many packets were left out
// (draft-ietf-opsawg-pcapng, 4.6).
func appendDrops(b []byte, n uint64) []byte {
	for _, v := range [...]uint32{statisticsBlock, statisticsLength, 0, 0, 0, optionIfDrop} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, n)
	return binary.LittleEndian.AppendUint32(append(b, 0, 0, 0, 0), statisticsLength)
}

// tapWork knows which work requests the packets of queue pairs are of.
type tapWork struct {
	peers map[tapPeer]*tapRange
}

// tapPeer is where packets go, and of a datagram the queue pair that sends it.
type tapPeer struct {
	src, dst  netip.Addr
	dest, own wire.QPN
}

// tapRange has the last requests of a queue pair, in a ring.
type tapRange struct {
	list []tapRequest
	next int
	qpn  wire.QPN
}

type tapRequest struct {
	first, last wire.PSN
	id          uint64
}

// Work tells that packets first to last of queue pair own, to the queue pair dest, are of the work
// request id. datagram says that they name their sender. It remembers this only for followers.
func (t *Tap) Work(route *wire.Route, own, dest wire.QPN, datagram bool, first, last wire.PSN, id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.followers) == 0 {
		return
	}
	key := tapPeer{src: route.Src.Unmap(), dst: route.Dst.Unmap(), dest: dest}
	if datagram {
		key.own = own
	}
	r := t.work.peers[key]
	if r == nil {
		if t.work.peers == nil || len(t.work.peers) == tapPeers {
			t.work.peers = make(map[tapPeer]*tapRange)
		}
		r = new(tapRange)
		t.work.peers[key] = r
	}
	r.qpn = own
	if x := (tapRequest{first, last, id}); len(r.list) < tapRequests {
		r.list = append(r.list, x)
	} else {
		r.list[r.next], r.next = x, (r.next+1)%tapRequests
	}
}

// of returns a comment that names the work request of a packet; empty: it is not known.
func (w *tapWork) of(p *tapPacket) string {
	if len(w.peers) == 0 || len(p.pkt) < wire.BTHLen+wire.ICRCLen {
		return ""
	}
	pkt, err := wire.Parse(p.pkt[:len(p.pkt)-wire.ICRCLen])
	if err != nil || pkt.Info().Has(wire.OpResponse) {
		return ""
	}
	key := tapPeer{src: p.src, dst: p.dst, dest: pkt.DestQP()}
	if pkt.Info().Has(wire.HasDETH) {
		key.own = pkt.SrcQP()
	}
	r := w.peers[key]
	if r == nil {
		return ""
	}
	psn := pkt.PSN()
	for i := range r.list { // the newest first: PSNs come again
		x := &r.list[(r.next+len(r.list)-1-i)%len(r.list)]
		if psn.Diff(x.first) >= 0 && psn.Diff(x.last) <= 0 {
			return fmt.Sprintf("wr_id 0x%x of queue pair 0x%06x", x.id, uint32(r.qpn))
		}
	}
	return ""
}

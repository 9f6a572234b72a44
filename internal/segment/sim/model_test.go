package sim

import (
	"hash/crc32"
	"math/big"
	"slices"

	"encoding/binary"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// mistake is an error that a test makes in the model on purpose, to see that runs find it.
type mistake int

const (
	noMistake mistake = iota
	forgetsVLANs
	floodsKnown
	givesToSender
	leaksToUsers
	keepsTag
	hashesReversed
	losesShort
	ignoresTrap
	mistakes
)

// mostLearned is how many addresses a segment learns (segment.maxLearned).
const mostLearned = 4096

// lan is the model of a segment: that of one user.
type lan struct {
	w        *world
	stations []*station
	learned  map[place]*station
}

type place struct {
	mac  [6]byte
	vlan uint16
}

// counters are those of a station.
type counters struct{ sent, received, tooLong, badSegments, noFlow uint64 }

// post is a receive.
type post struct {
	id  uint64
	at  int // in the memory of the device
	cap int
	bad bool // its key is wrong
}

// completion is what a queue must say.
type completion struct {
	id     uint64
	status rxe.WCStatus
	info   rxe.FrameInfo
	sumsOK bool
	at     int
	data   []byte
}

type arrival struct {
	data []byte
	info rxe.FrameInfo
}

// state of a queue.
type state int

const (
	reset state = iota
	ready
	broken
	dead
)

// arrive puts a frame into the inbox.
func (q *queue) arrive(data []byte, info rxe.FrameInfo) {
	whole := data
	if q.strip && info.Flags&rxe.FrameVLAN != 0 {
		data = slices.Concat(data[:12], data[16:])
	} else {
		info.Flags &^= rxe.FrameVLAN
	}
	if q.fcs && (q.w.mistake != losesShort || len(data) >= 60) {
		data = binary.LittleEndian.AppendUint32(slices.Clone(data), crc32.ChecksumIEEE(whole))
	}
	q.inbox = append(q.inbox, arrival{slices.Clone(data), info})
}

// run takes the frames of the inbox.
func (q *queue) run() {
	for _, a := range q.inbox {
		if q.state != ready {
			continue
		}
		if q.taken = len(q.recvs) > 0; !q.taken || len(a.data) > q.recvs[0].cap {
			q.w.stats["unreceived"]++
			continue // a receive that is too short stays
		}
		p := q.recvs[0]
		q.recvs, q.taken = q.recvs[1:], false
		if p.bad {
			q.want = append(q.want, completion{id: p.id, status: rxe.WCLocProtErr})
			q.fail()
			continue
		}
		q.w.stats["delivered"]++
		q.want = append(q.want, completion{id: p.id, status: rxe.WCSuccess, info: a.info, at: p.at, data: a.data,
			sumsOK: a.info.Flags&(rxe.FrameL3OK|rxe.FrameL4OK) == rxe.FrameL3OK|rxe.FrameL4OK})
	}
	q.inbox = nil
}

// fail takes the queue to ERR.
func (q *queue) fail() {
	q.state = broken
	for _, p := range q.recvs {
		q.want = append(q.want, completion{id: p.id, status: rxe.WCFlushErr})
	}
	q.recvs, q.taken = nil, false
}

// toeplitz shifts the key by a bit for each bit of the input.
func toeplitz(key [40]byte, in []byte) (hash uint32) {
	k := new(big.Int).SetBytes(key[:])
	for i := range 8 * len(in) {
		if in[i/8]&(0x80>>(i%8)) != 0 {
			hash ^= uint32(new(big.Int).Rsh(k, uint(8*len(key)-32-i)).Uint64())
		}
	}
	return hash
}

// hash is that of a frame.
func (s *spread) hash(v *view) uint32 {
	var in []byte
	add := func(has ether.HashFields, field string) {
		if s.rss.Fields&has != 0 {
			in = append(in, v.fields[field]...)
		}
	}
	switch v.version {
	case 4:
		add(ether.HashSrcIPv4, "srcIP")
		add(ether.HashDstIPv4, "dstIP")
	case 6:
		add(ether.HashSrcIPv6, "srcIP")
		add(ether.HashDstIPv6, "dstIP")
	}
	if v.l4 != 0 {
		if v.proto == tcp {
			add(ether.HashSrcTCP, "sport")
			add(ether.HashDstTCP, "dport")
		} else {
			add(ether.HashSrcUDP, "sport")
			add(ether.HashDstUDP, "dport")
		}
	}
	if s.w.mistake == hashesReversed {
		slices.Reverse(in)
	}
	return toeplitz(s.rss.Key, in)
}

// give brings a frame to receivers, except to the queue that sent it.
func (w *world) give(v *view, to []delivery, sender *queue) {
	var info rxe.FrameInfo
	ip, l4 := v.sums()
	if ip {
		info.Flags |= rxe.FrameL3OK
	}
	if l4 {
		info.Flags |= rxe.FrameL4OK
	}
	if v.tagged {
		info.Flags, info.VLAN = info.Flags|rxe.FrameVLAN, v.tci
	}
	info.L3 = map[int]uint8{4: 2, 6: 1}[v.version]
	if v.l4 != 0 {
		info.L4 = map[byte]uint8{tcp: 1, udp: 2}[v.proto]
	}
	for _, d := range to {
		i := info
		if d.tag != 0 && w.mistake != keepsTag {
			i.Flags, i.Tag = i.Flags|rxe.FrameTag, d.tag
		}
		switch r := d.to.(type) {
		case *queue:
			if r != sender || w.mistake == givesToSender {
				r.arrive(v.data, i)
			}
		case *spread:
			if r.rss.Fields != 0 {
				i.Hash = r.hash(v)
				i.Flags |= rxe.FrameHash
			}
			r.queues[int(i.Hash%uint32(len(r.queues)))].arrive(v.data, i)
			w.stats["spread"]++
		}
	}
}

// receive is for a frame that arrives at a station.
func (s *station) receive(v *view, sender *queue) {
	to := s.table.decide(v)
	if len(to) == 0 {
		s.counts.noFlow++
		return
	}
	s.counts.received++
	if s.w.mistake == ignoresTrap {
		to = append(to, give(s.table.of(ether.AllDefault))...)
	}
	s.w.give(v, to, sender)
}

// send is for a frame that a queue of a station sends.
func (s *station) send(v *view, sender *queue) {
	if len(v.data) > s.mtu+14+8 {
		s.w.stats["tooLong"]++
		s.counts.tooLong++
		return
	}
	s.counts.sent++
	s.w.give(v, give(s.table.of(ether.Sniffer)), nil)
	if s.uplink != nil {
		s.uplink.want = append(s.uplink.want, slices.Clone(v.data))
	}
	s.lan.forward(v, s, sender)
	if s.w.mistake == leaksToUsers {
		for _, l := range s.w.lans {
			if l != s.lan {
				l.forward(v, nil, nil)
			}
		}
	}
}

func (l *lan) forward(v *view, from *station, sender *queue) {
	dst, src := place{[6]byte(v.data[:6]), v.vlan}, place{[6]byte(v.data[6:12]), v.vlan}
	if l.w.mistake == forgetsVLANs {
		dst.vlan, src.vlan = 0, 0
	}
	if from != nil && src.mac[0]&1 == 0 && src.mac != from.mac && l.learned[src] != from {
		if len(l.learned) >= mostLearned {
			clear(l.learned)
			l.w.stats["forgot"]++
		}
		l.learned[src] = from
	}
	l.w.tap.want = append(l.w.tap.want, slices.Clone(v.data))
	var to []*station
	for _, s := range l.stations {
		if s.mac == dst.mac {
			to = append(to, s)
		}
	}
	switch at := l.learned[dst]; {
	case dst.mac[0]&1 != 0:
		to = l.stations
		l.w.stats["many"]++
	case len(to) > 0:
	case at != nil && l.w.mistake != floodsKnown:
		to = []*station{at}
		l.w.stats["learned"]++
	default:
		to = l.stations
		l.w.stats["flooded"]++
	}
	for _, s := range to {
		s.receive(v, sender)
	}
}

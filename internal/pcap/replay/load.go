package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// maxLives bounds how often one queue pair may be reset.
const maxLives = 1 << 12

// bounds say how much of a capture is kept. The first packet that exceeds one ends the capture
// for all flows at once. Otherwise large requests would be left out, and the small
// acknowledgements that answer them would not.
type bounds struct {
	packets int
	bytes   int64
	lives   int // of one queue pair
}

// usual takes a default run of ib_write_bw, 328 MB. The replay keeps what the engine sent, too: it
// needs up to 1.3 GiB of memory, for a million packets with 384 MiB.
var usual = bounds{packets: 1 << 20, bytes: 384 << 20, lives: maxLives}

// errFull ends the reading of a capture that does not fit in the bounds.
var errFull = errors.New("the capture does not fit")

// event is one packet of a session.
type event struct {
	number  int // in the capture
	request bool
	pkt     wire.Packet
}

// session is one queue pair's requests and the responses to them.
type session struct {
	flow    *conformance.Flow // of the requests
	events  []event
	mtu     int
	paired  bool         // the opposite direction is known
	guessed bool         // the opposite direction is a guess
	service wire.Service // of the engine's queue pair
}

// stream is the packets of one flow.
type stream struct {
	flow    *conformance.Flow
	packets []event
	resets  []int // packets at which the requester was reset
	damaged int   // packets that are cut, so that their payload is not known
	byPSN   map[wire.PSN][]event
}

// loader reads a capture.
type loader struct {
	streams map[*conformance.Flow]*stream
	order   []*stream
	bounds  bounds
	packets int
	bytes   int64
	talks   talks
	work    int // steps of guessing

	start, last time.Time // of the packets read
	full        string    // the bound that was exceeded
	part        *Part     // what was read before that
	cut         bool      // the file ends within a packet
	cutAt       int64
}

// load reads a capture, as much as fits in the bounds. The loader is nil if in is not a capture.
func load(in io.Reader, b bounds) (*loader, error) {
	l := &loader{streams: make(map[*conformance.Flow]*stream), talks: newTalks(), bounds: b}
	r, err := conformance.Read(in, conformance.Options{OnFinding: l.finding}, l.visit)
	if r == nil {
		return nil, err
	}
	if errors.Is(err, errFull) {
		err = nil
	}
	l.cut, l.cutAt = r.Cut, r.CutAt
	return l, err
}

// visit takes a packet, or ends the capture before it.
func (l *loader) visit(p *capture.Packet, v *conformance.Verdict) error {
	if l.start.IsZero() {
		l.start = p.Time
	}
	switch {
	case l.full != "":
	case l.packets == l.bounds.packets:
		l.full = fmt.Sprintf("%d packets", l.bounds.packets)
	case l.bytes+int64(len(p.Transport)) > l.bounds.bytes:
		l.full = fmt.Sprintf("%d MiB of memory", l.bounds.bytes>>20)
	default:
		l.last = p.Time
		l.add(p, v)
		return nil
	}
	l.part = &Part{Packets: p.Number - 1, Bytes: l.bytes, Seconds: l.last.Sub(l.start).Seconds(), Bound: l.full}
	return errFull
}

// finding records where queue pairs were reset.
func (l *loader) finding(x *conformance.Finding) {
	const restarted = "qp-restarted"
	if x.Rule.Name == restarted && x.Flow != nil {
		s := l.stream(x.Flow)
		s.resets = append(s.resets, x.Packet)
		if len(s.resets) >= l.bounds.lives && l.full == "" {
			l.full = fmt.Sprintf("%d resets of a queue pair", l.bounds.lives)
		}
	}
}

func (l *loader) stream(f *conformance.Flow) *stream {
	s := l.streams[f]
	if s == nil {
		s = &stream{flow: f}
		l.streams[f] = s
		l.order = append(l.order, s)
	}
	return s
}

func (l *loader) add(p *capture.Packet, v *conformance.Verdict) {
	if v.Flow == nil || !v.Parsed {
		return // damaged
	}
	s := l.stream(v.Flow)
	if v.ICRC != conformance.ICRCGood {
		s.damaged++
		return
	}
	pkt, err := wire.Parse(bytes.Clone(v.Packet.Bytes()))
	if err != nil {
		return // it was parsed before
	}
	if v.Flow.Kind == capture.RoCEv2 && pkt.Info().Service == wire.ServiceUD && pkt.DestQP() == wire.GSIQPN {
		l.talks.add(p.Number, v.Flow.Src, v.Flow.Dst, pkt)
	}
	l.packets++
	l.bytes += int64(len(p.Transport))
	s.packets = append(s.packets, event{number: p.Number, pkt: pkt, request: pkt.Info().Has(wire.OpRequest)})
}

// sessions divides the capture into sessions, and lists what cannot be played.
func (l *loader) sessions() (all []*session, skipped []Skipped) {
	skipped = l.talks.skipped()
	guesses := l.guess()
	for _, s := range l.order {
		if !slices.ContainsFunc(s.packets, func(e event) bool { return e.request }) {
			if s.damaged > 0 {
				skipped = append(skipped, Skipped{s.flow.String(), "its packets are cut"})
			} else if l.peer(s, guesses) == nil && slices.ContainsFunc(s.packets, func(e event) bool { return e.pkt.Info().Has(wire.OpResponse) }) {
				skipped = append(skipped, Skipped{s.flow.String(), "the capture lacks the requests that it answers"})
			}
			continue
		}
		peer := l.peer(s, guesses)
		switch {
		case s.damaged > 0 || peer != nil && peer.damaged > 0:
			skipped = append(skipped, Skipped{s.flow.String(), "its packets are cut"})
		case s.flow.Service == wire.ServiceUD:
			list, leftOut := datagramSessions(s, l.bounds.lives)
			if all = append(all, list...); leftOut > 0 {
				skipped = append(skipped, Skipped{s.flow.String(), fmt.Sprintf("%s of other senders than the first %d", plural.Of(leftOut, "datagram"), l.bounds.lives)})
			}
		case s.flow.Service == wire.ServiceRC || s.flow.Service == wire.ServiceUC || s.flow.Service == wire.ServiceXRC:
			list, end := s.lives(peer, l.bounds.lives)
			if all = append(all, list...); end > 0 {
				skipped = append(skipped, Skipped{s.flow.String(), fmt.Sprintf("packet %d and those after it: the queue pair failed %d times", end, l.bounds.lives)})
			}
		default:
			skipped = append(skipped, Skipped{s.flow.String(), fmt.Sprintf("the engine has no %v", s.flow.Service)})
		}
	}
	return all, skipped
}

// peer returns the opposite direction of a connection, nil if it is not known.
func (l *loader) peer(s *stream, guesses map[*stream]*stream) *stream {
	if s.flow.Peer != nil {
		return l.streams[s.flow.Peer]
	}
	return guesses[s]
}

// lives returns the sessions of a connection's requests in one direction, up to most. end is the
// packet from which on the rest is left out, 0 if nothing is.
func (s *stream) lives(peer *stream, most int) (all []*session, end int) {
	var events []event
	for _, e := range s.packets {
		if e.request && e.pkt.Info().Service == s.flow.Service {
			events = append(events, e)
		}
	}
	if peer != nil {
		for _, e := range peer.packets {
			if !e.request && e.pkt.Info().Has(wire.OpResponse) {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.number - b.number })
	slices.Sort(s.resets)
	cut, rest := cutAtFaults(cutAt(events, s.resets), most)
	if len(rest) > 0 {
		end = rest[0].number
	}
	for _, life := range cutLong(cut) {
		n := &session{flow: s.flow, events: life, paired: peer != nil, guessed: peer != nil && s.flow.Peer == nil, service: s.flow.Service}
		n.mtu = pathMTU(life)
		if n.begin() {
			all = append(all, n)
		}
	}
	return all, end
}

// cutAt divides events at packets of the given numbers.
func cutAt(events []event, numbers []int) [][]event {
	var parts [][]event
	for _, n := range numbers {
		i, _ := slices.BinarySearchFunc(events, n, func(e event, n int) int { return e.number - n })
		if i > 0 {
			parts = append(parts, events[:i])
		}
		events = events[i:]
	}
	return append(parts, events)
}

// cutAtFaults divides lives after a NAK that ends a connection, if later requests are
// answered again: the queue pair was reset. If there are more than most parts, the rest begins
// with the next.
func cutAtFaults(lives [][]event, most int) (parts [][]event, rest []event) {
	for _, events := range lives {
		for from := 0; len(events) > 0; {
			if len(parts) > most {
				return parts, events
			}
			i := fatalNAK(events, from)
			if i < 0 {
				parts = append(parts, events)
				break
			}
			// The new life begins with the first request that has the PSN of the
			// answer, or a later one.
			j := slices.IndexFunc(events[i+1:], func(e event) bool { return !e.request && !refused(e.pkt) })
			if j < 0 {
				from = i + 1
				continue
			}
			answered := events[i+1+j].pkt.PSN()
			k := slices.IndexFunc(events[i+1:], func(e event) bool {
				return e.request && e.pkt.Info().Has(wire.OpStart) && !answered.Less(e.pkt.PSN())
			})
			if k < 0 {
				from = i + 1
				continue
			}
			parts = append(parts, events[:i+1+k])
			events, from = events[i+1+k:], 0
		}
	}
	return parts, nil
}

// cutLong divides lives that are so long that PSNs repeat.
func cutLong(lives [][]event) [][]event {
	const most = 1 << 21
	var parts [][]event
	for _, events := range lives {
		from := 0
		for i, e := range events {
			if e.request && e.pkt.Info().Has(wire.OpStart) && e.pkt.PSN().Diff(events[from].pkt.PSN()) > most {
				parts, from = append(parts, events[from:i]), i
			}
		}
		parts = append(parts, events[from:])
	}
	return parts
}

func fatalNAK(events []event, from int) int {
	for i := from; i < len(events); i++ {
		if p := events[i].pkt; !events[i].request && p.Syndrome().IsNAK() && p.Syndrome().NAKCode() != wire.NAKPSNSequence {
			return i
		}
	}
	return -1
}

// refused reports whether a response is a NAK of any kind.
func refused(p wire.Packet) bool {
	return p.Info().Has(wire.HasAETH) && !p.Syndrome().IsACK()
}

// begin drops the packets before the first beginning of a message. It reports false if
// none are left.
func (n *session) begin() bool {
	i := slices.IndexFunc(n.events, func(e event) bool { return e.request && e.pkt.Info().Has(wire.OpStart) })
	if i < 0 {
		return false
	}
	n.events = n.events[i:]
	return true
}

// pathMTU returns the path MTU of the full packets. If there are none, it returns the
// largest one, which fits every packet.
func pathMTU(events []event) int {
	for _, e := range events {
		if size := len(e.pkt.Payload()); e.pkt.Info().Has(wire.OpFirst|wire.OpMiddle) && legalMTU(size) {
			return size
		}
	}
	return 4096
}

func legalMTU(n int) bool { return n == 256 || n == 512 || n == 1024 || n == 2048 || n == 4096 }

// datagramSessions divides the datagrams to a queue pair by their senders, of which there are up to
// most. leftOut counts the datagrams of others.
func datagramSessions(s *stream, most int) (all []*session, leftOut uint64) {
	bySender := make(map[wire.QPN]*session)
	for _, e := range s.packets {
		if e.pkt.Info().Service != wire.ServiceUD {
			continue
		}
		n := bySender[e.pkt.SrcQP()]
		if n == nil {
			if len(all) == most {
				leftOut++
				continue
			}
			n = &session{flow: s.flow, mtu: 4096, service: wire.ServiceUD}
			bySender[e.pkt.SrcQP()] = n
			all = append(all, n)
		}
		n.events = append(n.events, e)
	}
	return all, leftOut
}

package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// A Shape rule is a model of a link, which may lose a packet. Otherwise the packet waits in the
// link's queue, takes its time at the link's rate, and arrives after the link's latency. The queue
// has no packets in it: it is the times at which those before will have left.

const (
	defaultQueue = 100 // packets
	maxQueue     = 100_000
	bitsPerByte  = 8
	lossDraw     = 2 // the kind of draw
)

// Passage is what a link does to a packet.
type Passage struct {
	Lost bool
	Mark bool // the queue is long
	Wait time.Duration
}

// link is the two directions of a Shape rule's link.
type link struct {
	mu    sync.Mutex // below
	ways  [2]way
	ended bool
}

// way is one direction. leaves are the times at which the packets in its queue leave it, first
// the next one.
type way struct {
	leaves []time.Time
	head   int
	free   time.Time // when the last one has left
}

// Passage returns what the link of a Shape rule did to the candidate.
func (h Hit) Passage() Passage { return h.pass }

// shape returns what the link of a Shape rule does to the candidate.
func (h Hit) shape(p *Packet) Passage {
	if h.Loss != 0 && draw(h.Seed, h.n, lossDraw) < h.Loss {
		return Passage{Lost: true}
	}
	pass := Passage{Wait: h.Latency}
	if h.Rate == 0 {
		return pass
	}
	h.of.link.mu.Lock()
	defer h.of.link.mu.Unlock()
	w := &h.of.link.ways[p.way()]
	n := w.length(h.at)
	queue := h.Queue
	if queue == 0 {
		queue = defaultQueue
	}
	if uint64(n) >= queue {
		return Passage{Lost: true}
	}
	pass.Mark = h.ECN != 0 && uint64(n) >= h.ECN
	if h.of.link.ended || !w.grow(h.of) {
		h.NoRoom()
		return Passage{Lost: true}
	}
	if w.free.Before(h.at) {
		w.free = h.at
	}
	w.free = w.free.Add(time.Duration(uint64(p.onLink()) * bitsPerByte * uint64(time.Second) / h.Rate))
	w.leaves = append(w.leaves, w.free)
	pass.Wait += w.free.Sub(h.at)
	return pass
}

// length returns how many packets have not left at a time.
func (w *way) length(now time.Time) int {
	for w.head < len(w.leaves) && !w.leaves[w.head].After(now) {
		w.head++
	}
	if w.head > len(w.leaves)/2 {
		w.leaves = append(w.leaves[:0], w.leaves[w.head:]...)
		w.head = 0
	}
	return len(w.leaves) - w.head
}

// timeBytes is what one element of leaves takes.
const timeBytes = 24

// grow makes room for one more packet, which the payer of the rule pays for.
func (w *way) grow(e *entry) bool {
	n := len(w.leaves)
	if n < cap(w.leaves) {
		return true
	}
	more := max(16, n)
	if !e.take(int64(more) * timeBytes) {
		return false
	}
	w.leaves = append(make([]time.Time, 0, n+more), w.leaves...)
	return true
}

// endLink frees the queues of a rule that has ended.
func (e *entry) endLink() {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.link.ended = true
	for i := range e.link.ways {
		w := &e.link.ways[i]
		e.give(int64(cap(w.leaves)) * timeBytes)
		*w = way{}
	}
}

// way returns the direction of a packet. Between two hosts it follows from their addresses, and
// between queue pairs of a host from their numbers.
func (p *Packet) way() int {
	if c := p.Src.Compare(p.Dst); c < 0 || c == 0 && p.SrcQP < p.DestQP {
		return 0
	}
	return 1
}

// onLink returns the bytes of the packet with its ICRC and its UDP and IP headers.
func (p *Packet) onLink() int {
	const ipv4, ipv6 = 20 + 8, 40 + 8
	if p.Src.Is4() {
		return len(p.Data) + wire.ICRCLen + ipv4
	}
	return len(p.Data) + wire.ICRCLen + ipv6
}

// rates are the units of a rate, as tc(8) has them.
var rates = []struct {
	name string
	bits float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

func setRate(r *Rule, v string) error {
	for _, u := range rates {
		digits, ok := strings.CutSuffix(v, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if bits := n * u.bits; err == nil && bits >= 1e3 && bits <= 1e12 {
			r.Rate = uint64(bits)
			return nil
		}
	}
	return errors.New("give a rate from 1kbit to 1000gbit, as 1gbit or 2.5mbit")
}

func rate(r *Rule) string {
	if r.Rate == 0 {
		return ""
	}
	for _, u := range rates {
		if float64(r.Rate) >= u.bits {
			return strconv.FormatFloat(float64(r.Rate)/u.bits, 'f', -1, 64) + u.name
		}
	}
	return "" // setRate has refused it
}

// probability reads a number from 0 to 1, or with a percent sign.
func probability(to *float64, v string) error {
	digits, percent := strings.CutSuffix(v, "%")
	p, err := strconv.ParseFloat(digits, 64)
	if percent {
		p /= 100
	}
	if err != nil || !(p > 0 && p <= 1) {
		return errors.New("a probability is more than 0 and at most 1 (100%)")
	}
	*to = p
	return nil
}

func (r *Rule) checkShape() (key, why string) {
	queue := r.Queue
	if queue == 0 {
		queue = defaultQueue
	}
	switch {
	case r.Rate == 0 && r.Latency == 0 && r.Loss == 0:
		return "", "packet shape needs rate=…, latency=… or loss=…"
	case r.Rate == 0 && r.Queue != 0:
		return "queue", "packets wait for the rate: give rate=… as well"
	case r.Rate == 0 && r.ECN != 0:
		return "ecn", "packets wait for the rate: give rate=… as well"
	case r.ECN >= queue:
		return "ecn", fmt.Sprintf("the queue has %s at most, so it never marks any", plural(queue-1, "packet"))
	}
	return "", ""
}

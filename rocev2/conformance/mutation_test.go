package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// loaded is a capture in memory.
type loaded struct {
	name    string
	packets []capture.Packet
}

func load(t testing.TB, name string, file []byte) loaded {
	t.Helper()
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	l := loaded{name: name}
	for {
		var p capture.Packet
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			return l
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p.Frame = slices.Clone(p.Frame)
		p.Decode()
		l.packets = append(l.packets, p)
	}
}

// mutation is one kind of change to one packet; false if it does not apply.
type mutation struct {
	name string
	// network: networks do that, so no device may be blamed for it.
	network bool
	do      func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool)
}

// header makes a mutation of a header field, with a new ICRC.
func header(name string, change func(r *rand.Rand, p wire.Packet, b []byte) bool) mutation {
	return mutation{name: name, do: func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		p := own(&all[i])
		if len(p.Transport) < wire.BTHLen+wire.ICRCLen {
			return nil, false
		}
		pkt, err := wire.Parse(p.Transport[:len(p.Transport)-wire.ICRCLen])
		if err != nil || !change(r, pkt, p.Transport) {
			return nil, false
		}
		seal(p)
		return all, true
	}}
}

// own gives a packet its own frame.
func own(p *capture.Packet) *capture.Packet {
	p.Frame = slices.Clone(p.Frame)
	p.Decode()
	return p
}

func seal(p *capture.Packet) {
	body := p.Transport[:len(p.Transport)-wire.ICRCLen]
	if sum, ok := wire.ICRCAsSent(p.Network, body); ok {
		binary.LittleEndian.PutUint32(p.Transport[len(body):], sum)
	}
}

// add24 adds to a number of 24 bits.
func add24(b []byte, n uint32) {
	v := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	v += n
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

var mutations = []mutation{
	{"bit flip, covered by the ICRC", false, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		p := own(&all[i])
		if len(p.Transport) == 0 {
			return nil, false
		}
		bit := r.IntN(8 * len(p.Transport))
		if bit/8 == 4 { // masked
			return nil, false
		}
		p.Transport[bit/8] ^= 1 << (bit % 8)
		return all, true
	}},
	{"bit flip, anywhere in the frame", false, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		p := own(&all[i])
		bit := r.IntN(8 * len(p.Frame))
		p.Frame[bit/8] ^= 1 << (bit % 8)
		p.Decode()
		return all, true
	}},
	{"drop", true, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		return slices.Delete(all, i, i+1), true
	}},
	{"swap with the next", true, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		if i+1 >= len(all) {
			return nil, false
		}
		all[i], all[i+1] = all[i+1], all[i]
		return all, true
	}},
	{"duplicate", true, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		return slices.Insert(all, i, all[i]), true
	}},
	{"duplicate, later", true, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		return slices.Insert(all, min(len(all), i+1+r.IntN(20)), all[i]), true
	}},
	header("opcode, any", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[0] ^= byte(1 + r.IntN(255)); return true }),
	header("opcode, same service", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[0] ^= byte(1 + r.IntN(31)); return true }),
	header("version", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[1] ^= byte(1 + r.IntN(15)); return true }),
	header("pad", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[1] ^= byte(1+r.IntN(3)) << 4; return true }),
	header("solicited event", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[1] ^= 0x80; return true }),
	header("P_Key", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[2] ^= byte(1 + r.IntN(255)); return true }),
	header("P_Key to partition 0", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[2], b[3] = 0x80, 0; return true }),
	header("destination QP", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[5+r.IntN(3)] ^= byte(1 + r.IntN(255)); return true }),
	header("AckReq", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[8] ^= 0x80; return true }),
	header("reserved bit", func(r *rand.Rand, p wire.Packet, b []byte) bool { b[8] ^= 1 << r.IntN(7); return true }),
	header("request PSN, by 1", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		add24(b[9:], []uint32{1, ^uint32(0)}[r.IntN(2)])
		return p.Info().Has(wire.OpRequest)
	}),
	header("request PSN, any", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		add24(b[9:], 1+r.Uint32N(1<<24-1))
		return p.Info().Has(wire.OpRequest)
	}),
	header("response PSN, by 1", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		add24(b[9:], []uint32{1, ^uint32(0)}[r.IntN(2)])
		return p.Info().Has(wire.OpResponse)
	}),
	header("response PSN, any", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		add24(b[9:], 1+r.Uint32N(1<<24-1))
		return p.Info().Has(wire.OpResponse)
	}),
	header("MSN", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		o := p.Info().AETH
		if o == 0 {
			return false
		}
		add24(b[o+1:], 1+r.Uint32N(1<<24-1))
		return true
	}),
	header("syndrome", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		o := p.Info().AETH
		if o == 0 {
			return false
		}
		b[o] ^= byte(1 + r.IntN(255))
		return true
	}),
	header("RETH length", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		o := p.Info().RETH
		if o == 0 {
			return false
		}
		b[o+12+uint8(r.IntN(4))] ^= byte(1 + r.IntN(255))
		return true
	}),
	header("RETH address or key", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		o := p.Info().RETH
		if o == 0 {
			return false
		}
		b[o+uint8(r.IntN(12))] ^= byte(1 + r.IntN(255))
		return true
	}),
	header("atomic result", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		o := p.Info().AtomicAckETH
		if o == 0 {
			return false
		}
		b[o+uint8(r.IntN(8))] ^= byte(1 + r.IntN(255))
		return true
	}),
	header("payload", func(r *rand.Rand, p wire.Packet, b []byte) bool {
		n := len(p.Payload())
		if n == 0 {
			return false
		}
		b[p.Info().HeaderLen+r.IntN(n)] ^= byte(1 + r.IntN(255))
		return true
	}),
	{"4 bytes less of payload", false, func(r *rand.Rand, all []capture.Packet, i int) ([]capture.Packet, bool) {
		p := own(&all[i])
		pkt, err := wire.Parse(p.Transport[:max(0, len(p.Transport)-wire.ICRCLen)])
		if err != nil || len(pkt.Payload()) < 5 || p.IP.Version != 4 {
			return nil, false
		}
		p.Frame = p.Frame[:len(p.Frame)-4]
		binary.BigEndian.PutUint16(p.Network[2:], uint16(p.IP.Length-4))
		binary.BigEndian.PutUint16(p.Network[24:], uint16(p.UDP.Length-4))
		binary.BigEndian.PutUint16(p.Network[10:], 0)
		sum := uint32(0)
		for j := 0; j < 20; j += 2 {
			sum += uint32(binary.BigEndian.Uint16(p.Network[j:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(p.Network[10:], ^uint16(sum>>16+sum))
		p.Length -= 4
		p.Decode()
		seal(p)
		return all, true
	}},
}

// verdict judges packets in memory.
func verdict(t testing.TB, all []capture.Packet) (rules map[string]Severity) {
	t.Helper()
	rules = map[string]Severity{}
	c, err := New(Options{OnFinding: func(x *Finding) {
		rules[x.Rule.Name] = max(rules[x.Rule.Name], x.Severity)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Number = i + 1
		c.Add(&all[i])
	}
	c.Close()
	return rules
}

// tally counts the results of the mutations of one kind.
type tally struct {
	made, violations, found int
	by                      map[string]int
}

func (c *tally) share(n int) string {
	return fmt.Sprintf("%5.1f %%", 100*float64(n)/float64(max(1, c.made)))
}

// TestMutations changes one thing in a clean capture, many times, and counts the
// findings. A change that the network or the capture may make is never a violation.
func TestMutations(t *testing.T) {
	n := 10000
	if race.Enabled {
		n = 20 * len(mutations) // there is one goroutine only
	}
	if s := os.Getenv("GORXE_MUTATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("GORXE_MUTATIONS=%q", s)
		}
	}
	corpus := []loaded{load(t, "scene", brokenScene(func(*scene) {}).file(t))}
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures")
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if l := load(t, filepath.Base(name), file); len(verdict(t, l.packets)) == 0 {
			corpus = append(corpus, l)
		}
	}
	counts := make([]tally, len(mutations))
	byRule := map[string]int{}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		k := seed % len(mutations)
		m, c := &mutations[k], &counts[k]
		var mutated []capture.Packet
		var l loaded
		var at int
		for ok := false; !ok; {
			l = corpus[r.IntN(len(corpus))]
			at = r.IntN(len(l.packets))
			mutated, ok = m.do(r, slices.Clone(l.packets), at)
		}
		rules := verdict(t, mutated)
		worst := Severity(0)
		for name, s := range rules {
			worst = max(worst, s)
			byRule[name]++
			if c.by == nil {
				c.by = map[string]int{}
			}
			c.by[name]++
		}
		c.made++
		if worst > 0 {
			c.found++
		}
		if worst == Violation {
			c.violations++
		}
		if m.network && worst == Violation {
			t.Errorf("seed %d, %s of packet %d of %s: %v", seed, m.name, at+1, l.name, rules)
		}
		if k == 0 && rules["icrc"] != Violation {
			t.Errorf("seed %d: a flipped bit in packet %d of %s was not found", seed, at+1, l.name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mutations; found with a violation, found at all, by which rules\n", n)
	for i := range mutations {
		c := &counts[i]
		rules := slices.SortedFunc(maps.Keys(c.by), func(a, b string) int { return c.by[b] - c.by[a] })
		for j, name := range rules {
			rules[j] = fmt.Sprintf("%s %d", name, c.by[name])
		}
		fmt.Fprintf(&b, "%-32s %5d  %s  %s  %s\n", mutations[i].name, c.made, c.share(c.violations), c.share(c.found), strings.Join(rules, ", "))
	}
	for _, rule := range Rules() {
		fmt.Fprintf(&b, "%-24s %d\n", rule.Name, byRule[rule.Name])
	}
	t.Log(b.String())
}

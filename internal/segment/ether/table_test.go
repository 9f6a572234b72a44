package ether

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// reference decides as ibv_create_flow(3) says, slowly: it looks at each rule, in order.
type reference struct{ rules []*asked }

// asked is a rule with its specs as they were asked for.
type asked struct {
	rule Rule
	want []func(f *Frame) bool
	id   string // its match, as text
	seen int    // frames that it counted
}

func (a *asked) matches(f *Frame) bool {
	return !slices.ContainsFunc(a.want, func(m func(*Frame) bool) bool { return !m(f) })
}

func (ref *reference) decide(f *Frame) (out []Delivery, trapped bool) {
	for _, a := range ref.rules {
		if a.rule.Type == Sniffer {
			out = a.give(out, 0)
		}
	}
	for priority := range Priorities {
		for _, trap := range []bool{false, true} {
			first, from, missed := "", len(out), false
			for _, a := range ref.rules {
				if a.rule.Type != Normal || a.rule.Priority != priority || a.rule.DontTrap == trap || !a.matches(f) || first != "" && first != a.id {
					continue
				}
				first = a.id
				a.seen++
				missed = trap && a.rule.Miss
				if trap || a.rule.Drop {
					trapped = true
				}
				if !a.rule.Drop && !a.rule.Miss {
					out = a.give(out, from)
				}
			}
			if missed {
				return ref.defaults(f, out)
			}
			if trapped {
				return out, true
			}
		}
	}
	return ref.defaults(f, out)
}

func (ref *reference) defaults(f *Frame, out []Delivery) (_ []Delivery, trapped bool) {
	for _, typ := range []Type{AllDefault, MulticastDefault} {
		from := len(out)
		for _, a := range ref.rules {
			if a.rule.Type == typ && (typ == AllDefault || f.Data[0]&1 == 1) {
				out = a.give(out, from)
				trapped = true
			}
		}
	}
	return out, trapped
}

// give adds the receiver of a rule, if it is not in out yet behind the first ones.
func (a *asked) give(out []Delivery, from int) []Delivery {
	if !slices.ContainsFunc(out[from:], func(d Delivery) bool { return d.To == a.rule.To }) {
		out = append(out, Delivery{a.rule.To, a.rule.Tag})
	}
	return out
}

// draw reads numbers from the bytes of a fuzzer.
type draw struct{ b []byte }

func (d *draw) n(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0])
	d.b = d.b[1:]
	return v % n
}

// The frames of the comparison have few values, so that rules overlap.
func (d *draw) frame() Frame {
	addr := func(six bool) netip.AddrPort {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(d.n(3))})
		if six {
			a = netip.AddrFrom16([16]byte{0xfd, 15: byte(d.n(3))})
		}
		return netip.AddrPortFrom(a, uint16(d.n(3)))
	}
	six := d.n(2) == 1
	f := tcpFrame(addr(six), addr(six))
	b := f.Data
	b[0], b[5], b[11] = byte(d.n(2)), byte(d.n(3)), byte(d.n(3))
	if d.n(3) == 0 {
		b[f.IP+9-int(f.Version/6)*3] = ProtoUDP
	}
	switch d.n(4) {
	case 0:
		b = AppendVLAN(nil, b, uint16(d.n(3)))
	case 1:
		b = b[:HeaderSize+d.n(30)]
	}
	return Parse(b)
}

// spec adds a random spec to a rule, to its Match and to what the reference asks.
func (d *draw) spec(a *asked) {
	mask := []byte{0, 1, 0xff}[d.n(3)]
	v := byte(d.n(3))
	same := func(x byte) bool { return (x^v)&mask == 0 }
	want := func(m func(f *Frame) bool) { a.want = append(a.want, m) }
	kind := d.n(8)
	switch kind {
	case 0:
		a.rule.Match.Eth(Eth{Dst: [6]byte{5: v}}, Eth{Dst: [6]byte{5: mask}})
		want(func(f *Frame) bool { return same(f.Data[5]) })
	case 1:
		a.rule.Match.Eth(Eth{VLAN: [2]byte{0, v}}, Eth{VLAN: [2]byte{0, mask}})
		want(func(f *Frame) bool { return mask == 0 || f.VLANs == 1 && same(f.Data[15]) })
	case 2:
		a.rule.Match.IPv4(IPv4{Src: [4]byte{3: v}}, IPv4{Src: [4]byte{3: mask}})
		want(func(f *Frame) bool { return f.Version == 4 && same(f.Data[f.IP+15]) })
	case 3:
		a.rule.Match.IPv6(IPv6{Dst: [16]byte{15: v}}, IPv6{Dst: [16]byte{15: mask}})
		want(func(f *Frame) bool { return f.Version == 6 && same(f.Data[f.IP+39]) })
	case 4:
		a.rule.Match.Loose(Loose{Tag: v, TTL: v}, Loose{Tag: mask, TTL: mask & 1})
		want(func(f *Frame) bool {
			ttl := byte(0)
			if f.Version > 0 {
				ttl = f.Data[f.IP+[]int{4: 8, 6: 7}[f.Version]]
			}
			return same(byte(f.VLANs)) && (ttl^v)&mask&1 == 0
		})
	case 5:
		a.rule.Match.Loose(Loose{TCPFlags: v}, Loose{TCPFlags: mask})
		want(func(f *Frame) bool { return mask == 0 || f.Proto == ProtoTCP && f.L4 > 0 && same(f.Data[f.L4+13]) })
	default:
		proto := []byte{ProtoTCP, ProtoUDP}[kind-6]
		a.rule.Match.Ports(proto, Ports{Src: [2]byte{0, v}}, Ports{Src: [2]byte{0, mask}})
		want(func(f *Frame) bool { return f.Proto == proto && (mask == 0 || f.L4 > 0 && same(f.Data[f.L4+1])) })
	}
}

func (d *draw) rule() *asked {
	a := &asked{rule: Rule{
		Type: []Type{Normal, Normal, Normal, Normal, Normal, AllDefault, MulticastDefault, Sniffer}[d.n(8)],
		To:   d.n(5), Priority: d.n(3), DontTrap: d.n(3) == 0, Drop: d.n(4) == 0, Tag: uint32(d.n(2)), Count: new(Counter),
	}}
	a.rule.Miss = d.n(4) == 0 && !a.rule.Drop
	for range d.n(4) {
		d.spec(a)
	}
	a.id = fmt.Sprintf("%x %x", a.rule.Match.mask, a.rule.Match.value)
	return a
}

// compareTables runs random rules and frames through a Table and the reference.
func compareTables(t *testing.T, d *draw) {
	var table Table
	var ref reference
	for len(d.b) > 0 {
		switch d.n(4) {
		case 0, 1:
			a := d.rule()
			conflict := slices.ContainsFunc(ref.rules, func(x *asked) bool {
				r, y := &a.rule, &x.rule
				return r.Type == Normal && y.Type == Normal && r.Priority == y.Priority && r.DontTrap == y.DontTrap && a.id == x.id &&
					!r.Match.never && !y.Match.never && (r.Drop != y.Drop || r.Miss != y.Miss || r.Tag != y.Tag)
			})
			err := table.Add(&a.rule)
			if conflict != errors.Is(err, ErrConflict) || !conflict && err != nil {
				t.Fatalf("%+v: %v, conflict %v", a.rule, err, conflict)
			}
			if err == nil {
				ref.rules = append(ref.rules, a)
			}
		case 2:
			if n := len(ref.rules); n > 0 {
				i := d.n(n)
				table.Remove(&ref.rules[i].rule)
				ref.rules = slices.Delete(ref.rules, i, i+1)
			}
		case 3:
			f := d.frame()
			got, trapped := table.Decide(&f, nil)
			want, wantTrapped := ref.decide(&f)
			if !slices.Equal(got, want) || trapped != wantTrapped {
				t.Fatalf("%+v: to %v (%v), want %v (%v)", f, got, trapped, want, wantTrapped)
			}
		}
		if table.Len() != len(ref.rules) {
			t.Fatalf("%d rules, want %d", table.Len(), len(ref.rules))
		}
	}
	for _, a := range ref.rules {
		if packets, _ := a.rule.Count.Load(); packets != uint64(a.seen) {
			t.Errorf("%+v counted %d frames, want %d", a.rule, packets, a.seen)
		}
		table.Remove(&a.rule)
	}
	if table.Len() != 0 || table.masks != 0 {
		t.Errorf("%d rules and %d masks are left", table.Len(), table.masks)
	}
}

func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 49))
	for range 150 {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		compareTables(t, &draw{b})
	}
}

func FuzzTable(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 49))
	for range 20 {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { compareTables(t, &draw{b}) })
}

// Each field of each spec matches the field of the frame, and nothing else.
func TestFields(t *testing.T) {
	v4 := tcpFrame(netip.MustParseAddrPort("10.1.2.3:258"), netip.MustParseAddrPort("10.4.5.6:772"))
	copy(v4.Data, []byte{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	v4.Data[v4.IP+1], v4.Data[v4.IP+8], v4.Data[v4.IP+6] = 0x2c, 33, 0x40
	v6 := tcpFrame(netip.MustParseAddrPort("[fd01::2]:258"), netip.MustParseAddrPort("[fd03::4]:772"))
	copy(v6.Data[v6.IP:], []byte{0x62, 0xca, 0xbc, 0xde})
	v6.Data[v6.IP+7] = 44
	v4.Data[v4.L4+13] = 0x12
	tagged := Parse(AppendVLAN(nil, v4.Data, 0x7123))
	b := slices.Clone(tagged.Data)
	b[12], b[13] = typeSTag>>8, typeSTag&0xff
	outer := Parse(b)
	b = slices.Clone(v4.Data)
	b[v4.IP+6] = 0x20
	part := Parse(b)
	f16 := func(b ...byte) (a [16]byte) { copy(a[:], b); return a }
	for _, c := range []struct {
		what string
		f    *Frame
		add  func(m *Match, change byte)
	}{
		{"destination", &v4, func(m *Match, x byte) {
			m.Eth(Eth{Dst: [6]byte{2, 3, 4, 5, 6, 7 ^ x}}, Eth{Dst: [6]byte{255, 255, 255, 255, 255, 255}})
		}},
		{"source", &v4, func(m *Match, x byte) { m.Eth(Eth{Src: [6]byte{8, 9 ^ x}}, Eth{Src: [6]byte{255, 255}}) }},
		{"type", &v4, func(m *Match, x byte) { m.Eth(Eth{EtherType: [2]byte{8, x}}, Eth{EtherType: [2]byte{255, 255}}) }},
		{"type behind a tag", &tagged, func(m *Match, x byte) { m.Eth(Eth{EtherType: [2]byte{8, x}}, Eth{EtherType: [2]byte{255, 255}}) }},
		{"VLAN", &tagged, func(m *Match, x byte) { m.Eth(Eth{VLAN: [2]byte{0x01, 0x23 ^ x}}, Eth{VLAN: [2]byte{0x0f, 255}}) }},
		{"priority of a VLAN", &tagged, func(m *Match, x byte) { m.Eth(Eth{VLAN: [2]byte{0x70 ^ x<<5}}, Eth{VLAN: [2]byte{0xe0}}) }},
		{"IPv4 source", &v4, func(m *Match, x byte) {
			m.IPv4(IPv4{Src: [4]byte{10, 1, 2, 3 ^ x}}, IPv4{Src: [4]byte{255, 255, 255, 255}})
		}},
		{"IPv4 destination", &tagged, func(m *Match, x byte) {
			m.IPv4(IPv4{Dst: [4]byte{10, 4, 5, 6 ^ x}}, IPv4{Dst: [4]byte{255, 255, 255, 255}})
		}},
		{"IPv4 protocol", &v4, func(m *Match, x byte) { m.IPv4(IPv4{Proto: 6 ^ x}, IPv4{Proto: 255}) }},
		{"TOS", &v4, func(m *Match, x byte) { m.IPv4(IPv4{TOS: 0x2c ^ x}, IPv4{TOS: 255}) }},
		{"TTL", &v4, func(m *Match, x byte) { m.IPv4(IPv4{TTL: 33 ^ x}, IPv4{TTL: 255}) }},
		{"IPv4 flags", &v4, func(m *Match, x byte) { m.IPv4(IPv4{Flags: IPDontFragment ^ x<<1}, IPv4{Flags: 6}) }},
		{"IPv6 source", &v6, func(m *Match, x byte) { m.IPv6(IPv6{Src: f16(0xfd, 1^x)}, IPv6{Src: f16(255, 255)}) }},
		{"IPv6 destination", &v6, func(m *Match, x byte) { m.IPv6(IPv6{Dst: f16(0xfd, 3^x)}, IPv6{Dst: f16(255, 255)}) }},
		{"flow label", &v6, func(m *Match, x byte) {
			m.IPv6(IPv6{FlowLabel: [4]byte{0, 10, 0xbc, 0xde ^ x}}, IPv6{FlowLabel: [4]byte{0, 15, 255, 255}})
		}},
		{"next header", &v6, func(m *Match, x byte) { m.IPv6(IPv6{NextHeader: 6 ^ x}, IPv6{NextHeader: 255}) }},
		{"traffic class", &v6, func(m *Match, x byte) { m.IPv6(IPv6{TrafficClass: 0x2c ^ x}, IPv6{TrafficClass: 255}) }},
		{"hop limit", &v6, func(m *Match, x byte) { m.IPv6(IPv6{HopLimit: 44 ^ x}, IPv6{HopLimit: 255}) }},
		{"source port", &v4, func(m *Match, x byte) {
			m.Ports(ProtoTCP, Ports{Src: [2]byte{1, 2 ^ x}}, Ports{Src: [2]byte{255, 255}})
		}},
		{"destination port", &v6, func(m *Match, x byte) {
			m.Ports(ProtoTCP, Ports{Dst: [2]byte{3, 4 ^ x}}, Ports{Dst: [2]byte{255, 255}})
		}},
		{"protocol", &v6, func(m *Match, x byte) { m.Ports(ProtoTCP+11*x, Ports{}, Ports{}) }},
		{"IPv6, not IPv4", &v6, func(m *Match, x byte) {
			if x == 1 {
				m.IPv4(IPv4{}, IPv4{})
			}
		}},
		{"C-VLAN", &tagged, func(m *Match, x byte) { m.Loose(Loose{Tag: TagC << x}, Loose{Tag: 3}) }},
		{"S-VLAN", &outer, func(m *Match, x byte) { m.Loose(Loose{Tag: TagS >> x}, Loose{Tag: 3}) }},
		{"VLAN of an S-VLAN", &outer, func(m *Match, x byte) { m.Loose(Loose{VLAN: [2]byte{0x01, 0x23 ^ x}}, Loose{VLAN: [2]byte{0x0f, 255}}) }},
		{"no tag", &v4, func(m *Match, x byte) { m.Loose(Loose{Tag: x}, Loose{Tag: 1}) }},
		{"TOS of any IP", &v6, func(m *Match, x byte) { m.Loose(Loose{TOS: 0x2c ^ x}, Loose{TOS: 255}) }},
		{"TTL of any IP", &v4, func(m *Match, x byte) { m.Loose(Loose{TTL: 33 ^ x}, Loose{TTL: 255}) }},
		{"protocol of any IP", &v6, func(m *Match, x byte) { m.Loose(Loose{Proto: 6 ^ x}, Loose{Proto: 255}) }},
		{"fragment", &part, func(m *Match, x byte) { m.Loose(Loose{Fragment: 1 ^ x}, Loose{Fragment: 1}) }},
		{"no fragment", &v6, func(m *Match, x byte) { m.Loose(Loose{Fragment: x}, Loose{Fragment: 1}) }},
		{"flags of TCP", &v4, func(m *Match, x byte) { m.Loose(Loose{TCPFlags: 0x12 ^ x}, Loose{TCPFlags: 255}) }},
		{"no flags of TCP in a fragment", &part, func(m *Match, x byte) {
			if x == 1 {
				m.Loose(Loose{}, Loose{TCPFlags: 1})
			}
		}},
		{"a contradiction", &v4, func(m *Match, x byte) {
			m.IPv4(IPv4{Proto: ProtoTCP + 11*x}, IPv4{Proto: 255})
			m.Ports(ProtoTCP, Ports{}, Ports{})
		}},
		{"a tag, not none", &tagged, func(m *Match, _ byte) { m.Eth(Eth{}, Eth{VLAN: [2]byte{0, 0}}) }},
	} {
		for x := range byte(2) {
			var table Table
			r := &Rule{To: 1}
			c.add(&r.Match, x)
			must(t, table.Add(r))
			out, trapped := table.Decide(c.f, nil)
			if want := x == 0 || c.what == "a tag, not none"; (len(out) == 1) != want || trapped != want {
				t.Errorf("%s, changed %d: to %v, %v", c.what, x, out, trapped)
			}
		}
	}
}

// A mask for the VLAN asks for a tag, even if the value is 0. Values outside a mask do not count.
func TestMasks(t *testing.T) {
	f := tcpFrame(netip.MustParseAddrPort("10.1.2.3:1"), netip.MustParseAddrPort("10.4.5.6:2"))
	zero := Parse(AppendVLAN(nil, f.Data, 0))
	var vlan, outside Table
	r := &Rule{To: 1}
	r.Match.Eth(Eth{}, Eth{VLAN: [2]byte{0x0f, 0xff}})
	must(t, vlan.Add(r))
	if out, _ := vlan.Decide(&f, nil); len(out) != 0 {
		t.Error("a frame without a tag matches VLAN 0")
	}
	if out, _ := vlan.Decide(&zero, nil); len(out) != 1 {
		t.Error("VLAN 0 does not match")
	}
	r = &Rule{To: 1}
	r.Match.IPv4(IPv4{Src: [4]byte{10, 1, 9, 9}}, IPv4{Src: [4]byte{255, 255}})
	must(t, outside.Add(r))
	if out, _ := outside.Decide(&f, nil); len(out) != 1 {
		t.Error("a value outside its mask matters")
	}
}

// Rules by the thousand are bounded, with each bound by itself, and a place comes back.
func TestBounds(t *testing.T) {
	numbered := func(i int) *Rule {
		r := &Rule{To: i, Priority: i % Priorities}
		r.Match.IPv4(IPv4{Src: [4]byte{byte(i >> 16), byte(i >> 8), byte(i)}}, IPv4{Src: [4]byte{255, 255, 255, 255}})
		return r
	}
	masked := func(i int) *Rule {
		r := &Rule{To: i}
		r.Match.IPv4(IPv4{}, IPv4{Src: [4]byte{byte(i >> 16), byte(i >> 8), byte(i)}})
		return r
	}
	same := func(i int) *Rule { return &Rule{To: i} }
	for _, c := range []struct {
		what string
		rule func(i int) *Rule
		most int
	}{
		{"rules", numbered, MaxRules}, {"masks", masked, maxMasks}, {"rules with one match", same, maxSame},
		{"sniffers", func(i int) *Rule { return &Rule{Type: Sniffer, To: i} }, maxSame},
		{"defaults", func(i int) *Rule { return &Rule{Type: AllDefault, To: i} }, maxSame},
	} {
		var table Table
		var rules []*Rule
		for i := range c.most {
			rules = append(rules, c.rule(i))
			must(t, table.Add(rules[i]))
		}
		more := c.rule(c.most)
		if err := table.Add(more); !errors.Is(err, ErrFull) {
			t.Errorf("%s: %v", c.what, err)
		}
		table.Remove(more) // was never there
		if table.Len() != c.most {
			t.Errorf("%s: %d rules", c.what, table.Len())
		}
		table.Remove(rules[0])
		must(t, table.Add(more))
	}
}

func TestRefused(t *testing.T) {
	var table Table
	for _, c := range []struct {
		r    Rule
		want error
	}{
		{Rule{Type: Sniffer + 1}, ErrType}, {Rule{Priority: Priorities}, ErrPriority}, {Rule{Priority: -1}, ErrPriority},
		{Rule{Type: Sniffer, Priority: 99}, nil}, {Rule{Priority: Priorities - 1}, nil},
		{Rule{Priority: Priorities - 1, Tag: 1}, ErrConflict}, {Rule{Priority: Priorities - 1, Drop: true}, ErrConflict},
		{Rule{Priority: Priorities - 1, DontTrap: true, Tag: 1}, nil},
	} {
		if err := table.Add(&c.r); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
}

// A counter that several rules share counts a frame once, with all its bytes.
func TestSharedCounter(t *testing.T) {
	var table Table
	c := new(Counter)
	for i := range 3 {
		must(t, table.Add(&Rule{To: i, Count: c}))
	}
	f := Parse(bytes.Repeat([]byte{1}, 60))
	out, _ := table.Decide(&f, nil)
	if packets, n := c.Load(); packets != 1 || n != 60 || len(out) != 3 {
		t.Errorf("%d frames, %d bytes, to %v", packets, n, out)
	}
}

// A sniffer receives also the frames that the port sends, and other rules do not apply to them.
func TestSniff(t *testing.T) {
	var table Table
	must(t, table.Add(&Rule{To: 1, Drop: true}))
	must(t, table.Add(&Rule{Type: Sniffer, To: 2, Tag: 3}))
	f := Parse(make([]byte, 60))
	if out, trapped := table.Decide(&f, nil); !trapped || len(out) != 1 || out[0] != (Delivery{2, 3}) {
		t.Errorf("%v, %v", out, trapped)
	}
	if out := table.Sniff(nil); len(out) != 1 || out[0].To != 2 {
		t.Errorf("%v", out)
	}
}

func TestDecideAllocates(t *testing.T) {
	var table Table
	for i := range 100 {
		r := &Rule{To: &table, Priority: i % Priorities, DontTrap: true, Count: new(Counter)}
		r.Match.IPv4(IPv4{Src: [4]byte{10, 1, 2, byte(i % 4)}}, IPv4{Src: [4]byte{255, 255, 255, 255}})
		must(t, table.Add(r))
	}
	b := tcpFrame(netip.MustParseAddrPort("10.1.2.3:1"), netip.MustParseAddrPort("10.4.5.6:2")).Data
	out := make([]Delivery, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		f := Parse(b)
		out, _ = table.Decide(&f, out[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(out) == 0 {
		t.Error("nobody received it")
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, masks := range []int{1, 16, maxMasks} {
		b.Run(fmt.Sprint("masks=", masks), func(b *testing.B) {
			var table Table
			for i := range masks {
				r := &Rule{To: 1}
				r.Match.IPv4(IPv4{Src: [4]byte{1, 1, 1, 1}}, IPv4{Src: [4]byte{255, byte(i)}})
				_ = table.Add(r)
			}
			f := tcpFrame(netip.MustParseAddrPort("10.1.2.3:1"), netip.MustParseAddrPort("10.4.5.6:2"))
			out := make([]Delivery, 0, 8)
			b.ReportAllocs()
			for b.Loop() {
				out, _ = table.Decide(&f, out[:0])
			}
		})
	}
}

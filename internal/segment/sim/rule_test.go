package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/gorxe/gorxe/internal/segment/ether"
)

// constraint asks for the bits of a field that mask has.
type constraint struct{ value, mask []byte }

// rule is a flow rule of the model, with the one that it stands for.
type rule struct {
	real     *ether.Rule
	typ      ether.Type
	priority int
	dontTrap bool
	drop     bool
	miss     bool
	tag      uint32
	to       any // *queue or *spread
	count    *counter
	asks     map[string]constraint
	never    bool
}

type counter struct {
	real           ether.Counter
	packets, bytes uint64
}

// ask adds a constraint; what has no mask asks for nothing.
func (r *rule) ask(field string, value, mask []byte) {
	old, ok := r.asks[field]
	if !ok {
		old = constraint{make([]byte, 16), make([]byte, 16)}
	}
	for i, m := range mask {
		both := m & old.mask[i]
		r.never = r.never || (value[i]^old.value[i])&both != 0
		old.value[i] |= value[i] & m
		old.mask[i] |= m
	}
	if slices.ContainsFunc(old.mask, func(b byte) bool { return b != 0 }) {
		r.asks[field] = old
	}
}

func (r *rule) exactly(field string, value ...byte) {
	r.ask(field, value, slices.Repeat([]byte{0xff}, len(value)))
}

// same reports that two rules ask for the same.
func (r *rule) same(o *rule) bool {
	return maps.EqualFunc(r.asks, o.asks, func(a, b constraint) bool {
		return slices.Equal(a.mask, b.mask) && slices.Equal(a.value, b.value)
	})
}

func (r *rule) matches(v *view) bool {
	for field, c := range r.asks {
		for i, m := range c.mask {
			has := byte(0)
			if b := v.fields[field]; i < len(b) {
				has = b[i]
			}
			if (has^c.value[i])&m != 0 {
				return false
			}
		}
	}
	return !r.never
}

// drawMask fills a mask: nothing, all, or some bits.
func drawMask(rng *rand.Rand, mask []byte) {
	switch rng.IntN(6) {
	case 0, 1:
		for i := range mask {
			mask[i] = 0xff
		}
	case 2:
		mask[rng.IntN(len(mask))] = byte(rng.Uint32())
	}
}

// drawRule makes a rule, without its receiver.
func drawRule(rng *rand.Rand) *rule {
	r := &rule{asks: make(map[string]constraint), typ: pick(rng, ether.Normal, ether.Normal, ether.Normal, ether.Normal, ether.Normal,
		ether.AllDefault, ether.MulticastDefault, ether.Sniffer), priority: rng.IntN(3), dontTrap: one(rng, 4), drop: one(rng, 8), tag: uint32(rng.IntN(3))}
	if one(rng, 40) {
		r.typ, r.priority = pick(rng, ether.Normal, ether.Type(4)), pick(rng, -1, ether.Priorities)
	}
	r.miss = !r.drop && one(rng, 10)
	r.real = &ether.Rule{Type: r.typ, Priority: r.priority, DontTrap: r.dontTrap, Drop: r.drop, Miss: r.miss, Tag: r.tag}
	if r.typ != ether.Normal {
		return r
	}
	if one(rng, 3) {
		r.drawEth(rng)
	}
	switch rng.IntN(5) {
	case 0:
		r.drawIPv4(rng)
	case 1:
		r.drawIPv6(rng)
	}
	if one(rng, 4) {
		r.drawPorts(rng)
	}
	if one(rng, 4) {
		r.drawLoose(rng)
	}
	return r
}

func (r *rule) drawLoose(rng *rand.Rand) {
	var m ether.Loose
	v := ether.Loose{VLAN: [2]byte(be16(pick(rng, tcis...))), Tag: pick[byte](rng, 0, ether.TagC, ether.TagS), Fragment: pick[byte](rng, 0, 1),
		Proto: pick[byte](rng, tcp, udp, 1), TOS: pick(rng, tos...), TTL: pick(rng, ttls...), TCPFlags: pick[byte](rng, 0, 2, 0x10)}
	if one(rng, 4) {
		drawMask(rng, m.VLAN[:])
	}
	for _, b := range []*byte{&m.Tag, &m.Fragment, &m.Proto, &m.TOS, &m.TTL, &m.TCPFlags} {
		if one(rng, 4) {
			*b = pick[byte](rng, 0xff, byte(rng.Uint32()))
		}
	}
	r.real.Match.Loose(v, m)
	r.ask("vlan", v.VLAN[:], m.VLAN[:])
	r.ask("tagged", []byte{v.Tag}, []byte{m.Tag})
	r.ask("fragment", []byte{v.Fragment}, []byte{m.Fragment})
	r.ask("proto", []byte{v.Proto}, []byte{m.Proto})
	r.ask("tos", []byte{v.TOS}, []byte{m.TOS})
	r.ask("ttl", []byte{v.TTL}, []byte{m.TTL})
	if r.ask("tcpFlags", []byte{v.TCPFlags}, []byte{m.TCPFlags}); m.TCPFlags != 0 {
		r.exactly("proto", tcp)
		r.exactly("l4", 1)
	}
}

func (r *rule) drawEth(rng *rand.Rand) {
	var m ether.Eth
	v := ether.Eth{Dst: drawMAC(rng), Src: drawMAC(rng), EtherType: [2]byte(be16(pick[uint16](rng, typeOther, typeIPv4, typeIPv6, typeSTag))), VLAN: [2]byte(be16(pick(rng, tcis...)))}
	drawMask(rng, m.Dst[:])
	for _, b := range [][]byte{m.Src[:], m.EtherType[:], m.VLAN[:]} {
		if one(rng, 3) {
			drawMask(rng, b)
		}
	}
	r.real.Match.Eth(v, m)
	r.ask("dst", v.Dst[:], m.Dst[:])
	r.ask("src", v.Src[:], m.Src[:])
	r.ask("type", v.EtherType[:], m.EtherType[:])
	if r.ask("vlan", v.VLAN[:], m.VLAN[:]); m.VLAN != [2]byte{} {
		r.exactly("tagged", 1)
	}
}

func (r *rule) drawIPv4(rng *rand.Rand) {
	var m ether.IPv4
	src, dst := pick(rng, ipv4s...), pick(rng, ipv4s...)
	v := ether.IPv4{Src: [4]byte(src[:4]), Dst: [4]byte(dst[:4]), Proto: pick[byte](rng, tcp, udp, 1), TOS: pick(rng, tos...), TTL: pick(rng, ttls...),
		Flags: pick[byte](rng, 0, ether.IPDontFragment, ether.IPMoreFragments)}
	drawMask(rng, m.Src[:])
	drawMask(rng, m.Dst[:])
	for _, b := range []*byte{&m.Proto, &m.TOS, &m.TTL, &m.Flags} {
		if one(rng, 4) {
			*b = pick[byte](rng, 0xff, byte(rng.Uint32()))
		}
	}
	r.real.Match.IPv4(v, m)
	r.exactly("version", 4)
	r.exactly("type", be16(typeIPv4)...)
	r.ask("srcIP", v.Src[:], m.Src[:])
	r.ask("dstIP", v.Dst[:], m.Dst[:])
	r.ask("proto", []byte{v.Proto}, []byte{m.Proto})
	r.ask("tos", []byte{v.TOS}, []byte{m.TOS})
	r.ask("ttl", []byte{v.TTL}, []byte{m.TTL})
	r.ask("flags", []byte{v.Flags}, []byte{m.Flags})
}

func (r *rule) drawIPv6(rng *rand.Rand) {
	var m ether.IPv6
	v := ether.IPv6{Src: pick(rng, ipv6s...), Dst: pick(rng, ipv6s...), NextHeader: pick[byte](rng, tcp, udp, 1, 44), TrafficClass: pick(rng, tos...),
		HopLimit: pick(rng, ttls...), FlowLabel: pick(rng, [4]byte{}, [4]byte{0, 0xa, 0xbc, 0xde})}
	drawMask(rng, m.Src[:])
	drawMask(rng, m.Dst[:])
	if one(rng, 4) {
		m.FlowLabel = [4]byte{0, 0xf, 0xff, 0xff}
	}
	for _, b := range []*byte{&m.NextHeader, &m.TrafficClass, &m.HopLimit} {
		if one(rng, 4) {
			*b = pick[byte](rng, 0xff, byte(rng.Uint32()))
		}
	}
	r.real.Match.IPv6(v, m)
	r.exactly("version", 6)
	r.exactly("type", be16(typeIPv6)...)
	r.ask("srcIP", v.Src[:], m.Src[:])
	r.ask("dstIP", v.Dst[:], m.Dst[:])
	r.ask("flow", v.FlowLabel[:], m.FlowLabel[:])
	r.ask("proto", []byte{v.NextHeader}, []byte{m.NextHeader})
	r.ask("tos", []byte{v.TrafficClass}, []byte{m.TrafficClass})
	r.ask("ttl", []byte{v.HopLimit}, []byte{m.HopLimit})
}

func (r *rule) drawPorts(rng *rand.Rand) {
	var m ether.Ports
	v, proto := ether.Ports{Dst: [2]byte(be16(pick(rng, ports...))), Src: [2]byte(be16(pick(rng, ports...)))}, pick[byte](rng, tcp, udp)
	drawMask(rng, m.Dst[:])
	drawMask(rng, m.Src[:])
	r.real.Match.Ports(proto, v, m)
	r.exactly("proto", proto)
	r.ask("dport", v.Dst[:], m.Dst[:])
	r.ask("sport", v.Src[:], m.Src[:])
	if m != (ether.Ports{}) {
		r.exactly("l4", 1)
	}
}

// stage is a group of rules of which one match has a frame: those of a priority that do not trap,
// and then those that do.
func (r *rule) stage() string { return fmt.Sprintf("%02d %v", r.priority, !r.dontTrap) }

// table has the rules of a station, the oldest first.
type table struct{ rules []*rule }

// add returns what the table must say to a rule.
func (t *table) add(r *rule) error {
	if r.typ > ether.Sniffer {
		return ether.ErrType
	}
	if r.typ == ether.Normal {
		if r.priority < 0 || r.priority >= ether.Priorities {
			return ether.ErrPriority
		}
		for _, o := range t.rules {
			if o.typ == ether.Normal && !o.never && !r.never && o.stage() == r.stage() && o.same(r) {
				if o.drop != r.drop || o.miss != r.miss || o.tag != r.tag {
					return ether.ErrConflict
				}
				break
			}
		}
	}
	t.rules = append(t.rules, r)
	return nil
}

func (t *table) remove(r *rule) {
	t.rules = slices.DeleteFunc(t.rules, func(o *rule) bool { return o == r })
}

// delivery is a receiver of a frame.
type delivery struct {
	to  any
	tag uint32
}

// give returns each receiver once.
func give(rules []*rule) (out []delivery) {
	for _, r := range rules {
		if !slices.ContainsFunc(out, func(d delivery) bool { return d.to == r.to }) {
			out = append(out, delivery{r.to, r.tag})
		}
	}
	return out
}

func (t *table) of(typ ether.Type) (list []*rule) {
	for _, r := range t.rules {
		if r.typ == typ {
			list = append(list, r)
		}
	}
	return list
}

// decide returns the receivers of a frame.
func (t *table) decide(v *view) []delivery {
	out := give(t.of(ether.Sniffer))
	normal := t.of(ether.Normal)
	slices.SortStableFunc(normal, func(a, b *rule) int { return cmpString(a.stage(), b.stage()) })
	for len(normal) > 0 {
		first := normal[0]
		behind := slices.IndexFunc(normal, func(r *rule) bool { return r.stage() != first.stage() })
		if behind < 0 {
			behind = len(normal)
		}
		group := normal[:behind]
		normal = normal[behind:]
		i := slices.IndexFunc(group, func(r *rule) bool { return r.matches(v) })
		if i < 0 {
			continue
		}
		hit := group[i]
		taking := slices.DeleteFunc(slices.Clone(group), func(r *rule) bool { return r.never || !r.same(hit) })
		counted := make(map[*counter]bool)
		for _, r := range taking {
			if r.count != nil && !counted[r.count] {
				counted[r.count] = true
				r.count.packets++
				r.count.bytes += uint64(len(v.data))
			}
		}
		if hit.drop {
			return out
		}
		if !hit.miss {
			out = append(out, give(taking)...)
		}
		if !hit.dontTrap && hit.miss {
			break
		}
		if !hit.dontTrap {
			return out
		}
	}
	out = append(out, give(t.of(ether.AllDefault))...)
	if v.toMany {
		out = append(out, give(t.of(ether.MulticastDefault))...)
	}
	return out
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

package fault

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// index finds the rules of one list that may concern a candidate, without a comparison with each of
// them. A rule is in the part that tells most candidates apart. An index does not change.
type index struct {
	all []*entry // in their order

	psn  map[wire.PSN][]*entry
	size map[int][]*entry // rules for one size
	qp   map[wire.QPN][]*entry
	peer map[netip.Addr][]*entry
	op   map[int][]*entry // opcodes, verbs or operations
	rest []*entry

	qps    map[wire.QPN]Direction // of the rules that name a queue pair
	scopes []scope                // of the others
}

// scope is which queue pairs a rule concerns.
type scope struct {
	direction Direction
	typ       string
	device    string
	program   Program
}

// maxScopes is how many scopes an index tells apart. With more, the rules concern all queue pairs.
const maxScopes = 8

// add adds a rule. It is for the making of an index.
func (x *index) add(e *entry) {
	r := &e.rule
	x.all = append(x.all, e)
	switch {
	case r.PSN != nil:
		addTo(&x.psn, *r.PSN, e)
	case r.Size != nil && r.Size.Min == r.Size.Max:
		addTo(&x.size, int(r.Size.Min), e)
	case r.QP != 0:
		addTo(&x.qp, r.QP, e)
	case r.Peer.IsValid():
		addTo(&x.peer, r.Peer, e)
	case r.Opcode != "" || r.Verb != "":
		for i := range 256 {
			if e.has(i) {
				addTo(&x.op, i, e)
			}
		}
	default:
		x.rest = append(x.rest, e)
	}
	x.cover(r)
}

// has reports whether the rule is about an opcode, a verb or an operation.
func (e *entry) has(op int) bool {
	if e.rule.asked() == WherePacket {
		return e.ops.has(wire.Opcode(op))
	}
	return op < 64 && e.on.has(op)
}

func addTo[K comparable](m *map[K][]*entry, key K, e *entry) {
	if *m == nil {
		*m = make(map[K][]*entry)
	}
	(*m)[key] = append((*m)[key], e)
}

// cover notes which queue pairs a rule concerns.
func (x *index) cover(r *Rule) {
	if r.QP != 0 {
		if x.qps == nil {
			x.qps = make(map[wire.QPN]Direction)
		}
		x.qps[r.QP] |= r.direction()
		return
	}
	s := scope{r.direction(), r.Type, r.Device, r.Program}
	for _, known := range x.scopes {
		if known == s || known == (scope{direction: Either}) {
			return
		}
	}
	if x.scopes = append(x.scopes, s); len(x.scopes) > maxScopes {
		x.scopes = []scope{{direction: Either}}
	}
}

// what names the candidates.
func (x *index) what() string {
	switch x.all[0].rule.asked() {
	case WherePacket:
		return "packet"
	case WhereVerb:
		return "verb"
	default:
		return "work request"
	}
}

// compared returns how many rules a candidate is compared with at most.
func (x *index) compared() int {
	return longest(x.psn) + longest(x.size) + 2*longest(x.qp) + 2*longest(x.peer) + longest(x.op) + len(x.rest)
}

func longest[K comparable](m map[K][]*entry) (n int) {
	for _, list := range m {
		n = max(n, len(list))
	}
	return n
}

// candidates are the rules that may concern a candidate, in their order.
type candidates struct {
	lists [8][]*entry // none is empty
	n     int
}

func (c *candidates) add(list []*entry) {
	if len(list) > 0 {
		c.lists[c.n] = list
		c.n++
	}
}

// next returns the next rule; nil: there is none.
func (c *candidates) next() *entry {
	if c.n == 0 {
		return nil
	}
	least := 0
	for i := 1; i < c.n; i++ {
		if c.lists[i][0].id < c.lists[least][0].id {
			least = i
		}
	}
	e := c.lists[least][0]
	if c.lists[least] = c.lists[least][1:]; len(c.lists[least]) == 0 {
		c.n--
		c.lists[least] = c.lists[c.n]
	}
	return e
}

// fewRules are compared with each packet: that takes less time than to look in the parts of an
// index.
const fewRules = 4

// ofPacket puts the rules that may concern a packet into c, which is empty.
func (x *index) ofPacket(p *Packet, c *candidates) {
	if len(x.all) <= fewRules {
		c.add(x.all)
		return
	}
	if x.psn != nil {
		c.add(x.psn[psnOf(p.Data)])
	}
	if x.size != nil {
		c.add(x.size[p.payload()])
	}
	if x.qp != nil {
		c.add(x.qp[p.SrcQP])
		if p.SrcQP != p.DestQP {
			c.add(x.qp[p.DestQP])
		}
	}
	if x.peer != nil {
		c.add(x.peer[p.Src])
		if p.Src != p.Dst {
			c.add(x.peer[p.Dst])
		}
	}
	if x.op != nil {
		c.add(x.op[int(p.Data[0])])
	}
	c.add(x.rest)
}

// of returns the rules that may concern a verb, or a work request of a queue pair.
func (x *index) of(op int, qp wire.QPN) (c candidates) {
	if x.qp != nil {
		c.add(x.qp[qp])
	}
	if x.op != nil {
		c.add(x.op[op])
	}
	c.add(x.rest)
	return c
}

// End is a queue pair as one end of a packet.
type End struct {
	QP     wire.QPN
	Type   string // RC, UC or UD; "" if it is not known
	Side   Direction
	Device string
	Of     func(wire.QPN) Process
}

// Concerns reports whether a rule for packets, of those that are for a whole device or of the
// others, may concern packets of a queue pair. Packets of others need not be shown to the set.
func (s *Set) Concerns(q *End, wholeDevice bool) bool {
	x := s.index(listOf(WherePacket, wholeDevice))
	if x.qps[q.QP]&q.Side != 0 {
		return true
	}
	for i := range x.scopes {
		c := &x.scopes[i]
		if c.direction&q.Side == 0 || c.typ != "" && q.Type != "" && c.typ != q.Type || c.device != "" && c.device != q.Device {
			continue
		}
		if !c.program.limited() || c.program.names(q.Of(q.QP)) {
			return true
		}
	}
	return false
}

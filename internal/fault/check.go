package fault

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// Check reports whether the rule can fire. An error is an *Error about its String. Parse has
// checked what it returns.
func (r *Rule) Check() error {
	text := r.String()
	if name := r.unknownLimit(); name != "" {
		return &Error{Rule: text, Why: fmt.Sprintf("%s is no limit: there are %s", name, oneOf(limitNames))}
	}
	p, f := r.of()
	if p == nil {
		return &Error{Rule: text, Why: fmt.Sprintf("its place %d and its fault %d do not go together", r.Where, r.What)}
	}
	takes := p.takes(f)
	for i := range keys {
		if k := &keys[i]; k.get(r) != "" && !slices.Contains(takes, k.name) {
			return &Error{Rule: text, Why: fmt.Sprintf("%s %s has no %s", p.name, f.name, k.name)}
		}
	}
	_, err := Parse(text)
	return err
}

// check returns the key at fault and why the rule cannot fire; why is empty if it can. Each
// value alone is valid.
func (r *Rule) check() (key, why string) {
	p, f := r.of()
	for _, name := range f.needs {
		if findKey(name).get(r) == "" {
			return "", fmt.Sprintf("%s %s needs %s=…", p.name, f.name, name)
		}
	}
	switch {
	case r.First != 0 && r.Every > r.First:
		return "every", fmt.Sprintf("it never fires: none of the first %d is a multiple of %d", r.First, r.Every)
	case r.Seed != 0 && r.P == 0 && r.Jitter == 0 && r.Loss == 0:
		return "seed", "nothing is drawn: give p or jitter as well"
	case r.P == 1:
		return "p", "each candidate is hit without it: leave it out, or write p=1% for one of a hundred"
	case r.Jitter > r.Time:
		return "jitter", "it is more than time"
	case r.Until != 0 && r.Until <= r.AfterTime:
		return "until", "it never fires: it is not later than after"
	case r.QP == 1 && !r.WholeDevice:
		return "qp", "queue pair 1 belongs to no program: give scope=device as well"
	}
	switch r.asked() {
	case WherePacket:
		return r.checkPacket()
	case WhereVerb:
		switch {
		case r.Time > maxVerb:
			return "time", fmt.Sprintf("a verb waits %v at most", maxVerb)
		case r.WholeDevice && r.IsVerb("post_send"):
			return "verb", "a rule for post_send is of one session, whose doorbells are then trapped: leave scope out, or name other verbs"
		}
	case WhereCompletion, WhereDevice:
		return r.checkCompletion()
	case WherePeer:
		if r.QP == 1 {
			return "qp", noWork
		}
	case WhereLimits:
		return r.checkLimits()
	case WherePort:
		switch {
		case !r.WholeDevice:
			return "scope", "a port belongs to all programs: give scope=device"
		case r.After != 0:
			return "after", "give a time with its unit, as 2s"
		case r.Times != 0 && r.Time == 0:
			return "times", "it never ends without time: give time=… as well"
		}
	}
	return "", ""
}

// noWork refuses a rule for the work of queue pair 1.
const noWork = "programs post no work requests to queue pair 1"

func (r *Rule) checkCompletion() (key, why string) {
	if r.QP == 1 {
		return "qp", noWork
	}
	switch named, _ := selectNames(cmp.Or(r.Opcode, "*"), "an operation", workNames); {
	case r.What == Delay && named&^receives == 0:
		return "opcode", "a receive completes when the message is there: delay its packets instead"
	case r.selected() == 0:
		if r.Event.ofSRQ() {
			return "opcode", "only receives use a shared receive queue: RECV or RECV_RDMA_WITH_IMM"
		}
		return "opcode", fmt.Sprintf("a %s queue pair has no such work requests", r.Type)
	}
	return "", ""
}

func (r *Rule) checkPacket() (key, why string) {
	ops := r.compile()
	if ops.empty() {
		return "opcode", fmt.Sprintf("a %s queue pair has no such packets", r.Type)
	}
	if r.Size != nil && r.Size.Min > 0 && !ops.some(func(op wire.Opcode) bool { return op.Info().Has(wire.OpPayload) }) {
		return "size", "such packets have no payload"
	}
	if r.Size != nil && r.Length > uint64(wire.MaxHeaderLen)+r.Size.Max {
		return "length", "no such packet is so long"
	}
	if r.What == Shape {
		return r.checkShape()
	}
	if r.What == Corrupt {
		return r.checkCorrupt(&ops)
	}
	return "", ""
}

func (r *Rule) checkCorrupt(ops *opcodes) (key, why string) {
	f := findField(r.Field)
	switch {
	case r.Bit == nil && r.Field == "":
		return "", "packet corrupt needs bit=… or field=…"
	case r.Bit != nil && r.Field != "":
		return "bit", "give either bit or field"
	case r.Value != nil && f == nil:
		return "value", "it is of a header field: give field=… as well, and not icrc"
	case f == nil:
		return "", ""
	case !ops.some(f.in):
		return "field", "such packets do not have it"
	case r.Value != nil && *r.Value > f.max():
		return "value", fmt.Sprintf("the field has %d bits", f.bits)
	case r.Value != nil && f.name == "qkey" && *r.Value > maxFreeQKey:
		return "value", "Q_Keys from 0x80000000 on are for privileged senders"
	case r.Value != nil && f.name == "opcode" && isDatagram(wire.Opcode(*r.Value)) && ops.some(isConnected):
		return "value", "a datagram names its sender, so no other packet becomes one: give opcode=UD_* as well"
	}
	return "", ""
}

func isDatagram(op wire.Opcode) bool  { return op.Service() == wire.ServiceUD }
func isConnected(op wire.Opcode) bool { return !isDatagram(op) }

// maxFreeQKey is the largest Q_Key that any program may send with (IBA 10.2.5).
const maxFreeQKey = 1<<31 - 1

// fieldNames are the header fields' names.
var fieldNames = func() (names []string) {
	for i := range fields {
		names = append(names, fields[i].name)
	}
	slices.Sort(names)
	return names
}()

package fault

import (
	"slices"
	"strings"
)

// The grammar:
//
//	WHERE WHAT[,KEY=VALUE]...
//
// The tables of this file are all that Parse, String, and the help know.

// place is a place of faults.
type place struct {
	name  string
	where Where
	is    string
	which []string // the keys that select its candidates
	whats []fault
	alone bool // the keys of every rule do not belong to it
}

// fault is what can happen at a place.
type fault struct {
	name  string
	what  What
	is    string
	needs []string
	may   []string
}

var places = []place{
	{
		"packet", WherePacket, "a packet of a queue pair",
		[]string{"qp", "peer", "opcode", "direction", "size", "psn", "pid", "command", "label", "scope"},
		[]fault{
			{"drop", Drop, "is lost", nil, nil},
			{"duplicate", Duplicate, "arrives again, `copies` times (1)", nil, []string{"copies"}},
			{"delay", Delay, "arrives `time` later, plus or minus up to `jitter`", []string{"time"}, []string{"jitter"}},
			{"reorder", Reorder, "is overtaken by the next `by` packets of its flow (1), but arrives after `time` (20ms) at the latest", nil, []string{"by", "time"}},
			{"corrupt", Corrupt, "arrives with bit `bit` inverted (0 is the first of the BTH), or a wrong ICRC (`field=icrc`), or another value of a header field and the ICRC that belongs to it", nil, []string{"bit", "field", "value"}},
			{"truncate", Truncate, "ends after `length` bytes, counted from the BTH, and has the ICRC that belongs to them", []string{"length"}, nil},
			{"mark", Mark, "is marked with ECN's \"congestion experienced\"", nil, nil},
			{"shape", Shape, "passes a link with this `rate`, `latency` and `loss`; it is lost if `queue` packets (100) wait for the link, and marked, if it is ECN-capable, when `ecn` wait", nil, []string{"rate", "latency", "loss", "queue", "ecn"}},
		},
		false,
	},
	{
		"verb", WhereVerb, "a call of libibverbs or librdmacm that reaches the device",
		[]string{"pid", "command", "label", "scope"},
		[]fault{
			{"fail", Fail, "returns `errno`, and does nothing", []string{"verb", "errno"}, nil},
			{"delay", Delay, "begins `time` later, plus or minus up to `jitter`", []string{"verb", "time"}, []string{"jitter"}},
		},
		false,
	},
	{
		"completion", WhereCompletion, "a work request",
		[]string{"qp", "opcode", "pid", "command", "label", "scope"},
		[]fault{
			{"fail", Fail, "completes with `status` and `vendor_err` (0) and is not executed; its queue pair fails as with a real error, and raises `event`", []string{"status"}, []string{"vendor_err", "event"}},
			{"delay", Delay, "completes `time` later, plus or minus up to `jitter`", []string{"time"}, []string{"jitter"}},
		},
		false,
	},
	{
		"peer", WherePeer, "the other end, as its peer sees it: a message that needs a receive, a packet, or a work request",
		[]string{"qp", "pid", "command", "label", "scope"},
		[]fault{
			{"rnr", RNR, "finds no receive, as if none was posted: an RC queue pair sends an RNR NAK, others drop the message", nil, nil},
			{"silent", Silent, "is silent: each packet that it sends or receives is lost", nil, nil},
			{"half_open", HalfOpen, "loses each packet in one `direction`", []string{"direction"}, nil},
			{"killed", Killed, "is killed (SIGKILL) at a work request, which is not executed", nil, nil},
		},
		false,
	},
	{
		"port", WherePort, "the port of a device",
		[]string{"scope", "device", "name", "after"},
		[]fault{
			{"down", Down, "is down for `time`, or until the rule is removed; again, with `times`, after a pause of the same length; its packets are lost", nil, []string{"time", "times"}},
			{"gid_removed", GIDRemoved, "lacks the GID with index `gid`, likewise", []string{"gid"}, []string{"time", "times"}},
			{"gid_moved", GIDMoved, "has the GID with index `gid` at the lowest other index that is empty, likewise", []string{"gid"}, []string{"time", "times"}},
			{"speed", Speed, "has the speed `gbps`, likewise; its packets are as fast as before", []string{"gbps"}, []string{"time", "times"}},
		},
		true,
	},
	{
		"device", WhereDevice, "the objects that a work request uses",
		[]string{"qp", "opcode", "pid", "command", "label", "scope"},
		[]fault{
			{"fail", Fail, "the queue pair, its completion queue, its shared receive queue or the device fails and raises `event`; the work request is not executed", []string{"event"}, nil},
			{"remove", Removed, "is unplugged for `time`, or for ever, as far as the session sees; the work request is flushed", nil, []string{"time"}},
		},
		false,
	},
	{
		"limits", WhereLimits, "a device, as the programs see that begin with the rule",
		[]string{"device", "name"},
		[]fault{
			{"set", Smaller, "has lower limits; a call that exceeds one fails as with the device's own", nil, limitNames},
		},
		true,
	},
}

// other are the keys of faults that do not have those of their place.
var other = map[What][]string{
	Silent:   lostPeer,
	HalfOpen: lostPeer,
	Killed:   slices.Concat([]string{"qp", "opcode", "pid", "command", "label"}, always),
}

// lostPeer are the keys of rules that lose all packets.
var lostPeer = []string{"qp", "peer", "pid", "command", "label", "scope", "name", "device", "after", "until"}

// always are the keys of every rule, beside those of its place and of its fault.
var always = []string{"name", "device", "after", "until", "first", "every", "p", "seed", "count"}

func findPlace(name string) *place {
	for i := range places {
		if places[i].name == name {
			return &places[i]
		}
	}
	return nil
}

func (p *place) find(name string) *fault {
	for i := range p.whats {
		if p.whats[i].name == name {
			return &p.whats[i]
		}
	}
	return nil
}

func (p *place) faults() (names []string) {
	for i := range p.whats {
		names = append(names, p.whats[i].name)
	}
	return names
}

func placeNames() (names []string) {
	for i := range places {
		names = append(names, places[i].name)
	}
	return names
}

// of returns the place and the fault of a rule; nil if it has none.
func (r *Rule) of() (*place, *fault) {
	for i := range places {
		if p := &places[i]; p.where == r.Where {
			for j := range p.whats {
				if p.whats[j].what == r.What {
					return p, &p.whats[j]
				}
			}
		}
	}
	return nil, nil
}

// takes returns the keys of a fault at a place, in the order in which String writes them.
func (p *place) takes(f *fault) []string {
	if keys, ok := other[f.what]; ok {
		return slices.Concat(f.needs, f.may, keys)
	}
	if p.alone {
		return slices.Concat(f.needs, f.may, p.which)
	}
	return slices.Concat(f.needs, f.may, p.which, always)
}

// String returns the rule as Parse reads it.
func (r *Rule) String() string {
	p, f := r.of()
	if p == nil {
		return "no rule"
	}
	var b strings.Builder
	b.WriteString(p.name + " " + f.name)
	for _, name := range p.takes(f) {
		if value := findKey(name).get(r); value != "" {
			b.WriteString("," + name + "=" + value)
		}
	}
	return b.String()
}

// Examples returns a rule of each fault, with the keys that it needs, for the completion of a
// command line.
func Examples() (list []string) {
	for i := range places {
		p := &places[i]
		for j := range p.whats {
			f := &p.whats[j]
			text := p.name + " " + f.name
			for _, k := range f.needs {
				text += "," + k + "=" + examples[k]
			}
			if p.where == WherePort {
				text += ",scope=device"
			}
			switch f.what {
			case Corrupt:
				text += ",field=" + fieldICRC
			case Shape:
				text += ",rate=1gbit,latency=1ms"
			case Smaller:
				text += ",max_qp=16"
			default:
			}
			list = append(list, text)
		}
	}
	return list
}

// examples are values of the keys that faults need.
var examples = map[string]string{
	"time": "1ms", "length": "64", "verb": "create_qp", "errno": "ENOMEM", "status": "IBV_WC_RETRY_EXC_ERR",
	"direction": "in", "gid": "1", "gbps": "10", "event": "IBV_EVENT_QP_FATAL",
}

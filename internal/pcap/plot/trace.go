package plot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// slots is how many threads of the trace show the messages of one flow. Messages that overlap have
// different threads.
const slots = 32

// Trace writes a capture in the trace event format, which ui.perfetto.dev and chrome://tracing
// open. A host is a process of the trace, and a queue pair has threads there. A message lasts from
// its first packet to its acknowledgement.
type Trace struct {
	// Management says what a datagram to queue pair 1 means; nil: it is not said.
	Management func(*capture.Packet, *conformance.Verdict) string

	c       Collector
	w       *bufio.Writer
	started bool
	err     error
	hosts   map[netip.Addr]int
	order   []netip.Addr
	busy    map[*conformance.Flow]*[slots]time.Duration // until when each slot has a message
	used    map[*conformance.Flow]int                   // slots
	note    string                                      // of the packet that is added
	crowded uint64                                      // messages without a slot
}

// NewTrace returns a trace that is written to w.
func NewTrace(w io.Writer) *Trace {
	t := &Trace{
		w: bufio.NewWriter(w), hosts: make(map[netip.Addr]int),
		busy: make(map[*conformance.Flow]*[slots]time.Duration), used: make(map[*conformance.Flow]int),
	}
	t.c.message, t.c.packet = t.message, t.packet
	return t
}

// traceEvent is an event of the format. Times are microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	At    json.Number    `json:"ts,omitempty"`
	For   json.Number    `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Cat   string         `json:"cat,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

func micros(d time.Duration) json.Number {
	d = max(d, 0)
	return json.Number(fmt.Sprintf("%d.%03d", d/time.Microsecond, d%time.Microsecond))
}

func (t *Trace) write(e *traceEvent) {
	text, err := json.Marshal(e)
	if t.err != nil || err != nil {
		t.err = errors.Join(t.err, err)
		return
	}
	before := ",\n"
	if !t.started {
		t.started, before = true, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
	}
	if _, t.err = t.w.WriteString(before); t.err == nil {
		_, t.err = t.w.Write(text)
	}
}

// Add adds a packet. fault is what fault rules did to it, and lost says that they lost it.
func (t *Trace) Add(p *capture.Packet, v *conformance.Verdict, fault string, lost bool) {
	t.note = fault
	effect := Untouched
	switch {
	case lost:
		effect = Dropped
	case fault != "":
		effect = Changed
	}
	if v.Parsed && v.Packet.DestQP() == wire.GSIQPN && t.Management != nil {
		t.note = t.Management(p, v)
	}
	t.c.Add(p, v, effect)
}

// host returns the number of a host.
func (t *Trace) host(a netip.Addr) int {
	n := t.hosts[a]
	if n == 0 {
		t.order = append(t.order, a)
		n = len(t.order)
		t.hosts[a] = n
	}
	return n
}

// thread returns the number of a flow's first thread.
func (t *Trace) thread(f *conformance.Flow) int { return f.ID*slots + 1 }

// message writes a message that has ended.
func (t *Trace) message(m *Message) {
	end := max(m.End, m.Begin)
	if t.busy[m.Flow] == nil {
		t.busy[m.Flow] = new([slots]time.Duration)
	}
	slot := -1
	for i, until := range t.busy[m.Flow] {
		if until <= m.Begin {
			slot = i
			break
		}
	}
	if slot < 0 {
		t.crowded++
		return
	}
	t.busy[m.Flow][slot], t.used[m.Flow] = max(end, m.Begin+1), max(t.used[m.Flow], slot+1)
	args := map[string]any{"packet": m.Number, "psn": hexPSN(m.PSN), "last_psn": hexPSN(m.Last), "bytes": m.Bytes}
	name := m.Opcode.String()
	if t.note != "" && m.Flow.QPN == wire.GSIQPN {
		name = t.note
	}
	if !m.Answered && (m.Flow.Service == wire.ServiceRC || m.Flow.Service == wire.ServiceXRC) {
		args["acknowledged"] = false
	}
	t.write(&traceEvent{
		Name: name, Phase: "X", Cat: "message", At: micros(m.Begin), For: micros(end - m.Begin),
		PID: t.host(m.Flow.Src), TID: t.thread(m.Flow) + slot, Args: args,
	})
}

func hexPSN(p wire.PSN) string { return fmt.Sprintf("0x%06x", uint32(p)) }

// traceNames are those of the kinds that are events. Others are part of a message.
var traceNames = map[Kind]string{Again: "sent again", RNR: "RNR NAK", NAK: "NAK", CNP: "CNP", Hit: "fault rule", Lost: "lost"}

// packet writes a packet that is worth an event.
func (t *Trace) packet(p *Packet) {
	name := traceNames[p.Kind]
	if name == "" {
		return
	}
	args := map[string]any{"packet": p.Number, "psn": hexPSN(p.PSN)}
	if t.note != "" {
		args["note"] = t.note
	}
	t.used[p.Flow.of] = max(t.used[p.Flow.of], 1)
	t.write(&traceEvent{
		Name: name, Phase: "i", Cat: "packet", Scope: "t", At: micros(p.At),
		PID: t.host(p.Flow.of.Src), TID: t.thread(p.Flow.of), Args: args,
	})
}

// Close writes the messages that nobody acknowledged, the series, and the names.
func (t *Trace) Close() error {
	t.note = ""
	for _, f := range t.c.order {
		for i := range f.pending {
			m := &f.pending[i]
			m.End = f.last
			t.message(m)
		}
	}
	for _, f := range t.c.order {
		t.counter(f, "Mbit/s", &f.bytes, func(x bin, w time.Duration) float64 { return float64(x.sum) * 8e3 / float64(w) })
		t.counter(f, "messages under way", &f.depth, func(x bin, _ time.Duration) float64 { return float64(x.most) })
	}
	for _, f := range t.c.order {
		for i := range t.used[f.of] {
			name := flowName(f.of)
			if i > 0 {
				name = fmt.Sprintf("%s, %d at once", name, i+1)
			}
			t.meta("thread_name", t.host(f.of.Src), t.thread(f.of)+i, map[string]any{"name": name})
			t.meta("thread_sort_index", t.host(f.of.Src), t.thread(f.of)+i, map[string]any{"sort_index": t.thread(f.of) + i})
		}
	}
	for i, a := range t.order {
		t.meta("process_name", i+1, 0, map[string]any{"name": "host " + a.String()})
	}
	if t.err == nil && !t.started {
		_, t.err = t.w.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
	}
	if t.err == nil {
		_, t.err = t.w.WriteString("\n]}\n")
	}
	return errors.Join(t.err, t.w.Flush())
}

// LeftOut returns how many messages and flows were too many for the trace.
func (t *Trace) LeftOut() (messages uint64, flows int) {
	messages = t.crowded
	for _, f := range t.c.order {
		messages += f.missed
	}
	return messages, len(t.c.unseen)
}

func (t *Trace) meta(name string, pid, tid int, args map[string]any) {
	t.write(&traceEvent{Name: name, Phase: "M", PID: pid, TID: tid, Args: args})
}

// counter writes a series.
func (t *Trace) counter(f *Flow, what string, b *bins, value func(bin, time.Duration) float64) {
	last := 0.0
	for i, x := range append(b.list, bin{}) {
		v := value(x, b.width)
		if x.n == 0 {
			v = 0
		}
		if v != last {
			t.write(&traceEvent{
				Name: what + ", " + flowName(f.of), Phase: "C", At: micros(b.start + time.Duration(i)*b.width), PID: t.host(f.of.Src),
				Args: map[string]any{"value": v},
			})
		}
		last = v
	}
}

// flowName names the two ends.
func flowName(f *conformance.Flow) string {
	from := ""
	switch {
	case f.Peer != nil:
		from = fmt.Sprintf("QP 0x%06x ", uint32(f.Peer.QPN))
	case f.SourceQPN != 0:
		from = fmt.Sprintf("QP 0x%06x ", uint32(f.SourceQPN))
	}
	return fmt.Sprintf("%v %sto %v 0x%06x", f.Service, from, f.Dst, uint32(f.QPN))
}

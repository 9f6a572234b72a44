package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// recorder writes a run as a script of package script: what was posted, and what became of
// each packet, in the order in which it happened. The two hosts are a and b. The run has one
// pair of queue pairs, on different hosts.
//
// A packet's fate is drawn when it is sent, in the middle of a command. It is written before
// the next command, with the packet's position in flight at that time.
type recorder struct {
	w       *world
	lines   []string
	sent    []string     // sender, opcode and PSN of each packet
	written rxe.Time     // up to where the clock is written
	air     []*airborne  // oldest first
	arrived []*airborne  // delivered, and not given to the device yet
	twin    bool         // the network doubles the packet that it announces next
	origin  [2]aimOrigin // by host
	local   [2]int       // bytes of buffers
}

// aimOrigin is where an endpoint's target began: UC moves it.
type aimOrigin struct {
	iova uint64
	size int
}

// airborne is a packet in flight.
type airborne struct {
	packet *simnet.Packet // nil for a copy, which the network has not announced
	host   int
	id     uint16
	data   []byte
	lost   bool      // to be written
	copy   *airborne // to be written: the network has doubled the packet
	hidden bool      // this is a copy that is not written yet
	landed bool      // delivered: to be written
}

func (h *host) letter() string { return string(rune('a' + h.index)) }

// record makes the world record itself.
func record(w *world) *recorder {
	r := &recorder{w: w}
	w.rec = r
	for _, e := range w.ends {
		r.origin[e.h.index] = aimOrigin{e.iova, e.p.target}
	}
	inner := w.net.Observe
	w.net.Observe = func(p *simnet.Packet, fate simnet.Fate) {
		inner(p, fate)
		r.observe(p, fate)
	}
	for _, h := range w.hosts {
		h.port.Attach(&recordedHost{r, h})
	}
	return r
}

// recordedHost is between a port and its device.
type recordedHost struct {
	r *recorder
	h *host
}

// Receive implements simnet.Receiver.
func (d *recordedHost) Receive(batch []wire.Datagram) {
	d.r.deliver()
	d.h.dev.Receive(batch)
}

// Expire implements simnet.Receiver.
func (d *recordedHost) Expire() { d.h.dev.Expire() }

func (r *recorder) observe(p *simnet.Packet, fate simnet.Fate) {
	host := 0
	if p.Route.Src == r.w.hosts[1].addr {
		host = 1
	}
	switch fate {
	case simnet.Duplicated:
		r.twin = true
	case simnet.Delivered:
		f := r.find(p)
		if f == nil {
			failf("a packet was delivered that is not in flight")
		}
		f.landed = true
		r.arrived = append(r.arrived, f)
	case simnet.Discarded: // it was damaged
		if f := r.find(p); f != nil {
			f.lost = true
		}
	default:
		pkt, err := wire.Parse(p.Data[:len(p.Data)-wire.ICRCLen])
		must(err)
		r.sent = append(r.sent, fmt.Sprintf("%c %v %d", 'a'+host, pkt.Opcode(), pkt.PSN()))
		f := &airborne{packet: p, host: host, id: p.ID, data: slices.Clone(p.Data)}
		r.air = append(r.air, f)
		if r.twin {
			f.copy = &airborne{host: host, id: p.ID, data: f.data, hidden: true}
			r.air = append(r.air, f.copy)
		}
		f.lost = fate == simnet.Lost
		r.twin = false
	}
}

// find returns the packet in flight that arrives now.
func (r *recorder) find(p *simnet.Packet) *airborne {
	var copied *airborne
	for _, f := range r.air {
		switch {
		case f.lost || f.landed:
		case f.packet == p:
			return f
		case f.packet == nil && copied == nil && f.id == p.ID && bytes.Equal(f.data, p.Data):
			copied = f
		}
	}
	return copied
}

// command writes a command, after what has happened before it. A nil recorder does nothing.
func (r *recorder) command(format string, args ...any) {
	if r == nil {
		return
	}
	if now := r.w.net.Now(); now > r.written {
		r.lines = append(r.lines, fmt.Sprintf("wait %dns", now-r.written))
		r.written = now
	}
	r.fates()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// fates writes what became of the packets that were sent since.
func (r *recorder) fates() {
	for _, f := range r.air {
		if f.copy != nil {
			r.lines = append(r.lines, "dup"+r.position(f))
			f.copy.hidden, f.copy = false, nil
		}
	}
	for i := 0; i < len(r.air); i++ {
		if f := r.air[i]; f.lost {
			r.lines = append(r.lines, "drop"+r.position(f))
			r.air = slices.Delete(r.air, i, i+1)
			i--
		}
	}
}

// position says where a packet is among those of its sender. A copy that is not written yet
// does not count.
func (r *recorder) position(f *airborne) string {
	n := 1
	for _, g := range r.air {
		switch {
		case g == f:
			return fmt.Sprintf(" from=%c%s", 'a'+f.host, at(n))
		case g.host == f.host && !g.hidden:
			n++
		}
	}
	failf("a packet is not in flight")
	return ""
}

func at(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" at=%d", n)
}

// deliver writes the packets that arrive at once.
func (r *recorder) deliver() {
	batch := r.arrived
	r.arrived = nil
	if len(batch) == 0 {
		return
	}
	// The clock and the fates are written first, while the packets are still in flight.
	r.command("#")
	r.lines = r.lines[:len(r.lines)-1]
	for len(batch) > 0 {
		n := r.inARow(batch)
		line := fmt.Sprintf("deliver %d%s", n, r.position(batch[0]))
		switch {
		case n < len(batch):
			line += " more"
		case n > 1:
			line += " together"
		}
		r.lines = append(r.lines, line)
		for _, f := range batch[:n] {
			i := slices.Index(r.air, f)
			r.air = slices.Delete(r.air, i, i+1)
		}
		batch = batch[n:]
	}
}

// inARow returns how many of the packets follow each other in flight.
func (r *recorder) inARow(batch []*airborne) int {
	var own []*airborne
	for _, f := range r.air {
		if f.host == batch[0].host {
			own = append(own, f)
		}
	}
	first, n := slices.Index(own, batch[0]), 1
	for n < len(batch) && first+n < len(own) && own[first+n] == batch[n] {
		n++
	}
	return n
}

func (r *recorder) receive(h *host, size, pieces int) {
	if r != nil {
		r.local[h.index] += size + 8
		r.command("recv %s %d%s", h.letter(), size, option("sges", pieces, 1))
	}
}

func option(name string, n, otherwise int) string {
	if n == otherwise {
		return ""
	}
	return fmt.Sprintf(" %s=%d", name, n)
}

// scriptNames are the names of the operations in scripts.
var scriptNames = map[rxe.WROpcode]string{
	rxe.WRSend: "send", rxe.WRSendImm: "send-imm", rxe.WRSendInv: "send-inv", rxe.WRWrite: "write",
	rxe.WRWriteImm: "write-imm", rxe.WRRead: "read", rxe.WRCompareSwap: "compare-swap",
	rxe.WRFetchAdd: "fetch-add", rxe.WRAtomicWrite: "atomic-write", rxe.WRFlush: "flush",
	rxe.WRBindMW: "bind", rxe.WRLocalInv: "local-inv",
}

// posts writes work requests that are posted together.
func (r *recorder) posts(e *endpoint, all []*sent) {
	if r == nil {
		return
	}
	for i, s := range all {
		line := fmt.Sprintf("post %s %s%s", e.h.letter(), scriptNames[s.wr.Op], r.operands(e, s))
		for _, f := range []struct {
			flag rxe.SendFlags
			name string
		}{{rxe.SendFence, " fence"}, {rxe.SendSolicited, " solicited"}, {rxe.SendInline, " inline"}} {
			if s.wr.Flags&f.flag != 0 {
				line += f.name
			}
		}
		if s.wr.Flags&rxe.SendSignaled == 0 {
			line += " unsignaled"
		}
		if i < len(all)-1 {
			line += " more"
		}
		r.command("%s", line)
	}
}

// operands writes lengths and addresses. Values of atomics are those of the script's own memory,
// which begins as zeros.
func (r *recorder) operands(e *endpoint, s *sent) string {
	size, remote := s.size, s.wr.RemoteAddr
	switch s.wr.Op {
	case rxe.WRLocalInv:
		return ""
	case rxe.WRFlush:
		size = int(s.wr.FlushLength)
	case rxe.WRBindMW:
		r.local[e.h.index] += int(s.wr.Bind.Length) + 8 // scripts give each work request a buffer
		return fmt.Sprintf(" %d at=%d", s.wr.Bind.Length, s.wr.Bind.Addr-r.origin[e.h.index].iova)
	default:
	}
	r.local[e.h.index] += size + 8
	var b strings.Builder
	if s.wr.Op != rxe.WRCompareSwap && s.wr.Op != rxe.WRFetchAdd && s.wr.Op != rxe.WRAtomicWrite {
		fmt.Fprintf(&b, " %d", size)
	}
	if n := len(s.wr.SGL); n > 1 {
		fmt.Fprintf(&b, " sges=%d", n)
	}
	if remote != 0 {
		fmt.Fprintf(&b, " at=%d", remote-r.origin[e.peer.h.index].iova)
	}
	if s.windowed {
		b.WriteString(" rkey=window")
	}
	if s.wr.Op == rxe.WRFetchAdd {
		fmt.Fprintf(&b, " add=%d", s.wr.CompareAdd%1000)
	}
	if s.wr.Op == rxe.WRCompareSwap {
		fmt.Fprintf(&b, " swap=%d", s.wr.Swap%1000)
	}
	return b.String()
}

// script returns the whole script.
func (r *recorder) script() []string {
	p := &r.w.p.pairs[0]
	psn := p.psn
	if p.hosts[0] == 1 {
		psn[0], psn[1] = psn[1], psn[0]
	}
	half := 2*max(r.local[0], r.local[1], p.target) + 64<<10 // finish needs room too
	first := fmt.Sprintf("connect %s mtu=%d psn=%d psn-b=%d timeout=%d rnr-timer=%d reads=%d depth=%d memory=%d",
		strings.ToLower(p.typ.String()), p.mtu, psn[0], psn[1], p.timeout, p.rnrTimer, p.rdAtomic,
		max(p.depth, p.recvDepth, 64), 2*(half+7)&^7)
	return append(append([]string{first}, r.lines...), "finish")
}

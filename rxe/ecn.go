package rxe

import (
	"fmt"

	"github.com/gorxe/gorxe/wire"
)

// ECN is how a device answers congestion. A switch marks a packet, and its receiver sends a
// congestion notification packet (CNP, IBA A17.9.3). Then the sender slows down as DCQCN says
// (Zhu et al., SIGCOMM 2015). The tags are the names that mlx5 has for the parameters. The
// defaults are those of the paper.
type ECN struct {
	// Off: packets are not ECN-capable, marks are not answered, and CNPs are ignored.
	Off bool `json:"off,omitempty"`
	// Of the notification point: a queue pair sends one CNP in this time at most.
	CNPInterval int `json:"min_time_between_cnps"` // µs
	CNPDSCP     int `json:"cnp_dscp"`
	// Of the reaction point.
	AlphaTimer int `json:"dce_tcp_rtt"`    // µs without a CNP until alpha falls
	AlphaKeep  int `json:"dce_tcp_g"`      // alpha falls to so many 1024ths of itself
	RateTimer  int `json:"rpg_time_reset"` // µs between increases
	RateBytes  int `json:"rpg_byte_reset"` // bytes between increases
	Threshold  int `json:"rpg_threshold"`  // increases of fast recovery
	RateAI     int `json:"rpg_ai_rate"`    // Mb/s, of an additive increase
	RateHAI    int `json:"rpg_hai_rate"`   // Mb/s, of a hyper increase
	MinRate    int `json:"rpg_min_rate"`   // Mb/s
}

// ECNParam is one parameter of an ECN.
type ECNParam struct {
	Name     string
	Value    *int
	Min, Max int
	Unit     string // "" if it has none
	Doc      string
}

// Check returns an error that names a parameter out of its range.
func (e *ECN) Check() error {
	for _, p := range e.Params() {
		if v := *p.Value; v < p.Min || v > p.Max {
			return fmt.Errorf("%s=%d: give a number from %d to %d", p.Name, v, p.Min, p.Max)
		}
	}
	return nil
}

// ECN returns how the device answers congestion.
func (d *Device) ECN() ECN { return d.ecn }

// The codepoints of the ECN field (RFC 3168, section 5).
const (
	ecnMask    = 3
	ecnCapable = 2 // ECT(0)
	congested  = 3 // CE
)

// connectedClass returns the traffic class of a connected queue pair's packets. ECN belongs to
// the device. Datagrams have the program's bits, because a UD queue pair has no rate that it
// could lower.
func (d *Device) connectedClass(class uint8) uint8 {
	if d.ecn.Off {
		return class
	}
	return class&^ecnMask | ecnCapable
}

// notifier is the notification point of a queue pair.
type notifier struct {
	route *wire.Route // of CNPs; nil until the first
	next  Time        // no CNP is sent before it
}

// marked handles a packet that has met congestion: it notifies the sender, unless that has
// happened just now (CA17-44). A CNP has the P_Key of the packets, and is not ECN-capable itself.
// One that is marked all the same causes none: the two sides would answer each other without end.
func (q *QP) marked(pkt wire.Packet, st *step) {
	d := q.dev
	d.counters.ECNMarked.Add(1)
	if d.ecn.Off || q.typ == QPUD || pkt.Opcode() == wire.OpCNP || st.now < q.notify.next {
		return
	}
	q.notify.next = st.now + Time(d.ecn.CNPInterval)*microsecond
	if q.notify.route == nil {
		r := *q.route
		r.TrafficClass = uint8(d.ecn.CNPDSCP) << 2
		q.notify.route = &r
	}
	h := wire.Headers{Opcode: wire.OpCNP, BECN: true, PKey: q.pkey, DestQP: q.attr.DestQPN}
	h.Put(st.packet(q.notify.route, h.Len(), h.Len()))
	q.countSent(1, 0, st)
	st.countSent(h.Opcode, 1)
	d.counters.SentCNP.Add(1)
}

// notified handles a CNP: the sender of this queue pair slows down (CA17-45).
func (q *QP) notified(st *step) {
	d := q.dev
	if d.ecn.Off || q.typ == QPUD {
		d.counters.IgnoredCNP.Add(1)
		return
	}
	d.counters.HandledCNP.Add(1)
	q.rate.notified(&d.ecn, int64(d.port.speed.Load().Mbps)*bytesPerMbps, st.now)
}

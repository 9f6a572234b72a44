package replay

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// playDatagrams makes the engine the sender of captured datagrams. A sender counts
// PSNs over all its flows. So if some datagrams went to other queue pairs, the engine's
// queue pair is reset to the next PSN.
func playDatagrams(n *session, s *Session, h *host) error {
	mem := &sent{mtu: uint64(n.mtu), payload: func(i uint64) []byte { return n.events[i].pkt.Payload() }}
	mr, err := h.pd.RegMR(mem, 0, uint64(len(n.events))*mem.mtu, 0, rxe.AccessLocalWrite)
	if err != nil {
		return err
	}
	var ah *rxe.AH
	for i, e := range n.events {
		p := e.pkt
		if i == 0 || n.events[i-1].pkt.PSN().Next() != p.PSN() || n.events[i-1].pkt.QKey() != p.QKey() {
			if err := h.connect(rxe.QPAttr{SQPSN: p.PSN(), QKey: p.QKey()}); err != nil {
				return err
			}
		}
		if ah == nil {
			if ah, err = h.pd.CreateAH(rxe.AHAttr{DGID: wire.GIDFromAddr(h.there), PortNum: 1}); err != nil {
				return err
			}
		}
		wr := rxe.SendWR{ID: sendID, Op: dataOp(p), Flags: rxe.SendSignaled, Imm: p.Imm(), AH: ah, RemoteQPN: p.DestQP(), RemoteQKey: p.QKey(),
			SGL: []rxe.SGE{{Addr: uint64(i) * mem.mtu, Length: uint32(len(p.Payload())), LKey: mr.LKey()}}}
		if p.Solicited() {
			wr.Flags |= rxe.SendSolicited
		}
		if _, err := h.q.PostSend([]rxe.SendWR{wr}); err != nil {
			return fmt.Errorf("packet %d: %w", e.number, err)
		}
		if err := h.settle(0); err != nil {
			return err
		}
		h.poll()
		s.Played++
		out := h.take()
		if len(out) != 1 {
			s.differ(Difference{Packet: e.number, About: "datagram", Captured: words(p), Engine: "sends " + plural.Of(len(out), "packet")})
			continue
		}
		s.Compared++
		if out[0].PSN() != p.PSN() {
			s.differ(Difference{Packet: e.number, About: "PSN", Captured: words(p), Engine: words(out[0])})
		}
		for _, d := range compareRequests(p, out[0]) {
			d.Packet = e.number
			s.differ(d)
		}
	}
	return nil
}

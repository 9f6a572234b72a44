package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rxe"
)

// status describes the file with at most room of its objects.
func (f *file) status(room int) (st proto.FileStatus, listed int) {
	in := f.Status(room)
	st = proto.FileStatus{
		Device: f.device.spec.Name,
		PDs:    in.PDs, MWs: in.MWs, AHs: in.AHs, XRCDs: in.XRCDs, Channels: in.Channels,
		Doorbells: proto.DoorbellStatus(in.Doorbells), Flows: in.Flows, WQs: in.WQs, RSS: in.RSS,
		MRs: []proto.MRStatus{}, CQs: []proto.CQStatus{}, SRQs: []proto.SRQStatus{}, QPs: []proto.QPStatus{},
		LeftOut: proto.LeftOut(in.LeftOut), MRBytes: in.MRBytes, OldLibrxe: in.Overrun,
		Fill: proto.QueueFill{Send: proto.Fill(in.Fill.Send), Recv: proto.Fill(in.Fill.Recv), SRQ: proto.Fill(in.Fill.SRQ), CQ: proto.Fill(in.Fill.CQ)},
	}
	for _, m := range in.MRs {
		st.MRs = append(st.MRs, proto.MRStatus{Handle: m.Handle, Addr: m.Addr, Length: m.Length, Access: uint32(m.Access)})
	}
	for _, c := range in.CQs {
		st.CQs = append(st.CQs, proto.CQStatus(c))
	}
	for _, s := range in.SRQs {
		st.SRQs = append(st.SRQs, proto.SRQStatus(s))
	}
	for i := range in.QPs {
		st.QPs = append(st.QPs, qpStatus(&in.QPs[i]))
	}
	return st, in.Listed()
}

func qpStatus(q *uverbs.QPStatus) proto.QPStatus {
	st := proto.QPStatus{
		Handle: q.Handle, QPN: uint32(q.Num), Type: q.Type.String(), State: q.State.String(),
		SendQueue: q.SendQueue, SendPSN: uint32(q.SendPSN), AckedPSN: uint32(q.AckedPSN), RecvPSN: uint32(q.RecvPSN),
		Busy: q.Busy, RateMbps: float64(q.Rate) * 8 / 1e6, Counters: make(map[string]uint64),
	}
	if q.Type != rxe.QPUD && !q.DGID.IsZero() {
		st.Peer = &proto.PeerStatus{GID: q.DGID.String(), QPN: uint32(q.DestQPN), MTU: int(q.PathMTU)}
	}
	for _, g := range q.MulticastGroups {
		st.Groups = append(st.Groups, g.String())
	}
	for _, c := range q.Counters {
		st.Counters[c.Name] = c.Value
	}
	return st
}

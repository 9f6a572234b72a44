package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// frames gives a new queue pair for raw packets its place on a segment. It returns nil if the
// device has none; the engine then refuses the queue pair.
//
// The kernel wants CAP_NET_RAW for such a queue pair (uverbs_cmd.c: create_qp), because its frames
// reach a network. Here they reach the caller's own queue pairs, unless the caller has it.
func (k *call) frames(r *qpRes, req *newQP) *rxe.FrameInit {
	station := k.f.dev.cfg.Station
	if station == nil {
		return nil
	}
	r.station = station(k.f.budget, k.Caller.NetRaw())
	return &rxe.FrameInit{Port: framePort{r.station, k.f}, StripVLAN: req.flags&uapi.QPCreateCVLANStripping != 0,
		ScatterFCS: req.flags&uapi.QPCreateScatterFCS != 0}
}

func (r *qpRes) leaveStation() {
	if r.station != nil {
		r.station.Release()
		r.station = nil
	}
}

// framePort is the station of the queue pairs of an open.
type framePort struct {
	*segment.Station
	f *File
}

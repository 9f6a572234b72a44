package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/rxe"
)

// FileStatus has the objects that a program made through one open of a device. It has no
// keys, because a process that knows a key can use it.
type FileStatus struct {
	Device   string      `json:"device"`
	PDs      int         `json:"pds"`
	MWs      int         `json:"mws"`
	AHs      int         `json:"ahs"`
	Channels int         `json:"comp_channels"`
	MRs      []MRStatus  `json:"mrs"`
	CQs      []CQStatus  `json:"cqs"`
	SRQs     []SRQStatus `json:"srqs"`
	QPs      []QPStatus  `json:"qps"`
	// OldLibrxe: see OldLibrxe.
	OldLibrxe bool `json:"old_librxe,omitempty"`
}

// MRStatus is a memory region, in the program's addresses.
type MRStatus struct {
	Handle uint32 `json:"handle"`
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	Access uint32 `json:"access"` // enum ibv_access_flags
}

// CQStatus is a completion queue; Waiting are completions not polled yet.
type CQStatus struct {
	Handle  uint32 `json:"handle"`
	Entries int    `json:"entries"`
	Waiting int    `json:"waiting"`
}

// SRQStatus is a shared receive queue; Waiting are work requests not used yet.
type SRQStatus struct {
	Handle  uint32 `json:"handle"`
	Entries int    `json:"entries"`
	Waiting int    `json:"waiting"`
}

// QPStatus is a queue pair.
type QPStatus struct {
	Handle    uint32            `json:"handle"`
	QPN       uint32            `json:"qpn"`
	Type      string            `json:"type"`
	State     string            `json:"state"`
	Peer      *PeerStatus       `json:"peer,omitempty"` // RC and UC that are connected
	SendQueue uint32            `json:"send_queue"`     // work requests under way
	SendPSN   uint32            `json:"send_psn"`
	AckedPSN  uint32            `json:"acked_psn"`
	RecvPSN   uint32            `json:"recv_psn"`
	Busy      bool              `json:"busy"`
	Groups    []string          `json:"multicast_groups,omitempty"`
	Counters  map[string]uint64 `json:"counters"`
}

// PeerStatus is the other end of a connected queue pair.
type PeerStatus struct {
	GID string `json:"gid"`
	QPN uint32 `json:"qpn"`
	MTU int    `json:"path_mtu"`
}

func (f *file) status() FileStatus {
	in := f.Status()
	st := FileStatus{
		Device: f.device.spec.Name,
		PDs:    in.PDs, MWs: in.MWs, AHs: in.AHs, Channels: in.Channels,
		MRs: []MRStatus{}, CQs: []CQStatus{}, SRQs: []SRQStatus{}, QPs: []QPStatus{},
		OldLibrxe: in.Overrun,
	}
	for _, m := range in.MRs {
		st.MRs = append(st.MRs, MRStatus{Handle: m.Handle, Addr: m.Addr, Length: m.Length, Access: uint32(m.Access)})
	}
	for _, c := range in.CQs {
		st.CQs = append(st.CQs, CQStatus(c))
	}
	for _, s := range in.SRQs {
		st.SRQs = append(st.SRQs, SRQStatus(s))
	}
	for i := range in.QPs {
		st.QPs = append(st.QPs, qpStatus(&in.QPs[i]))
	}
	return st
}

func qpStatus(q *uverbs.QPStatus) QPStatus {
	st := QPStatus{
		Handle: q.Handle, QPN: uint32(q.Num), Type: q.Type.String(), State: q.State.String(),
		SendQueue: q.SendQueue, SendPSN: uint32(q.SendPSN), AckedPSN: uint32(q.AckedPSN), RecvPSN: uint32(q.RecvPSN),
		Busy: q.Busy, Counters: make(map[string]uint64),
	}
	if q.Type != rxe.QPUD && !q.DGID.IsZero() {
		st.Peer = &PeerStatus{GID: q.DGID.String(), QPN: uint32(q.DestQPN), MTU: int(q.PathMTU)}
	}
	for _, g := range q.MulticastGroups {
		st.Groups = append(st.Groups, g.String())
	}
	for _, c := range q.Counters {
		st.Counters[c.Name] = c.Value
	}
	return st
}

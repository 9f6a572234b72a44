package uverbs

import (
	"maps"
	"slices"
	"sync"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// groupSet are the multicast groups that a QP is attached to.
type groupSet struct {
	change sync.Mutex // held while the engine attaches and detaches; only calls that do so wait
	mu     sync.Mutex // gids; a leaf lock
	gids   map[wire.GID]struct{}
}

// changeMcast returns the handler of ATTACH_MCAST or DETACH_MCAST.
func changeMcast(change func(*rxe.QP, wire.GID, uint16) error, attached bool) func(*call, *uapi.McastReq) error {
	return func(k *call, req *uapi.McastReq) error {
		r, err := dispatch.Held[*qpRes](&k.Call, uapi.ObjQP, req.QPHandle)
		if err != nil {
			return err
		}
		r.groups.change.Lock()
		defer r.groups.change.Unlock()
		if err := change(r.qp, wire.GID(req.GID), req.MLID); err != nil {
			return err
		}
		r.groups.note(wire.GID(req.GID), attached)
		return nil
	}
}

func (s *groupSet) note(gid wire.GID, attached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gids == nil {
		s.gids = make(map[wire.GID]struct{})
	}
	if attached {
		s.gids[gid] = struct{}{}
	} else {
		delete(s.gids, gid)
	}
}

// joined are the groups now.
func (r *qpRes) joined() []wire.GID {
	r.groups.mu.Lock()
	defer r.groups.mu.Unlock()
	return slices.Collect(maps.Keys(r.groups.gids))
}

// leaveGroups detaches the QP from every group: a program that goes away does
// not do it (ib_uverbs_detach_umcast).
func (r *qpRes) leaveGroups() {
	for _, gid := range r.joined() {
		_ = r.qp.DetachMcast(gid, 0) // an error leaves the QP busy, which its destruction reports
		r.groups.note(gid, false)
	}
}

package uverbs

import (
	"maps"
	"slices"
	"sync"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/uapi"
	"github.com/gorxe/gorxe/wire"
)

// groupSet are the multicast groups that a QP is attached to.
type groupSet struct {
	change sync.Mutex // held while the engine attaches and detaches; only calls that do so wait
	mu     sync.Mutex // gids; a leaf lock
	gids   map[wire.GID]struct{}
}

func writeAttachMcast(k *call) error {
	return k.changeGroups(func(r *qpRes, gid wire.GID, lid uint16) error {
		if err := r.qp.AttachMcast(gid, lid); err != nil {
			return err
		}
		r.groups.note(gid, true)
		return nil
	})
}

func writeDetachMcast(k *call) error {
	return k.changeGroups(func(r *qpRes, gid wire.GID, lid uint16) error {
		if err := r.qp.DetachMcast(gid, lid); err != nil {
			return err
		}
		r.groups.note(gid, false)
		return nil
	})
}

func (k *call) changeGroups(change func(*qpRes, wire.GID, uint16) error) error {
	req, err := dispatch.Request[uapi.McastReq](&k.Call)
	if err != nil {
		return err
	}
	r, err := dispatch.Held[*qpRes](&k.Call, uapi.ObjQP, req.QPHandle)
	if err != nil {
		return err
	}
	r.groups.change.Lock()
	defer r.groups.change.Unlock()
	return change(r, wire.GID(req.GID), req.MLID)
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

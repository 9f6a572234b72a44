package rxe

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// mcastTable says which QPs are attached to which multicast group. Readers see a
// snapshot.
type mcastTable struct {
	mu     sync.Mutex // writers; a QP is locked before it, never after
	total  int        // attachments
	groups atomic.Pointer[map[wire.GID][]*QP]
}

func (t *mcastTable) snapshot() map[wire.GID][]*QP {
	if m := t.groups.Load(); m != nil {
		return *m
	}
	return nil
}

// replace publishes a copy in which gid has these members.
func (t *mcastTable) replace(gid wire.GID, members []*QP) {
	next := make(map[wire.GID][]*QP)
	for g, qs := range t.snapshot() {
		if g != gid {
			next[g] = qs
		}
	}
	if len(members) > 0 {
		next[gid] = members
	}
	t.groups.Store(&next)
}

// mcastMembers returns the QPs attached to gid. It takes no lock; the slice never
// changes.
func (d *Device) mcastMembers(gid wire.GID) []*QP { return d.groups.snapshot()[gid] }

// AttachMcast makes a UD QP receive packets to gid (ibv_attach_mcast). lid means
// nothing on Ethernet. Attaching twice has no effect.
func (q *QP) AttachMcast(gid wire.GID, lid uint16) error {
	const op = "AttachMcast"
	if err := q.checkMcast(op, gid); err != nil {
		return err
	}
	d := q.dev
	t := &d.groups
	t.mu.Lock()
	defer t.mu.Unlock()
	members := t.snapshot()[gid]
	if slices.Contains(members, q) {
		return nil
	}
	switch {
	case q.groups.over:
		return opErr(op, "qp", ErrClosed)
	case uint32(len(members)) >= d.whole.attr.MaxMcastQPAttach:
		return opErr(op, "max_mcast_qp_attach", ErrLimit)
	case uint32(t.total) >= d.whole.attr.MaxTotalMcastQPAttach:
		return opErr(op, "max_total_mcast_qp_attach", ErrLimit)
	case len(members) == 0 && uint32(len(t.snapshot())) >= d.whole.attr.MaxMcastGrp:
		return opErr(op, "max_mcast_grp", ErrLimit)
	}
	if len(members) == 0 {
		if err := d.cfg.Link.Join(gid); err != nil {
			return &OpError{Op: op, Arg: "gid", Err: err}
		}
	}
	q.groups.add(gid)
	t.replace(gid, append(append([]*QP(nil), members...), q))
	t.total++
	return nil
}

// DetachMcast undoes AttachMcast (ibv_detach_mcast). It returns ErrInvalid when the
// QP is not attached.
func (q *QP) DetachMcast(gid wire.GID, lid uint16) error {
	const op = "DetachMcast"
	if err := q.checkMcast(op, gid); err != nil {
		return err
	}
	t := &q.dev.groups
	t.mu.Lock()
	defer t.mu.Unlock()
	members := t.snapshot()[gid]
	i := slices.Index(members, q)
	if i < 0 {
		return invalid(op, "gid", "QP is not attached", "detach only groups that it is attached to")
	}
	rest := append(append([]*QP(nil), members[:i]...), members[i+1:]...)
	t.replace(gid, rest)
	t.total--
	delete(q.groups.in, gid)
	if len(rest) == 0 {
		if err := q.dev.cfg.Link.Leave(gid); err != nil {
			return &OpError{Op: op, Arg: "gid", Err: err}
		}
	}
	return nil
}

func (q *QP) checkMcast(op string, gid wire.GID) error {
	switch {
	case q.typ != QPUD:
		return invalid(op, "qp", "is not UD", "only UD queue pairs have multicast")
	case !gid.IsMulticast():
		return invalid(op, "gid", "is no multicast address", "use a GID of ff00::/8, or of an IPv4 group")
	}
	return nil
}

// mcastGroups holds the groups that one QP is attached to, under mcastTable.mu.
type mcastGroups struct {
	in   map[wire.GID]struct{}
	over bool // the QP is being destroyed
}

func (g *mcastGroups) add(gid wire.GID) {
	if g.in == nil {
		g.in = make(map[wire.GID]struct{})
	}
	g.in[gid] = struct{}{}
}

// leaveMcast bars the QP from all groups. It reports false if the QP is attached to
// one.
func (q *QP) leaveMcast() bool {
	t := &q.dev.groups
	t.mu.Lock()
	defer t.mu.Unlock()
	q.groups.over = len(q.groups.in) == 0
	return q.groups.over
}

// detachAll detaches the QP from every group, when the device closes.
func (q *QP) detachAll() {
	t := &q.dev.groups
	t.mu.Lock()
	groups := slices.Collect(maps.Keys(q.groups.in))
	t.mu.Unlock()
	for _, g := range groups {
		_ = q.DetachMcast(g, 0) // may have been detached meanwhile
	}
}

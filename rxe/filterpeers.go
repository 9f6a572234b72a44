package rxe

import (
	"net/netip"
	"sync"
)

// The filter has room for some addresses of peers, and each user for a share of them. A queue pair
// has one peer at most, which is not known when it gets its number. So a user may have as many
// listed queue pairs without a peer as there is room left in its share. Further queue pairs get
// numbers for which the filter lets packets of all addresses pass: they do not need its room.

// filterUsers counts what users take of the filter's room. Its lock is a leaf lock.
type filterUsers struct {
	mu sync.Mutex
	of map[any]*filterUse // by QPInitAttr.User
}

// filterUse is what one user takes.
type filterUse struct {
	idle  int                // listed queue pairs without a peer
	peers map[netip.Addr]int // of listed queue pairs
}

// listing is how the filter knows a QP. The QP is locked when it changes.
type listing struct {
	peer netip.Addr // that Config.Filter knows
	user any        // QPInitAttr.User
}

// kindOf returns the kind of number for a new queue pair, and takes room for its peer.
func (d *Device) kindOf(q *QP) numberKind {
	if q.typ == QPUD || q.typ == QPRaw {
		return numberUD
	}
	u := &d.filterUsers
	u.mu.Lock()
	defer u.mu.Unlock()
	use := u.of[q.user]
	if use == nil {
		use = &filterUse{peers: make(map[netip.Addr]int)}
		if u.of == nil {
			u.of = make(map[any]*filterUse)
		}
		u.of[q.user] = use
	}
	if use.idle+len(use.peers) >= filterShare {
		return numberUnlisted
	}
	use.idle++
	return numberListed
}

// unlist gives back the room of a queue pair that has no peer any more.
func (q *QP) unlist() {
	if q.number != numberListed {
		return
	}
	u := &q.dev.filterUsers
	u.mu.Lock()
	defer u.mu.Unlock()
	use := u.of[q.user]
	if use.idle--; use.idle == 0 && len(use.peers) == 0 {
		delete(u.of, q.user)
	}
}

// setPeer tells the filter from which address the QP takes packets; the zero Addr: from none.
// The error is ErrLimit: queue pairs that were reset have lost their room to others of the user.
// The caller has locked the QP.
func (q *QP) setPeer(op string, addr netip.Addr) error {
	if q.number != numberListed || addr == q.peer {
		return nil
	}
	u := &q.dev.filterUsers
	u.mu.Lock()
	use := u.of[q.user]
	if addr.IsValid() && use.peers[addr] == 0 && len(use.peers) >= filterShare {
		u.mu.Unlock()
		return opErr(op, "ah_attr", ErrLimit)
	}
	use.move(q.peer, addr)
	u.mu.Unlock()
	if f := q.dev.cfg.Filter; f != nil {
		if addr.IsValid() {
			f.AddPeer(addr)
		}
		if q.peer.IsValid() {
			f.RemovePeer(q.peer)
		}
	}
	q.peer = addr
	return nil
}

// move counts that a queue pair has another peer.
func (u *filterUse) move(from, to netip.Addr) {
	if to.IsValid() {
		u.peers[to]++
	} else {
		u.idle++
	}
	if !from.IsValid() {
		u.idle--
	} else if u.peers[from]--; u.peers[from] == 0 {
		delete(u.peers, from)
	}
}
